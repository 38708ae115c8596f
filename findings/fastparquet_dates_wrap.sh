#!/usr/bin/env bash
# fastparquet 2026.9.0 and a column of dates (Parquet's DATE, days since 1970). A guess: a date outside of 1677 to 2262 is refused,
# or comes with a unit that holds it, as timestamps in microseconds do.
#
# Seen: dates are always made nanoseconds, and what does not fit wraps: the year 1 is read as 1754 and the year 9999 as 1816, in rows
# and in statistics, whose least and greatest then select the wrong row groups. Timestamps of the same days are right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check fastparquet==2026.9.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime

import fastparquet
import pyarrow as pa
import pyarrow.parquet as pq

days = [datetime.date(1, 1, 1), datetime.date(2013, 1, 1), datetime.date(9999, 12, 31)]
pq.write_table(pa.table({"day": days, "moment": pa.array(days).cast(pa.timestamp("us"))}), "days.parquet")
file = fastparquet.ParquetFile("days.parquet")
rows = file.to_pandas()
print(rows, file.statistics["min"])
assert [moment.year for moment in rows["day"]] == [1754, 2013, 1816]
assert [str(moment)[:4] for moment in rows["moment"].to_numpy()] == ["0001", "2013", "9999"]
assert str(file.statistics["min"]["day"][0])[:4] == "1754"
PYTHON
