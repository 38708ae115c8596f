#!/usr/bin/env bash
# Apache DataSketches for Python 5.2.0: `update` of a sketch takes one value or a numpy array. A guess: an array does what its values do
# one by one.
#
# Seen: a sketch of integers refuses 1.5 and 2^31 (TypeError), and takes both in an array: 1.9 counts as 1, and 2^32 + 5 as 5. So a
# quantile of a 64-bit column is taken from its lowest 32 bits without an error; numbers below zero come out of positive ones.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check datasketches==5.2.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import datasketches
import numpy

for kind in (datasketches.kll_ints_sketch, datasketches.quantiles_ints_sketch):
    sketch = kind(16)
    for value in (1.5, 2**31):
        try:
            sketch.update(value)
        except TypeError:
            continue
        raise SystemExit("single values are refused no more")
    ranges = []
    for values in ([1.9, -1.9], [2**32 + 5, 2**32 + 6], [2**31, 2**31 + 7]):
        sketch = kind(16)
        sketch.update(numpy.array(values))
        ranges.append((sketch.n, sketch.get_min_value(), sketch.get_max_value()))
    print(kind.__name__, ranges)
    assert ranges == [(2, -1, 1), (2, 5, 6), (2, -(2**31), 7 - 2**31)]
PYTHON
