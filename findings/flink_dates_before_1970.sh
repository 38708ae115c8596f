#!/usr/bin/env bash
# Flink 2.3.0, SQL: the date, the year and the hour of a timestamp before 1970. A guess: those of its text, as for all later times and
# as `DATE_FORMAT`, `FLOOR` and a cast to TEXT give them; DuckDB, Spark and Flink agree on later times.
#
# Seen: unless it is midnight, CAST to DATE and DAYOFMONTH give the next day (5 May 1960, 12:34 is 6 May; the last half second of 1969 is in
# 1970), and HOUR, MINUTE and SECOND are negative, -11, -25 and -3 for 12:34:56.789. A filter on the day takes the wrong rows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check apache-flink==2.3.0
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
from pyflink.table import EnvironmentSettings, TableEnvironment


def tables(settings):
    environment = TableEnvironment.create(settings)
    environment.get_config().set("parallelism.default", "1")
    environment.get_config().set("table.local-time-zone", "UTC")
    return environment


batch = tables(EnvironmentSettings.in_batch_mode())
times = ["1960-05-05 00:00:00", "1960-05-05 12:34:56.789", "1969-12-31 23:59:59.5", "2020-05-05 12:34:56.789"]
rows = ", ".join(f"(TIMESTAMP '{time}')" for time in times)


def select(expressions, where="TRUE"):
    return [tuple(row) for row in batch.execute_sql(f"SELECT {expressions} FROM (VALUES {rows}) r(t) WHERE {where}").collect()]


dates = [tuple(map(str, row)) for row in select("CAST(t AS DATE), DATE_FORMAT(t, 'yyyy-MM-dd'), CAST(FLOOR(t TO DAY) AS DATE)")]
parts = select("YEAR(t), DAYOFMONTH(t), HOUR(t), MINUTE(t), SECOND(t), DATE_FORMAT(t, 'HH:mm:ss')")
of_the_day = [str(time) for (time,) in select("DATE_FORMAT(t, 'yyyy-MM-dd HH:mm:ss')", "CAST(t AS DATE) = DATE '1960-05-05'")]
print(importlib.metadata.version("apache-flink"), dates, parts, of_the_day, sep="\n")
assert dates == [
    ("1960-05-05",) * 3, ("1960-05-06", "1960-05-05", "1960-05-05"), ("1970-01-01", "1969-12-31", "1969-12-31"), ("2020-05-05",) * 3,
]
assert parts == [
    (1960, 5, 0, 0, 0, "00:00:00"), (1960, 6, -11, -25, -3, "12:34:56"), (1970, 1, 0, 0, 0, "23:59:59"), (2020, 5, 12, 34, 56, "12:34:56"),
]
assert of_the_day == ["1960-05-05 00:00:00"]
PYTHON
