#!/usr/bin/env bash
# ddsketch 3.0.1: `add(value, weight)` takes any positive weight, such as a rate of sampling or a decay. A guess: quantiles depend on how
# the weights compare, so that the same weight for all rows gives the quantiles of no weight.
#
# Seen: while all weights add up to less than one, the median of 10, 20 and 30 is about -1, a value below all that were added; with
# weights of 0.5 it is 10. The rank is taken from the sum of weights less one, whatever the weights are. `avg` is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check ddsketch==3.0.1
"$folder/venv/bin/python" - <<'PYTHON'
from ddsketch import DDSketch


def median(values, weight):
    sketch = DDSketch(0.01)
    for value in values:
        sketch.add(value, weight)
    assert abs(sketch.avg - sum(values) / len(values)) < 1e-9
    return sketch.get_quantile_value(0.5)


seen = {weight: median([10, 20, 30], weight) for weight in (1.0, 100.0, 0.5, 0.1)}
print(seen)
assert abs(seen[1.0] - 20) < 0.2 and abs(seen[100.0] - 20) < 0.2
assert abs(seen[0.5] - 10) < 0.1 and -1.01 < seen[0.1] < -0.98
PYTHON
