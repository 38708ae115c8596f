#!/usr/bin/env bash
# chdb 4.4.0 (ClickHouse in a process) and a column of Arrow's date64, days in milliseconds. A guess: it is a date with all its days, as
# date32 is and as date64 in a Parquet file is, or is refused.
#
# Seen: from memory it is a DateTime, seconds in 32 bits without a sign, and what does not fit wraps: 1960 is 2096 and 2200 is 2063. A
# filter takes the wrong rows, and back in Arrow the column is uint32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check chdb==4.4.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import chdb
import pyarrow as pa
import pyarrow.parquet as pq

days = [datetime.date(1960, 1, 1), datetime.date(2026, 1, 1), datetime.date(2200, 1, 1)]
narrow, wide = pa.table({"d": pa.array(days, pa.date32())}), pa.table({"d": pa.array(days, pa.date64())})
pq.write_table(wide, "wide.parquet")


def texts(table, condition="true"):
    rows = chdb.query(f"SELECT toString(toDate32(d)) AS day FROM {table} WHERE {condition}", "ArrowTable")
    return [row["day"] for row in rows.to_pylist()]


seen = {table: texts(table) for table in ("Python(narrow)", "file('wide.parquet')", "Python(wide)")}
late = texts("Python(wide)", "d > toDate32('2070-01-01')")
back = chdb.query("SELECT d FROM Python(wide)", "ArrowTable").schema.field("d").type
print(seen, late, back)
right = [str(day) for day in days]
assert seen["Python(narrow)"] == seen["file('wide.parquet')"] == right
assert [day[:4] for day in seen["Python(wide)"]] == ["2096", "2026", "2063"]
assert [day[:4] for day in late] == ["2096"] and back == pa.uint32()
PYTHON
