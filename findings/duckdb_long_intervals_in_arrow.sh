#!/usr/bin/env bash
# DuckDB 2.0.1 exports INTERVAL, which counts microseconds, to Arrow's interval, which counts nanoseconds in 64 bits. A guess: a longer
# time is carried over into days, or refused.
#
# Seen: it wraps: 3,000,000 hours (342 years) is a negative interval in Arrow, and right in `fetchall`. The longest time that a column
# of Arrow's duration[us] holds well, 2^62, comes out as no time at all. The other way nanoseconds of an interval or a duration are
# cut off.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import duckdb
import pyarrow as pa

query = "SELECT to_hours(2500000) AS short, to_hours(3000000) AS long"
(fetched,) = duckdb.sql(query).fetchall()
(exported,) = duckdb.sql(query).to_arrow_table().to_pylist()
print(fetched, exported)
assert fetched == (datetime.timedelta(hours=2500000), datetime.timedelta(hours=3000000))
hour = 3600 * 10**9
assert exported["short"] == pa.MonthDayNano([0, 0, 2500000 * hour])
assert exported["long"] == pa.MonthDayNano([0, 0, 3000000 * hour - 2**64]) and exported["long"].nanoseconds < 0

rows = pa.table({
    "far": pa.array([2**62], pa.duration("us")),
    "fine": pa.array([1999], pa.duration("ns")),
    "parts": pa.array([pa.MonthDayNano([1, 2, 1999])]),
})
(back,) = duckdb.sql("SELECT * FROM rows").to_arrow_table().to_pylist()
print(back)
assert back == {
    "far": pa.MonthDayNano([0, 0, 0]), "fine": pa.MonthDayNano([0, 0, 1000]), "parts": pa.MonthDayNano([1, 2, 1000])
}
PYTHON
