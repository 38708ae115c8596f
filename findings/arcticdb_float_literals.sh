#!/usr/bin/env bash
# arcticdb 6.28.2: a filter or an expression of `QueryBuilder` with a number of Python's own type float, over columns of doubles and of
# 64-bit integers. A guess: the number is a double, as Python's floats are, so that `x == 0.1` finds the row that was written as 0.1, as
# `isin` does.
#
# Seen: the number becomes a float of 32 bits first. `x == 0.1` finds nothing and `x >= 0.1` leaves out 0.1 itself; `x == 1e300` is one with
# infinity. In a column of integers all values that are the same float of 32 bits are equal: `n == 1700000000.0` finds seconds that are up
# to 64 apart, and `n <= 1700000000.0` as well. `x * 0 + 0.1` is 0.10000000149011612. With `numpy.float64(0.1)` all are right. So who reads
# on from a time in seconds reads rows twice or never.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check arcticdb==6.28.2 numpy==2.4.6 pandas==2.3.3
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import arcticdb
import numpy
import pandas

library = arcticdb.Arctic("lmdb://store").create_library("rows")
seconds = [1_700_000_000 + more for more in (-65, -64, -1, 0, 1, 64, 65)]
library.write("doubles", pandas.DataFrame({"x": [0.1, 0.3, 1e300]}))
library.write("integers", pandas.DataFrame({"n": seconds}))


def found(symbol, column, condition):
    query = arcticdb.QueryBuilder()
    rows = library.read(symbol, query_builder=query[condition(query[column])]).data
    return rows[column].tolist()


def sums(number):
    query = arcticdb.QueryBuilder()
    return library.read("doubles", query_builder=query.apply("sum", query["x"] * 0 + number)).data["sum"].tolist()


seen = {
    "x == 0.1": found("doubles", "x", lambda x: x == 0.1),
    "x >= 0.1": found("doubles", "x", lambda x: x >= 0.1),
    "x == 1e300": found("doubles", "x", lambda x: x == 1e300),
    "x isin 0.1": found("doubles", "x", lambda x: x.isin([0.1])),
    "x == float64(0.1)": found("doubles", "x", lambda x: x == numpy.float64(0.1)),
    "n == 1700000000.0": [n - 1_700_000_000 for n in found("integers", "n", lambda n: n == 1_700_000_000.0)],
    "n <= 1700000000.0": [n - 1_700_000_000 for n in found("integers", "n", lambda n: n <= 1_700_000_000.0)],
    "n == 1700000000": [n - 1_700_000_000 for n in found("integers", "n", lambda n: n == 1_700_000_000)],
    "x * 0 + 0.1": sums(0.1),
    "x * 0 + float64(0.1)": sums(numpy.float64(0.1)),
}
print(*[f"{name} {importlib.metadata.version(name)}" for name in ("arcticdb", "numpy", "pandas")], *seen.items(), sep="\n")
assert seen["x == 0.1"] == [] and seen["x >= 0.1"] == [0.3, 1e300] and seen["x == 1e300"] == []
assert seen["x isin 0.1"] == seen["x == float64(0.1)"] == [0.1]
assert seen["n == 1700000000.0"] == [-64, -1, 0, 1, 64]
assert seen["n <= 1700000000.0"] == [-65, -64, -1, 0, 1, 64]
assert seen["n == 1700000000"] == [0]
assert seen["x * 0 + 0.1"] == [0.10000000149011612] * 3 and seen["x * 0 + float64(0.1)"] == [0.1] * 3
PYTHON
