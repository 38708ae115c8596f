#!/usr/bin/env bash
# Flink 2.3.0, SQL: the start of a week by `FLOOR(t TO WEEK)` and its number by `EXTRACT(WEEK FROM t)`. A guess: weeks are those of ISO
# 8601 in both, from Monday on, as in `date_trunc('week', t)` of DuckDB 2.0.1, PostgreSQL and Spark.
#
# Seen: the number is that of ISO, and FLOOR and CEIL go to Sunday. Of a Sunday and the Monday after it the start is the same and the
# number is not, and a Saturday and the Sunday after it have two starts and one number, so weekly sums are off by a day from those of
# other engines. CEIL of a Sunday's noon is the midnight before it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check apache-flink==2.3.0 duckdb==2.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import duckdb
from pyflink.table import EnvironmentSettings, TableEnvironment

environment = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
environment.get_config().set("parallelism.default", "1")
days = ["2024-01-06 12:00:00", "2024-01-07 12:00:00", "2024-01-08 12:00:00", "2024-01-13 12:00:00"]
values = ", ".join(f"(TIMESTAMP '{day}')" for day in days)
query = f"SELECT CAST(FLOOR(t TO WEEK) AS STRING), CAST(CEIL(t TO WEEK) AS STRING), EXTRACT(WEEK FROM t) FROM (VALUES {values}) r(t) ORDER BY t"
seen = [(row[0][:10], row[1][:10], row[2]) for row in environment.execute_sql(query).collect()]
other = duckdb.sql(f"SELECT date_trunc('week', t)::DATE::TEXT, week(t) FROM (VALUES {values}) r(t) ORDER BY t").fetchall()
print(importlib.metadata.version("apache-flink"), duckdb.__version__, seen, other)
assert other == [("2024-01-01", 1), ("2024-01-01", 1), ("2024-01-08", 2), ("2024-01-08", 2)]
assert seen == [
    ("2023-12-31", "2024-01-07", 1),
    ("2024-01-07", "2024-01-07", 1),
    ("2024-01-07", "2024-01-14", 2),
    ("2024-01-07", "2024-01-14", 2),
]
PYTHON
