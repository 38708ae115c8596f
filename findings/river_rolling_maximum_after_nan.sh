#!/usr/bin/env bash
# river 0.26.1: `RollingMax` and `RollingMin` of the last n numbers, one of which is NaN. A guess: NaN is passed over, as by `Max` and
# `Min`, or the result is NaN while it is among the last n.
#
# Seen: the window is kept sorted by comparison, which NaN breaks, so another number than the one that leaves is taken out. Of 5, NaN
# and then 1 for ever the maximum of the last three is 5 for ever; a new RollingMax gives 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check river==0.26.1
"$folder/venv/bin/python" - <<'PYTHON'
import river
from river import stats

nan = float("nan")


def last(statistic, values):
    for value in values:
        statistic.update(value)
    return statistic.get()


seen = {
    "after NaN": last(stats.RollingMax(3), [5.0, nan] + [1.0] * 1000),
    "least, after NaN": last(stats.RollingMin(3), [1.0, nan] + [5.0] * 1000),
    "without NaN": last(stats.RollingMax(3), [5.0] + [1.0] * 1000),
    "of all": last(stats.Max(), [1.0, nan, 2.0, 1.0]),
}
print(river.__version__, seen)
assert seen == {"after NaN": 5.0, "least, after NaN": 5.0, "without NaN": 1.0, "of all": 2.0}
PYTHON
