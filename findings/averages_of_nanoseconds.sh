#!/usr/bin/env bash
# chdb 4.4.0 (ClickHouse in a process) and pathway 0.33.0: `avg` of a column of 64-bit integers, such as times in nanoseconds. A guess: the
# average lies between the least and the greatest value, whatever the sum, since it is a float: so it is in DuckDB 2.0.1, polars
# 2.1.0, DataFusion 55.0.0 and pyarrow 26.0.1, where the sum of the same column wraps or is wider.
#
# Seen: both keep the sum in 64 bits, which six times of our days overflow: their average is a time before 1970, without an error.
# Five are averaged well, so a test with a few rows passes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    chdb==4.4.0 datafusion==55.0.0 duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
python3 -m venv "$folder/pathway"
"$folder/pathway/bin/python" -m pip install --quiet --disable-pip-version-check pathway==0.33.0
"$folder/venv/bin/python" - <<'PYTHON'
import chdb
import datafusion
import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc


def averages(count):
    rows = pa.table({"t": [1_700_000_000_000_000_000 + number for number in range(count)]})
    context = datafusion.SessionContext()
    context.from_arrow(rows, "rows")
    return {
        "chdb": float(chdb.query("SELECT avg(t) FROM Python(rows)").bytes().decode()),
        "duckdb": duckdb.sql("SELECT avg(t) FROM rows").fetchall()[0][0],
        "polars": polars.from_arrow(rows)["t"].mean(),
        "datafusion": context.sql("SELECT avg(t) AS a FROM rows").to_pylist()[0]["a"],
        "pyarrow": pc.mean(rows["t"]).as_py(),
    }


five, six = averages(5), averages(6)
print(chdb.__version__, five, six, sep="\n")
assert set(five.values()) == {1.7e18}
assert six.pop("chdb") < -1.3e18
assert set(six.values()) == {1.7e18}
PYTHON
"$folder/pathway/bin/python" - <<'PYTHON'
import pathway


class Row(pathway.Schema):
    t: int


def average(count):
    times = [(1_700_000_000_000_000_000 + number,) for number in range(count)]
    rows = pathway.debug.table_from_rows(Row, times)
    result = rows.reduce(a=pathway.reducers.avg(pathway.this.t))
    return float(pathway.debug.table_to_pandas(result)["a"].iloc[0])


five, six = average(5), average(6)
print(pathway.__version__, five, six)
assert five == 1.7e18 and six < -1.3e18
PYTHON
