#!/usr/bin/env bash
# Spark 4.3.0: `session_window`, whose windows are [start, end), with the last row and the gap as their end. A guess: a row at `end`
# is outside of the window and begins the next session, as a row at the end of a `window` does.
#
# Seen: it goes into the session and extends it: rows exactly one gap apart are one session, a microsecond more makes two.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyspark==4.3.0
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.functions import count, session_window

session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.session.timeZone", "UTC").config("spark.log.level", "OFF").getOrCreate()
)
start = datetime.datetime(2020, 1, 1)
rows = [(key, start + datetime.timedelta(seconds=second)) for key, second in (("a", 0), ("a", 10), ("b", 0), ("b", 10.000001))]
windows = (
    session.createDataFrame(rows, "key STRING, t TIMESTAMP").groupBy("key", session_window("t", "10 seconds").alias("w"))
    .agg(count("*").alias("n")).orderBy("key", "w").collect()
)
seen = [(row.key, (row.w.end - row.w.start).total_seconds(), row.n) for row in windows]
session.stop()
print(pyspark.__version__, seen)
assert seen == [("a", 20, 2), ("b", 10, 1), ("b", 10, 1)]
PYTHON
