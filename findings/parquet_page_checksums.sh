#!/usr/bin/env bash
# Parquet files whose pages have checksums (CRC-32 in each page's header), as pyarrow 26.0.1 writes them with `write_page_checksum=True`.
# A guess: a reader that meets one compares it, as readers of ORC or of zstd frames with a checksum do.
#
# Seen: a number changed in the file comes out as if it had been written from pyarrow itself, polars 2.1.0, DuckDB 2.0.1, DataFusion
# 55.0.0 and fastparquet 2026.9.0, without an error. Only pyarrow can compare, and does so when asked, by
# `page_checksum_verification=True`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cd "$folder"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    pyarrow==26.0.1 polars==2.1.0 duckdb==2.0.1 datafusion==55.0.0 fastparquet==2026.9.0 pandas==2.3.3
"$folder/venv/bin/python" - <<'PYTHON'
import datafusion
import duckdb
import fastparquet
import polars
import pyarrow as pa
import pyarrow.parquet as pq

rows = pa.table({"n": pa.array(range(1000, 1100), pa.int64())})
pq.write_table(rows, "x.parquet", write_page_checksum=True, compression="none", use_dictionary=False)
with open("x.parquet", "rb") as file:
    raw = file.read()
before, after = ((1000 + row).to_bytes(8, "little") for row in (50, 51))
assert raw.count(before) == 1
with open("x.parquet", "wb") as file:
    file.write(raw.replace(before, after))
seen = {
    "pyarrow": pq.read_table("x.parquet")["n"].to_pylist()[50],
    "polars": polars.read_parquet("x.parquet")["n"].to_list()[50],
    "DuckDB": duckdb.sql("SELECT n FROM 'x.parquet' LIMIT 1 OFFSET 50").fetchall()[0][0],
    "DataFusion": datafusion.SessionContext().read_parquet("x.parquet").to_pydict()["n"][50],
    "fastparquet": int(fastparquet.ParquetFile("x.parquet").to_pandas()["n"][50]),
}
try:
    pq.read_table("x.parquet", page_checksum_verification=True)
    asked = None
except OSError as error:
    asked = str(error)
print(pa.__version__, polars.__version__, duckdb.__version__, datafusion.__version__, fastparquet.__version__, seen, asked)
assert set(seen.values()) == {1051}
assert asked is not None and "CRC" in asked
PYTHON
