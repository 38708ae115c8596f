#!/usr/bin/env bash
# DuckDB 2.0.1 exports TIME WITH TIME ZONE to Arrow, which has no such type. A guess: it is converted to UTC, as
# TIMESTAMP WITH TIME ZONE is, or refused.
#
# Seen: the offset is dropped and the local time kept, so two times that are 16 hours apart are equal in Arrow.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import duckdb

rows = duckdb.connect().sql(
    "SELECT TIMETZ '12:00:00+05' AS a, TIMETZ '12:00:00-11' AS b, TIMETZ '12:00:00+05' = TIMETZ '12:00:00-11' AS same"
).arrow().read_all()
print(duckdb.__version__, rows.schema, rows.to_pylist())
noon = datetime.time(12, 0)
assert rows.to_pylist() == [{"a": noon, "b": noon, "same": False}]
PYTHON
