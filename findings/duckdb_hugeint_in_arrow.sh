#!/usr/bin/env bash
# DuckDB 2.0.1 exports HUGEINT (and sums of BIGINT, which are HUGEINT) to Arrow as decimal128(38, 0). A guess: a
# value that does not fit into 38 digits is refused, or the type is wider.
#
# Seen: the largest HUGEINT has 39 digits and stands in the column of 38; pyarrow 26.0.1 prints it in
# full and refuses it in `validate(full=True)`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb
import pyarrow as pa

largest = 2**127 - 1
rows = duckdb.connect().sql(f"SELECT {largest}::HUGEINT AS n").arrow().read_all()
print(duckdb.__version__, pa.__version__, rows.schema, rows.to_pylist())
assert rows.schema.field("n").type == pa.decimal128(38, 0)
assert int(rows["n"][0].as_py()) == largest
assert len(str(largest)) == 39
summed = duckdb.connect().sql("SELECT sum(range) AS n FROM range(3)").arrow().read_all()
assert summed.schema.field("n").type == pa.decimal128(38, 0)
try:
    rows.validate(full=True)
except pa.ArrowInvalid as error:
    print(error)
else:
    raise SystemExit("pyarrow takes this decimal now")
PYTHON
