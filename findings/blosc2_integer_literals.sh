#!/usr/bin/env bash
# blosc2 4.14.1 (Python): a comparison of a column or an array of integers with a number, in an `NDArray`, and in `where` of a `CTable`, its
# tables that grow by rows. A guess: integers are compared as integers, as numpy compares them, so that `n == 2^53 + 1` finds that row.
#
# Seen: of 64-bit integers both sides go through doubles: 2^53 + 1 is not found and 2^53 is, and of times in nanoseconds "equal" and "from
# this one on" take the row before. In narrow columns the number is cut to the column's type: in int8 `n == 300` finds 44, `n < 300` leaves
# 44 out, and `n < 1.5` leaves out 1. `isin` is right, as are columns of timestamps. So a reader that goes on behind the last id or time
# that it has, or an update by id, takes the neighbour.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check blosc2==4.14.1 numpy==2.4.6 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import blosc2
import numpy
import pyarrow

time = 1_700_000_000_000_000_000
values = numpy.array([2**53, 2**53 + 1, time, time + 1])
narrow = numpy.array([44, 1, -1], "int8")
wide_table = blosc2.CTable.from_arrow(pyarrow.table({"n": values}))
narrow_table = blosc2.CTable.from_arrow(pyarrow.table({"n": narrow}))
times_table = blosc2.CTable.from_arrow(pyarrow.table({"t": pyarrow.array([time, time + 1], pyarrow.timestamp("ns"))}))


def where(table, condition):
    return table.where(condition).to_arrow()["n"].to_pylist()


def array(numbers, condition):
    return numbers[condition(blosc2.asarray(numbers))[:]].tolist()


at_time = times_table.where(times_table["t"] == numpy.datetime64(time + 1, "ns")).to_arrow()["t"]
seen = {
    "numpy": [values[values == 2**53 + 1].tolist(), narrow[narrow == 300].tolist(), narrow[narrow < 300].tolist()],
    "array == 2^53 + 1": array(values, lambda n: n == 2**53 + 1),
    "where text": where(wide_table, f"n == {2**53 + 1}"),
    "where column": where(wide_table, wide_table["n"] == 2**53 + 1),
    "where !=": where(wide_table, f"n != {2**53 + 1}"),
    "where >= time + 1": where(wide_table, f"n >= {time + 1}"),
    "isin": where(wide_table, wide_table["n"].isin([2**53 + 1])),
    "timestamp == time + 1": at_time.cast(pyarrow.int64()).to_pylist(),
    "int8 array == 300": array(narrow, lambda n: n == 300),
    "int8 == 300": where(narrow_table, "n == 300"),
    "int8 < 300": where(narrow_table, "n < 300"),
    "int8 < 1.5": where(narrow_table, "n < 1.5"),
}
print(*[f"{name} {importlib.metadata.version(name)}" for name in ("blosc2", "numpy")], *seen.items(), sep="\n")
assert seen["numpy"] == [[2**53 + 1], [], [44, 1, -1]]
assert seen["array == 2^53 + 1"] == seen["where text"] == seen["where column"] == [2**53]
assert seen["where !="] == [2**53 + 1, time, time + 1]
assert seen["where >= time + 1"] == [time, time + 1]
assert seen["isin"] == [2**53 + 1] and seen["timestamp == time + 1"] == [time]
assert seen["int8 array == 300"] == seen["int8 == 300"] == [44]
assert seen["int8 < 300"] == [1, -1] and seen["int8 < 1.5"] == [-1]
PYTHON
