#!/usr/bin/env bash
# DuckDB 2.0.1: the date of a TIMESTAMP_NS. A guess: the day in which the time lies, as for the other timestamps.
#
# Seen: the time is rounded to microseconds first, so the last half microsecond of a year is a day of the next year; `date_trunc`,
# `time_bucket`, `year` and a cast to TIME go along, while comparison and `epoch_us` leave the time where it is. A row can fall
# into no bucket or two. `epoch_ms` raises for every TIMESTAMP_NS.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb

connection = duckdb.connect()
connection.execute("CREATE TABLE times AS SELECT TIMESTAMP_NS '2025-12-31 23:59:59.9999999' AS t")
query = """SELECT t::VARCHAR, t::DATE::VARCHAR, year(t), date_trunc('day', t)::VARCHAR,
    time_bucket(INTERVAL 1 day, t)::VARCHAR, t::TIME::VARCHAR, t < TIMESTAMP '2026-01-01', epoch_us(t) FROM times"""
row = connection.execute(query).fetchall()[0]
print(duckdb.__version__, row)
midnight = "2026-01-01 00:00:00"
assert row[0] == "2025-12-31 23:59:59.9999999"
assert row[1:6] == ("2026-01-01", 2026, midnight, row[4], "00:00:00")
assert row[4].startswith("2026-01-01")
assert row[6:] == (True, 1767225599999999)
try:
    connection.execute("SELECT epoch_ms(t) FROM times").fetchall()
except duckdb.ConversionException as error:
    print(error)
else:
    raise SystemExit("epoch_ms takes nanoseconds now")
PYTHON
