#!/usr/bin/env bash
# pyorc 0.12.0: integers that do not fit into the column's type. A guess: they are refused, as a bigint's are.
#
# Seen: a tinyint keeps the lowest eight bits (300 is 44); smallint and int keep the whole number in the file, so pyorc reads it back
# as it was written, and pyarrow 26.0.1 reads the lowest bits: one file, two answers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1 pyorc==0.12.0
"$folder/venv/bin/python" - <<'PYTHON'
import tempfile
import pyarrow as pa
import pyarrow.orc
import pyorc

path = tempfile.mkdtemp() + "/n.orc"
numbers = {"tinyint": 300, "smallint": 40_000, "int": 2**33 + 5}
with open(path, "wb") as file, pyorc.Writer(file, "struct<a:tinyint,b:smallint,c:int>") as writer:
    writer.write(tuple(numbers.values()))
with open(path, "rb") as file:
    by_pyorc = list(pyorc.Reader(file))
by_pyarrow = [tuple(row.values()) for row in pyarrow.orc.read_table(path).to_pylist()]
print(pyorc.__version__, pa.__version__, by_pyorc, by_pyarrow)
assert by_pyorc == [(44, 40_000, 2**33 + 5)]
assert by_pyarrow == [(44, 40_000 - 2**16, 5)]
try:
    with open(path, "wb") as file, pyorc.Writer(file, "struct<a:bigint>") as writer:
        writer.write((2**63,))
except TypeError as error:
    print(error)
else:
    raise SystemExit("a bigint takes 2^63 now")
PYTHON
