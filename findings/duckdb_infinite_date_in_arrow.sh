#!/usr/bin/env bash
# DuckDB 2.0.1 has infinite dates and timestamps, as PostgreSQL has. A guess: a reader sees the same value by
# `fetchall` and by Arrow.
#
# Seen: `fetchall` gives 9999-12-31, a date that is in real data; Arrow gets the greatest int32 of days, and
# pyarrow 26.0.1 raises OverflowError in `to_pylist`, so whoever prints a table fails at the first such row.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import duckdb
import pyarrow as pa

query = duckdb.connect().sql("SELECT 'infinity'::DATE AS d")
rows = query.arrow().read_all()
print(duckdb.__version__, pa.__version__, rows.schema, query.fetchall())
assert query.fetchall() == [(datetime.date(9999, 12, 31),)]
assert rows["d"].cast(pa.int32()).to_pylist() == [2**31 - 1]
rows.validate(full=True)  # sound to Arrow
try:
    rows.to_pylist()
except OverflowError as error:
    print(error)
else:
    raise SystemExit("to_pylist has a value for an infinite date now")
PYTHON
