#!/usr/bin/env bash
# DuckDB 2.0.1 and DataFusion 55.0.0 order NaN above all numbers, and Parquet's statistics leave it out. A guess: a filter takes
# the same rows from a table in memory and from the Parquet file of it, since such readers do not trust a largest value.
#
# Seen: of 0.1 and NaN in a file of pyarrow 26.0.1 `f > 0.5` loses NaN, `f < 0.5` takes it too, `f = NaN` finds nothing. With 1.0 in
# place of 0.1 `f > 0.5` takes NaN: its neighbours decide. deltalake 1.6.6, which asks DataFusion, deletes by the same rule: of
# the same two rows NaN stays if they share a file and goes if they do not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    datafusion==55.0.0 deltalake==1.6.6 duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import tempfile
import datafusion
import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

nan = float("nan")
folder = tempfile.mkdtemp()


def counted(values, condition):
    table = pa.table({"f": values})
    pq.write_table(table, f"{folder}/f.parquet")
    context = datafusion.SessionContext()
    context.from_arrow(table, name="in_memory")
    context.register_parquet("in_file", f"{folder}/f.parquet")
    query = f"SELECT count(*) AS n FROM {{}} WHERE {condition}"
    return [
        duckdb.sql(query.format('"table"')).fetchall()[0][0],
        duckdb.sql(query.format(f"'{folder}/f.parquet'")).fetchall()[0][0],
        *(context.sql(query.format(name)).to_pydict()["n"][0] for name in ("in_memory", "in_file")),
    ]


seen = {c: counted([0.1, nan], c) for c in ("f > 0.5", "f < 0.5", "f = CAST('NaN' AS DOUBLE)")}
print(duckdb.__version__, datafusion.__version__, seen)
assert seen == {"f > 0.5": [1, 0, 1, 0], "f < 0.5": [1, 2, 1, 2], "f = CAST('NaN' AS DOUBLE)": [1, 0, 1, 0]}
assert counted([1.0, nan], "f > 0.5") == [2, 2, 2, 2]
left = []
for files in ([[0.1, nan]], [[0.1], [nan]]):
    path = tempfile.mkdtemp(dir=folder)
    for values in files:
        deltalake.write_deltalake(path, pa.table({"f": values}), mode="append")
    deltalake.DeltaTable(path).delete("f > 0.5")
    left.append(len(deltalake.DeltaTable(path).to_pyarrow_table()))
print(deltalake.__version__, left)
assert left == [2, 1]
PYTHON
