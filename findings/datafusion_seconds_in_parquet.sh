#!/usr/bin/env bash
# datafusion 55.0.0: `write_parquet` and COPY of timestamps in seconds, dates in milliseconds (date64) and times in seconds, which
# Parquet has no types for. A guess: they are made finer, as pyarrow 26.0.1 does it (milliseconds, DATE), or refused.
#
# Seen: they are plain INT64 and INT32 in the file, so numbers to pyarrow and DuckDB 2.0.1, and zones are lost. DataFusion itself and
# polars 2.1.0 read them as times, by Arrow's schema in the footer, so what was written looks right until something else reads it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check datafusion==55.0.0 duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import glob
import datafusion
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

types = {"t": pa.timestamp("s"), "z": pa.timestamp("s", "UTC"), "d": pa.date64(), "o": pa.time32("s"), "ms": pa.timestamp("ms")}
table = pa.table({name: pa.array([0, None], of_type) for name, of_type in types.items()})
context = datafusion.SessionContext()
context.from_arrow(table, "rows").write_parquet("written")
context.sql("COPY rows TO 'copied.parquet'").collect()
pq.write_table(table, "pyarrow.parquet")
(written,) = glob.glob("written") if glob.glob("written/*") == [] else glob.glob("written/*")
seen = {}
for path in (written, "copied.parquet", "pyarrow.parquet"):
    back = pa.schema(context.read_parquet(path).schema())
    kinds = duckdb.sql(f"FROM '{path}'").types
    seen[path] = (
        [str(of_type) for of_type in pq.read_schema(path).types], [str(kind) for kind in kinds],
        [str(kind) for kind in polars.read_parquet(path).dtypes], [str(of_type) for of_type in back.types],
    )
print(datafusion.__version__, *seen.items(), sep="\n")
for path in (written, "copied.parquet"):
    by_pyarrow, by_duckdb, by_polars, by_datafusion = seen[path]
    assert by_pyarrow == ["int64", "int64", "int64", "int32", "timestamp[ms]"]
    assert by_duckdb[:4] == ["BIGINT", "BIGINT", "BIGINT", "INTEGER"]
    assert by_polars[3] == "Time" and all(kind.startswith("Datetime(time_unit='ms'") for kind in by_polars[:3])
    assert by_datafusion == ["timestamp[s]", "timestamp[s, tz=UTC]", "date64[ms]", "time32[s]", "timestamp[ms]"]
assert seen["pyarrow.parquet"][0][:4] == ["timestamp[ms]", "timestamp[ms, tz=UTC]", "date32[day]", "time32[ms]"]
PYTHON
