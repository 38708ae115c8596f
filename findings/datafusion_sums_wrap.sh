#!/usr/bin/env bash
# datafusion 55.0.0: sums beyond the type of the sum. A guess: an error, as its own `avg` of decimals and `abs` of the least integer
# raise one, or a wider type, as in DuckDB 2.0.1.
#
# Seen: a sum of bigints wraps and is negative, and one of unsigned bigints begins at 0 again, as `+` and `*` do. A sum of
# decimal(38, 0) has 39 digits in a column of 38, which pyarrow 26.0.1 refuses in `validate(full=True)`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check datafusion==55.0.0 duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import decimal
import datafusion
import duckdb
import pyarrow as pa

rows = pa.table({
    "i": [2**63 - 1, 1],
    "u": pa.array([2**64 - 1, 1], pa.uint64()),
    "d": pa.array([decimal.Decimal("9" * 38), decimal.Decimal(1)], pa.decimal128(38, 0)),
})
context = datafusion.SessionContext()
context.from_arrow(rows, "t")
sums = context.sql("SELECT sum(i) AS i, sum(u) AS u, sum(d) AS d, max(i) + 1 AS p, max(i) * 2 AS m FROM t").to_arrow_table()
(seen,) = sums.to_pylist()
print(seen)
assert seen == {"i": -(2**63), "u": 0, "d": decimal.Decimal(10**38), "p": -(2**63), "m": -2}
assert sums.schema.field("d").type == pa.decimal128(38, 0)
assert duckdb.sql("SELECT sum(i), sum(u) FROM rows").fetchall() == [(2**63, 2**64)]
for refused in (lambda: sums.validate(full=True), lambda: context.sql("SELECT avg(d) FROM t").collect()):
    try:
        refused()
    except Exception as error:
        print(error)
    else:
        raise SystemExit("it is taken now")
PYTHON
