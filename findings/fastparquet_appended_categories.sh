#!/usr/bin/env bash
# fastparquet 2026.9.0: `write(..., append=True)` of a categorical column whose categories stand in another order, or are others, than in
# the rows before. A guess: each row keeps its value, since each row group has a dictionary of its own; or the append is refused.
#
# Seen: the file is right, and fastparquet reads all row groups with the dictionary of the last one: rows "a", "b" and then "b", "z" of
# categories (z, b) are read as z, b, b, z. pyarrow 26.0.1 and DuckDB 2.0.1 read what was written. fastparquet does with
# `to_pandas(categories=[])`, or one row group at a time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cd "$folder"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    fastparquet==2026.9.0 pandas==2.3.3 pyarrow==26.0.1 duckdb==2.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb
import fastparquet
import pandas as pd
import pyarrow.parquet as pq

fastparquet.write("x.parquet", pd.DataFrame({"c": pd.Categorical(["a", "b"])}))
fastparquet.write("x.parquet", pd.DataFrame({"c": pd.Categorical(["b", "z"], categories=["z", "b"])}), append=True)
file = fastparquet.ParquetFile("x.parquet")
whole = file.to_pandas()["c"].tolist()
plain = file.to_pandas(categories=[])["c"].tolist()
groups = [value for rows in file.iter_row_groups() for value in rows["c"]]
others = pq.read_table("x.parquet")["c"].to_pylist(), [row[0] for row in duckdb.sql("SELECT c FROM 'x.parquet'").fetchall()]
print(fastparquet.__version__, whole, plain, groups, others)
assert whole == ["z", "b", "b", "z"]
assert plain == groups == others[0] == others[1] == ["a", "b", "b", "z"]
PYTHON
