#!/usr/bin/env bash
# DuckDB 2.0.1, pandas and pyarrow 26.0.1 with an ordered Arrow dictionary (small < large, as polars exports an Enum). A guess:
# whoever knows ordered categories sorts by them; DuckDB's own ENUM compares by position.
#
# Seen: DuckDB reads the column as VARCHAR and sorts it as text, pandas sorts by position, pyarrow sorts no dictionary
# that is ordered. Going out, DuckDB marks its ENUM, which is ordered, as not ordered; so order is lost both ways.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1 pandas==3.0.0
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb
import pyarrow as pa

sizes = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), ["small", "large"], ordered=True)
rows = pa.table({"size": sizes})
kind = duckdb.sql("SELECT DISTINCT typeof(size) FROM rows").fetchall()
by_duckdb = [row[0] for row in duckdb.sql("SELECT size FROM rows ORDER BY size").fetchall()]
by_pandas = rows.to_pandas()["size"].sort_values().tolist()
own = duckdb.sql("SELECT 'small'::ENUM('small', 'large') < 'large'::ENUM('small', 'large')").fetchall()
out = duckdb.sql("SELECT 'small'::ENUM('small', 'large') AS size").arrow().read_all().schema
print(duckdb.__version__, pa.__version__, kind, by_duckdb, by_pandas, own, out)
assert kind == [("VARCHAR",)]
assert by_duckdb == ["large", "small"]
assert by_pandas == ["small", "large"]
assert own == [(True,)]
assert not out.field("size").type.ordered
try:
    rows.sort_by("size")
except pa.ArrowNotImplementedError as error:
    print(error)
else:
    raise SystemExit("pyarrow sorts ordered dictionaries now")
PYTHON
