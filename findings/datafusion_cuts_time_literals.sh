#!/usr/bin/env bash
# datafusion 55.0.0, and pylance 14.0.2, whose filters are built on it: a filter compares timestamps in seconds or milliseconds with a
# time that is finer. A guess: the column is widened, so that no second equals 0.9 s, as it is where the time comes from a column.
#
# Seen: a literal is cut to the column's unit instead, towards zero, whatever the operator: `s = 0.9 s` finds 0 s, `s < 0.9 s` does not,
# `s = -0.5 s` finds 0 s too. Of the same comparison with a column of nanoseconds all rows are right, as of DuckDB 2.0.1. Lance
# deletes by it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    datafusion==55.0.0 duckdb==2.0.1 pylance==14.0.2 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datafusion
import duckdb
import lance
import pyarrow as pa

counts = pa.array([-1, 0, 1])
rows = pa.table({
    "n": counts, "s": counts.cast(pa.timestamp("s")), "ms": counts.cast(pa.timestamp("ms")),
    "nine_tenths": pa.array([900_000_000] * 3).cast(pa.timestamp("ns")),
})
context = datafusion.SessionContext()
context.from_arrow(rows, "rows_seen")
dataset = lance.write_dataset(rows, "rows.lance")


def found(condition):
    return context.sql(f"SELECT n FROM rows_seen WHERE {condition} ORDER BY n").to_arrow_table()["n"].to_pylist()


for condition, seen, right in (
    ("s = timestamp '1970-01-01 00:00:00.9'", [0], []),
    ("s < timestamp '1970-01-01 00:00:00.9'", [-1], [-1, 0]),
    ("s >= timestamp '1970-01-01 00:00:00.9'", [0, 1], [1]),
    ("s = timestamp '1969-12-31 23:59:59.5'", [0], []),
    ("ms < timestamp '1970-01-01 00:00:00.0009'", [-1], [-1, 0]),
):
    by_duckdb = [row[0] for row in duckdb.sql(f"SELECT n FROM rows WHERE {condition} ORDER BY n").fetchall()]
    print(condition, found(condition), by_duckdb)
    assert found(condition) == dataset.to_table(filter=condition)["n"].to_pylist() == seen
    assert by_duckdb == right
assert (found("s = nine_tenths"), found("s < nine_tenths"), found("s >= nine_tenths")) == ([], [-1, 0], [1])
dataset.delete("s = timestamp '1970-01-01 00:00:00.9'")
assert dataset.to_table()["n"].to_pylist() == [-1, 1]
PYTHON
