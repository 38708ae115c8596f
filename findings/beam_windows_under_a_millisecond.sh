#!/usr/bin/env bash
# Apache Beam 2.77.0 for Python (DirectRunner), whose timestamps and sizes of windows count microseconds: fixed windows finer than a
# millisecond, as for packets or trades. A guess: rows of different windows are in different groups, or such a size is refused.
#
# Seen: windows are cut to milliseconds when rows go to `GroupByKey` or `CombinePerKey`, so windows that begin and end in the same ones
# are one group. Of eight rows in four windows of 250 microseconds six are in one group, of the window [0, 0). Windows of 500 microseconds
# stay apart, with other bounds than they had, as do those of a third of a second. No error, no warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check apache-beam==2.77.0
"$folder/venv/bin/python" - <<'PYTHON'
import json
import apache_beam
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

SIZES = [250, 500, 1000]


class Note(apache_beam.DoFn):
    """Writes each row or group with its window's bounds to a file, since the runner works on copies of functions."""

    def __init__(self, path):
        self.path = path

    def process(self, row, window=apache_beam.DoFn.WindowParam):
        numbers = sorted(row[1]) if hasattr(row[1], "__iter__") else [row[1]]
        with open(self.path, "a") as file:
            file.write(json.dumps([numbers, window.start.micros, window.end.micros]) + "\n")


def noted(path):
    with open(path) as file:
        return sorted(json.loads(line) for line in file)


seen = {}
for size in SIZES:
    with apache_beam.Pipeline() as pipeline:
        rows = pipeline | "rows" >> apache_beam.Create(range(8))
        times = rows | "times" >> apache_beam.Map(lambda n, size: TimestampedValue(("key", n), Timestamp(micros=n * size // 2)), size)
        windows = times | "windows" >> apache_beam.WindowInto(FixedWindows(size / 1e6))
        windows | "assigned" >> apache_beam.ParDo(Note(f"{size}.assigned"))
        windows | "group" >> apache_beam.GroupByKey() | "grouped" >> apache_beam.ParDo(Note(f"{size}.grouped"))
    seen[size] = noted(f"{size}.assigned"), noted(f"{size}.grouped")
print(apache_beam.__version__, *seen.items(), sep="\n")
for size, (assigned, _) in seen.items():
    assert assigned == [[[n], n // 2 * size, (n // 2 + 1) * size] for n in range(8)]
assert seen[250][1] == [[[0, 1, 2, 3, 4, 5], 0, 0], [[6, 7], 0, 1000]]
assert seen[500][1] == [[[0, 1], 0, 0], [[2, 3], 0, 1000], [[4, 5], 1000, 1000], [[6, 7], 1000, 2000]]
assert seen[1000][1] == [[[n, n + 1], n * 500, n * 500 + 1000] for n in range(0, 8, 2)]
PYTHON
