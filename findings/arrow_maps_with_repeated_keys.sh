#!/usr/bin/env bash
# An Arrow map that has a key twice, which the format leaves to applications. A guess: `validate(full=True)` says whether
# other libraries take a map.
#
# Seen: pyarrow 26.0.1 validates it, and shows both entries, or the last one as a dict with a warning; polars 2.1.0 keeps both; DuckDB
# 2.0.1 refuses to read the column at all.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import warnings
import duckdb
import polars
import pyarrow as pa

maps = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))
maps.validate(full=True)
rows = pa.table({"m": maps})
with warnings.catch_warnings(record=True):
    warnings.simplefilter("always")
    lossy = maps.to_pylist(maps_as_pydicts="lossy")
print(pa.__version__, polars.__version__, duckdb.__version__, maps.to_pylist(), lossy)
assert maps.to_pylist() == [[("a", 1), ("a", 2)]]
assert lossy == [{"a": 2}]
assert str(polars.from_arrow(rows)).count('"a"') == 2
try:
    duckdb.sql("SELECT m FROM rows").fetchall()
except duckdb.InvalidInputException as error:
    print(error)
else:
    raise SystemExit("DuckDB takes a key twice now")
PYTHON
