#!/usr/bin/env bash
# datafusion 55.0.0 and Parquet files with Bloom filters, which DuckDB 2.0.1 writes for any column that it keeps in a dictionary, and
# DataFusion itself when it is asked to. A guess: a filter by `x = 0.0` finds a row of -0.0, as it does in the same file without the Bloom
# filter, since the one who looks into the Bloom filter asks for both zeros.
#
# Seen: the row is lost without an error, in files of both writers: only the bits of the literal are looked up, and a row group whose only
# zero is -0.0 is passed over. DuckDB, polars 2.1.0 and pyarrow 26.0.1 find all rows in the same files. So a query's answer depends on
# whether DuckDB found few enough values for a dictionary.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check datafusion==55.0.0 duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datafusion
import duckdb
import polars
import pyarrow
import pyarrow.compute
import pyarrow.parquet

rows = pyarrow.table({"x": pyarrow.array([-1.0, -0.0, 1.0] * 1000, pyarrow.float64())})
setting = "datafusion.execution.parquet.bloom_filter_on_write"
for name, value in (("plain", "false"), ("bloom", "true")):
    context = datafusion.SessionContext(datafusion.SessionConfig().set(setting, value))
    context.from_arrow(rows, "t")
    context.sql(f"COPY t TO '{name}.parquet' STORED AS PARQUET").collect()
duckdb.sql("COPY (SELECT x FROM rows) TO 'duckdb.parquet' (FORMAT parquet)")
seen = {}
for name in ("plain", "bloom", "duckdb"):
    path = f"{name}.parquet"
    context = datafusion.SessionContext()
    context.register_parquet("file", path)
    seen[name] = {
        "has a Bloom filter": pyarrow.parquet.read_metadata(path).row_group(0).column(0).bloom_filter_offset is not None,
        "datafusion": context.sql("SELECT count(*) AS n FROM file WHERE x = 0.0").to_pydict()["n"][0],
        "duckdb": duckdb.sql(f"SELECT count(*) FROM '{path}' WHERE x = 0.0").fetchall()[0][0],
        "polars": polars.scan_parquet(path).filter(polars.col("x") == 0.0).collect().height,
        "pyarrow": pyarrow.parquet.read_table(path, filters=pyarrow.compute.field("x") == 0.0).num_rows,
    }
print(datafusion.__version__, duckdb.__version__, polars.__version__, pyarrow.__version__, *seen.items(), sep="\n")
for name, counts in seen.items():
    assert counts.pop("has a Bloom filter") == (name != "plain")
    assert counts == {"datafusion": 1000 if name == "plain" else 0, "duckdb": 1000, "polars": 1000, "pyarrow": 1000}
PYTHON
