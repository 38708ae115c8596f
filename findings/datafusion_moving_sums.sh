#!/usr/bin/env bash
# datafusion 55.0.0: `sum`, `avg` and `stddev` over a frame that moves (ROWS or RANGE BETWEEN 1 PRECEDING AND CURRENT ROW). A guess: the
# result is that of the rows in the frame, as DuckDB 2.0.1 gives it and as DataFusion's own `max` does.
#
# Seen: what enters is added and what leaves is subtracted from one running value. After one NaN all later sums are NaN, after an
# infinity too, and after 1e300 the sum of 1.0 and 2.0 is 0.0 and all later ones are off by 3. One bad row spoils its whole partition.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check datafusion==55.0.0 duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datafusion
import duckdb
import pyarrow as pa

nan, infinity = float("nan"), float("inf")
rows = pa.table({
    "k": [1, 2, 3, 4],
    "nothing": [nan, 1.0, 2.0, 3.0],
    "infinite": [infinity, 1.0, 2.0, 3.0],
    "huge": [1e300, 1.0, 2.0, 3.0],
})
context = datafusion.SessionContext()
context.from_arrow(rows, "rows_seen")


def both(function, column, kind):
    query = f"SELECT {function}({column}) OVER (ORDER BY k {kind} BETWEEN 1 PRECEDING AND CURRENT ROW) AS s, k FROM %s ORDER BY k"
    ours = context.sql(query % "rows_seen").to_arrow_table()["s"].to_pylist()
    return str(ours[2:]), str([row[0] for row in duckdb.sql(query % "rows").fetchall()][2:])


for kind in ("ROWS", "RANGE"):
    seen = {column: both("sum", column, kind) for column in ("nothing", "infinite", "huge")}
    print(kind, seen)
    assert seen["nothing"] == seen["infinite"] == ("[nan, nan]", "[3.0, 5.0]")
    assert seen["huge"] == ("[0.0, 2.0]", "[3.0, 5.0]")
assert both("avg", "huge", "ROWS") == ("[0.0, 1.0]", "[1.5, 2.5]")
assert both("stddev", "huge", "ROWS")[0] == "[nan, nan]"
assert both("max", "nothing", "ROWS") == both("max", "huge", "ROWS") == ("[2.0, 3.0]", "[2.0, 3.0]")
PYTHON
