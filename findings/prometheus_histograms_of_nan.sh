#!/usr/bin/env bash
# prometheus-client 0.26.0: `observe` of NaN, which a latency divided by no rows gives. A guess: it is counted, in the bucket +Inf as
# takes all values, or refused, as `Counter.inc(-1)` is.
#
# Seen: a Histogram adds it to `_sum`, which is NaN from then on, and to no bucket, so `_count` lacks it and the mean, which is taken
# of the two, is NaN for as long as the process lives. A Summary does count it. `Counter.inc(NaN)` does not raise, and the counter,
# which "only goes up", stays NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check prometheus-client==0.26.0
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import math
from prometheus_client import CollectorRegistry, Counter, Histogram, Summary

registry = CollectorRegistry()
histogram = Histogram("h", "seconds", buckets=[1, 2], registry=registry)
summary = Summary("s", "seconds", registry=registry)
counter = Counter("c", "rows", registry=registry)
for value in (1.0, math.nan, 2.0):
    histogram.observe(value)
    summary.observe(value)
    counter.inc(value)
names = ["h_count", "h_sum", "s_count", "s_sum", "c_total"]
seen = {name: registry.get_sample_value(name) for name in names}
seen["+Inf"] = registry.get_sample_value("h_bucket", {"le": "+Inf"})
print(importlib.metadata.version("prometheus-client"), seen)
assert (seen["h_count"], seen["+Inf"], seen["s_count"]) == (2, 2, 3)
assert all(math.isnan(seen[name]) for name in ("h_sum", "s_sum", "c_total"))
try:
    counter.inc(-1)
except ValueError as error:
    print(error)
else:
    raise SystemExit("a counter goes down now")
PYTHON
