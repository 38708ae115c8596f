#!/usr/bin/env bash
# DuckDB 2.0.1 has a time of day '24:00:00' (PostgreSQL has it too) and hands it to Arrow as it is. A guess:
# what one of these libraries exports, the others read, and all read the same.
#
# Seen: the column is time64[us] with 86,400,000,000, which pyarrow 26.0.1 refuses in `validate(full=True)`,
# shows as 00:00 in `to_pylist`, and polars 2.1.0 reads as null: three readers, three answers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import duckdb
import polars
import pyarrow as pa

rows = duckdb.connect().sql("SELECT TIME '24:00:00' AS t").arrow().read_all()
print(duckdb.__version__, pa.__version__, polars.__version__, rows.schema)
assert rows.schema.field("t").type == pa.time64("us")
assert rows["t"].cast(pa.int64()).to_pylist() == [86_400_000_000]
assert rows.to_pylist() == [{"t": datetime.time(0, 0)}]
assert polars.from_arrow(rows)["t"].to_list() == [None]
try:
    rows.validate(full=True)
except pa.ArrowInvalid as error:
    print(error)
else:
    raise SystemExit("pyarrow takes this time now")
PYTHON
