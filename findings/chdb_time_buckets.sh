#!/usr/bin/env bash
# chdb 4.4.0 (ClickHouse in a process) and timestamps of Arrow before 1970 or after 2106, which it reads well, as DateTime64. A guess: the
# start of the hour is the same by `date_trunc` and by `toStartOfHour`.
#
# Seen: `toStartOfHour`, `toStartOfDay` and `toStartOfInterval` give 1970 for every time before it, and 2106-02-07
# 06:28:15, which begins no hour, for every time after, so that all such rows are one bucket. `date_trunc` is right. `toDate` wraps:
# the last evening of 1969 is 2149-06-06, and 1960-05-05 is 2139-10-10.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check chdb==4.4.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import chdb
import pyarrow as pa

times = ["1960-05-05 12:30:30", "1969-12-31 23:30:00", "2026-05-05 12:30:30", "2199-05-05 12:30:30"]
rows = pa.table({"t": pa.array([datetime.datetime.fromisoformat(time) for time in times], pa.timestamp("us", "UTC"))})


def texts(expression):
    return [row["c"] for row in chdb.query(f"SELECT toString({expression}) AS c FROM Python(rows)", "ArrowTable").to_pylist()]


least, greatest = "1970-01-01 00:00:00", "2106-02-07 06:28:15"
seen = {
    name: texts(name)
    for name in ("t", "toStartOfHour(t)", "toStartOfInterval(t, INTERVAL 5 MINUTE)", "toStartOfDay(t)",
                 "date_trunc('hour', t)", "toDate(t)")
}
for name, values in seen.items():
    print(name, values)
assert seen["t"] == [f"{time}.000000" for time in times]
assert seen["toStartOfHour(t)"] == [least, least, "2026-05-05 12:00:00", greatest]
assert seen["toStartOfInterval(t, INTERVAL 5 MINUTE)"] == [least, least, "2026-05-05 12:30:00", greatest]
assert seen["toStartOfDay(t)"] == [least, least, "2026-05-05 00:00:00", greatest]
assert seen["date_trunc('hour', t)"] == ["1960-05-05 12:00:00", "1969-12-31 23:00:00", "2026-05-05 12:00:00", "2199-05-05 12:00:00"]
assert seen["toDate(t)"] == ["2139-10-10", "2149-06-06", "2026-05-05", "2019-11-29"]
PYTHON
