#!/usr/bin/env bash
# streamz 0.6.6: `window(value="10s")` of a streaming DataFrame, and a row that comes late. A guess: the window holds the rows of the
# ten seconds up to the latest one, whatever the order in which they came, or the late row is refused.
#
# Seen: rows leave in the order in which they came, so a late row is counted until all that came before it have left, even one that
# was too old when it came: at second 20 the sum of the last ten seconds has rows of seconds 1 and 3 in it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check streamz==0.6.6 pandas==3.1.1
"$folder/venv/bin/python" - <<'PYTHON'
import pandas as pd
import streamz
from streamz import Stream
from streamz.dataframe import DataFrame

start = pd.Timestamp("2020-01-01")


def row(second, x):
    return pd.DataFrame({"x": [x]}, index=pd.DatetimeIndex([start + pd.Timedelta(seconds=second)]))


def sums(rows, of):
    source = Stream()
    seen = of(DataFrame(source, example=row(0, 0))).stream.sink_to_list()
    for second, x in rows:
        source.emit(row(second, x))
    return [int(value) for value in seen]


rows = [(0, 1), (12, 10), (3, 100), (13, 1000), (1, 10000), (20, 100000), (23, 1000000)]
right = [sum(x for t, x in rows[: i + 1] if t > max(t for t, _ in rows[: i + 1]) - 10) for i in range(len(rows))]
seen = sums(rows, lambda frame: frame.window(value="10s").x.sum())
print(streamz.__version__, right, seen, sep="\n")
assert right == [1, 10, 110, 1010, 1010, 101010, 1100000]
assert seen == [1, 10, 110, 1110, 11110, 111110, 1100000]
PYTHON
