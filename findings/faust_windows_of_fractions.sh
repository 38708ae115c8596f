#!/usr/bin/env bash
# faust-streaming 0.15.3: windows of a table, `HoppingWindow(size, step)` and `TumblingWindow(size)`, whose sizes are floats of seconds. A
# guess: windows begin at every multiple of the step and hold each row in one of them (tumbling) or in size / step of them (hopping).
#
# Seen: steps are cut to whole seconds. Windows of 10 s every 2.5 s begin every 2 s, so a row counts in five or six of them, which its
# neighbour does not; tumbling windows of 1.5 s begin every second and overlap, so rows count twice; a step below a second raises from
# `range`. A window's end is its size less 0.1 s: a row of 9.95 s is in the window 0 to 9.9.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check faust-streaming==0.15.3
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
from faust.windows import HoppingWindow, TumblingWindow


def starts(window, second):
    return [start for start, _ in window.ranges(second)]


whole = [starts(HoppingWindow(10, 5), second) for second in (12.0, 12.75, 14.9)]
hopping = [starts(HoppingWindow(10, 2.5), second) for second in (12.0, 12.75)]
tumbling = {second: starts(TumblingWindow(1.5), second) for second in (0.7, 1.2, 1.7)}
try:
    HoppingWindow(1, 0.5).ranges(12.0)
    short = None
except ValueError as error:
    short = str(error)
(last,) = TumblingWindow(10).ranges(9.95)
print(importlib.metadata.version("faust-streaming"), whole, hopping, tumbling, short, last)
assert whole == [[5.0, 10.0]] * 3
assert hopping == [[2.0, 4.0, 6.0, 8.0, 10.0, 12.0], [5.0, 7.0, 9.0, 11.0]]
assert tumbling == {0.7: [0.0], 1.2: [0.0, 1.0], 1.7: [1.0]}
assert short is not None and "zero" in short
assert last == (0.0, 9.9)
PYTHON
