#!/usr/bin/env bash
# Apache DataSketches for Python 5.2.0: sketches that count distinct values. A guess: the empty string is one value, as in
# count(DISTINCT) and as in the same library's frequent items.
#
# Seen: HLL, theta and CPC pass over it without a word, so a column of empty strings has no distinct value and the sketch is empty.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check datasketches==5.2.0
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import datasketches

hll, theta, cpc = datasketches.hll_sketch(12), datasketches.update_theta_sketch(), datasketches.cpc_sketch()
frequent = datasketches.frequent_strings_sketch(5)
for sketch in (hll, theta, cpc, frequent):
    sketch.update("")
estimates = [hll.get_estimate(), theta.get_estimate(), cpc.get_estimate(), frequent.get_estimate("")]
print(importlib.metadata.version("datasketches"), estimates)
assert estimates == [0, 0, 0, 1]
assert hll.is_empty() and theta.is_empty() and cpc.is_empty()
hll.update("a")
assert round(hll.get_estimate()) == 1
PYTHON
