#!/usr/bin/env bash
# ADBC's SQLite driver 1.13.0 and a column whose rows differ in type, as SQLite allows; the driver takes the widest of the first 1024.
# A guess: where numbers become text it is the text that SQLite makes of them, and what a double cannot hold raises.
#
# Seen: doubles are written with six digits behind the point, so 1.23456789012 before a text is 1.234568e+00, and 1.0 is
# 1.000000e+00; 2^53 + 1 before a double is 2^53. After the 1024th row the same mixture raises.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    adbc-driver-manager==1.13.0 adbc-driver-sqlite==1.13.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import sqlite3
import adbc_driver_sqlite
import adbc_driver_sqlite.dbapi


def column(query):
    with adbc_driver_sqlite.dbapi.connect() as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetch_arrow_table()["a"].to_pylist()


numbers = "SELECT 1.23456789012 AS a UNION ALL SELECT 1.0 UNION ALL SELECT 'x'"
texts = column(numbers)
by_sqlite = [row[0] for row in sqlite3.connect(":memory:").execute(f"SELECT CAST(a AS TEXT) FROM ({numbers})")]
integers = column("SELECT 9007199254740993 AS a UNION ALL SELECT 0.5")
print(adbc_driver_sqlite.__version__, texts, by_sqlite, integers)
assert texts == ["1.234568e+00", "1.000000e+00", "x"]
assert by_sqlite == ["1.23456789012", "1.0", "x"]
assert integers == [9007199254740992.0, 0.5]
try:
    column(
        "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 1024)"
        " SELECT i AS a FROM r UNION ALL SELECT 0.5"
    )
except OSError as error:
    print(error)
else:
    raise SystemExit("the driver takes late doubles now")
PYTHON
