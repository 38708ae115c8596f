#!/usr/bin/env bash
# A slice of a sparse union, handed over by Arrow's C data interface. A guess: whoever can import a sparse union imports the same rows,
# sliced or not, as for all other types.
#
# Seen: arro3-core 0.9.1, datafusion 55.0.0 and nanoarrow's `to_pylist` (0.9.0) take the right type codes and the values of the first
# rows: rows 1 and 2 of 1, 'x', 3, 'z' arrive as 'w' and 2, which were never rows at all. pyarrow 26.0.1 exports them well: DuckDB
# 2.0.1 reads 'x' and 3, and so does pyarrow itself through nanoarrow, and arro3 from an IPC stream.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    arro3-core==0.9.1 arro3-io==0.9.1 datafusion==55.0.0 duckdb==2.0.1 nanoarrow==0.9.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import io
import arro3.core
import arro3.io
import datafusion
import duckdb
import nanoarrow
import pyarrow as pa

codes = pa.array([0, 1, 0, 1], pa.int8())
union = pa.UnionArray.from_sparse(codes, [pa.array([1, 2, 3, 4]), pa.array(["w", "x", "y", "z"])])
rows = pa.table({"c": union}).slice(1, 2)
rows.validate(full=True)
stream = io.BytesIO()
with pa.ipc.new_stream(stream, rows.schema) as writer:
    writer.write_table(rows)
stream.seek(0)
seen = {
    "pyarrow": rows["c"].to_pylist(),
    "pyarrow by nanoarrow": pa.array(nanoarrow.Array(union[1:3])).to_pylist(),
    "duckdb": [row[0] for row in duckdb.sql("SELECT c FROM rows").fetchall()],
    "arro3 of a stream": pa.table(arro3.io.read_ipc_stream(stream))["c"].to_pylist(),
    "nanoarrow": nanoarrow.Array(union[1:3]).to_pylist(),
    "arro3": pa.table(arro3.core.Table.from_arrow(rows))["c"].to_pylist(),
    "arro3 of an array": pa.array(arro3.core.Array.from_arrow(union[1:3])).to_pylist(),
    "datafusion": datafusion.SessionContext().from_arrow(rows).to_arrow_table()["c"].to_pylist(),
}
print(seen)
values = list(seen.values())
assert values[:4] == [["x", 3]] * 4
assert values[4:] == [["w", 2]] * 4
assert datafusion.SessionContext().from_arrow(pa.table({"c": union})).to_arrow_table()["c"].to_pylist() == [1, "x", 3, "z"]
PYTHON
