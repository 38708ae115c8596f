#!/usr/bin/env bash
# Apache Beam 2.77.0 for Python (DirectRunner): keys that are equal to Python and not to Beam's coders: 1, 1.0 and True, or 0.0 and -0.0.
# A guess: they are one key or several, the same for all that groups by key, since `CombinePerKey(sum)` is documented as a `GroupByKey`
# and a sum.
#
# Seen: `GroupByKey` and `CoGroupByKey` go by the bytes of the coder: each is a key of its own. `CombinePerKey`, `Count.PerElement` and
# `Distinct` first combine what a bundle has in a dict of Python, where equal keys are one and the first stands for all: the count of True
# is given as that of 1, and that of 0.0 as that of -0.0 if this came first. So counts do not match the groups, and depend on what shares
# a bundle.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cd "$folder"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check apache-beam==2.77.0
"$folder/venv/bin/python" - <<'PYTHON'
import logging
from pathlib import Path
import apache_beam as beam
from apache_beam.transforms import combiners

logging.disable(logging.CRITICAL)
mixed = [1, 1.0, True]
zeros = [0.0, -0.0, 0.0]


def run(name, rows, transform):
    with beam.Pipeline(runner="DirectRunner") as pipeline:
        written = pipeline | beam.Create(rows) | transform | "repr" >> beam.Map(repr)
        written | beam.io.WriteToText(name, num_shards=1)
    (path,) = Path().glob(f"{name}*")
    return sorted(path.read_text().split("\n")[:-1])


pairs = beam.Map(lambda value: (value, 1))
grouped = pairs | beam.GroupByKey() | beam.MapTuple(lambda key, ones: (key, sum(ones)))
seen = {
    "groups": run("a", mixed, grouped) + run("b", zeros, grouped),
    "sums": run("c", mixed, pairs | beam.CombinePerKey(sum)) + run("d", zeros, pairs | beam.CombinePerKey(sum)),
    "counts": run("e", mixed, combiners.Count.PerElement()) + run("f", zeros[1:], combiners.Count.PerElement()),
    "distinct": run("g", mixed, beam.Distinct()) + run("h", zeros, beam.Distinct()),
}
print(beam.__version__, seen)
assert seen["groups"] == ["(1, 1)", "(1.0, 1)", "(True, 1)", "(-0.0, 1)", "(0.0, 2)"]
assert seen["sums"] == ["(1, 3)", "(0.0, 3)"]
assert seen["counts"] == ["(1, 3)", "(-0.0, 2)"]
assert seen["distinct"] == ["1", "0.0"]
PYTHON
