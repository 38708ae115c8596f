#!/usr/bin/env bash
# datafusion 55.0.0: `array_has_all(list, other)` where the list is null. A guess: null, as `array_has_all(null, [1])` gives and as
# DuckDB's `list_has_all` gives for both.
#
# Seen: true where the other list is empty, so that a filter by "has all of these" lets rows with no list through once nothing is
# asked for; null otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check datafusion==55.0.0 duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datafusion
import duckdb

context = datafusion.SessionContext()
asked = "{0}(cast(null as bigint[]), {1}) as nothing, {0}(cast(null as bigint[]), {2}) as one"
[theirs] = context.sql("SELECT " + asked.format("array_has_all", "make_array()", "make_array(1)")).to_pylist()
others = duckdb.sql("SELECT " + asked.format("list_has_all", "[]", "[1]")).fetchall()
print(theirs, others)
assert theirs == {"nothing": True, "one": None}
assert others == [(None, None)]
PYTHON
