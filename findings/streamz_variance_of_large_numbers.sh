#!/usr/bin/env bash
# streamz 0.6.6: `var` and `std` of a window or of groups of a streaming DataFrame. A guess: they are those of pandas for the same rows,
# but for the last digits.
#
# Seen: they are taken from sums and sums of squares. Of 1e9, 1e9 + 1 and 1e9 + 2, which is 1.0 in pandas, the variance is 0.0, and of
# the same at 1e8 it is 3.0; the standard deviation of 0.1 three times is NaN. Times in seconds are such numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check streamz==0.6.6 pandas==3.1.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import math
import pandas as pd
import streamz
from streamz import Stream
from streamz.dataframe import DataFrame


def last(values, of):
    frame = pd.DataFrame({"k": ["a"] * len(values), "x": values})
    source = Stream()
    seen = of(DataFrame(source, example=frame[:1])).stream.sink_to_list()
    for row in range(len(frame)):
        source.emit(frame[row : row + 1])
    return float(seen[-1].iloc[0] if hasattr(seen[-1], "iloc") else seen[-1])


def window(frame):
    return frame.window(n=3).x.var()


large, less_large, same = [1e9, 1e9 + 1, 1e9 + 2], [1e8, 1e8 + 1, 1e8 + 2], [0.1, 0.1, 0.1]
right = [pd.Series(values).var() for values in (large, less_large)]
seen = [last(large, window), last(less_large, window), last(large, lambda frame: frame.groupby("k").x.var())]
deviation = last(same, lambda frame: frame.window(n=3).x.std())
print(streamz.__version__, right, seen, deviation)
assert right == [1.0, 1.0]
assert seen == [0.0, 3.0, 0.0]
assert math.isnan(deviation) and pd.Series(same).std() < 1e-9
PYTHON
