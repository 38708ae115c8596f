#!/usr/bin/env bash
# Parquet's statistics of text, as written by polars 2.1.0, DataFusion 55.0.0 and deltalake 1.6.6. A guess: `statistics.max` in pyarrow
# 26.0.1 is the greatest value of the row group, as for numbers, so the last key of a file can be taken from its footer.
#
# Seen: texts and bytes of more than 64 bytes are cut there and the last character is raised, so the maximum is a text that no row has, and
# that is greater than all; the minimum is less than all. Parquet has a flag for it: pyarrow does not show it, and polars does
# not write it (DuckDB 2.0.1 shows no flag there, and "not exact" for the other two). pyarrow and DuckDB write whole values.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    datafusion==55.0.0 deltalake==1.6.6 duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import glob
import datafusion
import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

keys = ["a" * 100, "b" * 100 + "tail"]
table = pa.table({"key": keys, "raw": [key.encode() for key in keys]})
polars.from_arrow(table).write_parquet("polars.parquet")
datafusion.SessionContext().from_arrow(table).write_parquet("datafusion")
deltalake.write_deltalake("delta", table)
pq.write_table(table, "pyarrow.parquet")
duckdb.from_arrow(table).write_parquet("duckdb.parquet")
seen = {}
for name in ("polars", "datafusion", "delta", "pyarrow", "duckdb"):
    (path,) = glob.glob(f"{name}.parquet") + glob.glob(f"{name}/**/*.parquet", recursive=True)
    columns = pq.ParquetFile(path).metadata.row_group(0)
    statistics = [columns.column(index).statistics for index in (0, 1)]
    flags = duckdb.sql(f"SELECT min_is_exact, max_is_exact FROM parquet_metadata('{path}')").fetchall()[0]
    seen[name] = (statistics[0].min, statistics[0].max, statistics[1].max, flags)
    assert pq.read_table(path)["key"].to_pylist() == keys
    assert not any("exact" in attribute for attribute in dir(statistics[0]))
print(pa.__version__, seen)
cut = ("a" * 64, "b" * 63 + "c", b"b" * 63 + b"c")
assert seen["polars"] == (*cut, (None, None))
assert seen["datafusion"] == seen["delta"] == (*cut, (False, False))
assert seen["pyarrow"] == seen["duckdb"] == (*keys, keys[1].encode(), (True, True))
PYTHON
