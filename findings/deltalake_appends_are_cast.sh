#!/usr/bin/env bash
# deltalake 1.6.6: `write_deltalake(..., mode="append")` with columns of other types than the table has. Its guide says that a schema
# that does not match is refused. A guess: so it is, unless nothing can be lost.
#
# Seen: a column less is refused, other types are cast: 1.9 becomes 1, True 1, "12" is parsed, 1.239 rounded to 1.24, and a number
# in a column of text is text. An error comes only from a value that cannot be cast, so whether a program fails depends on its rows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import tempfile
import deltalake
import pyarrow as pa

path = tempfile.mkdtemp()
price = pa.decimal128(5, 2)
deltalake.write_deltalake(path, pa.table({"n": [1], "word": ["a"], "price": pa.array([1], price)}))
for values in ((1.9, 7, 1.239), ("12", True, "1.239"), (True, 1.5, 2)):
    columns = dict(zip(("n", "word", "price"), ([value] for value in values), strict=True))
    deltalake.write_deltalake(path, pa.table(columns), mode="append")
rows = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
seen = sorted((row["n"], row["word"], str(row["price"])) for row in rows)
print(deltalake.__version__, seen)
assert seen == [(1, "1.5", "2.00"), (1, "7", "1.24"), (1, "a", "1.00"), (12, "true", "1.24")]
for refused in (pa.table({"n": [1], "word": ["a"]}), pa.table({"n": ["x"], "word": ["a"], "price": ["1"]})):
    try:
        deltalake.write_deltalake(path, refused, mode="append")
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
    else:
        raise SystemExit("taken now")
PYTHON
