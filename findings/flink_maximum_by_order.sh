#!/usr/bin/env bash
# Flink 2.3.0, SQL: MAX and MIN of doubles of which one is NaN. A guess: NaN counts as greater than all, as ORDER BY puts it last, or is
# passed over; either way the order of the rows does not matter.
#
# Seen: it does. NaN as the first row of a group is its maximum and its minimum for ever, since no number is found greater or less; as a
# later row it is passed over. So a replay in another order gives other results, in batch and in streaming. GROUP BY takes all NaN
# for one key, and NaN = NaN is true.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check apache-flink==2.3.0
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import math
from pyflink.table import EnvironmentSettings, TableEnvironment


def tables(settings):
    environment = TableEnvironment.create(settings)
    environment.get_config().set("parallelism.default", "1")
    environment.get_config().set("table.local-time-zone", "UTC")
    return environment


modes = {"batch": EnvironmentSettings.in_batch_mode(), "streaming": EnvironmentSettings.in_streaming_mode()}
environments = {name: tables(settings) for name, settings in modes.items()}
nan, one, two = "(CAST('NaN' AS DOUBLE))", "(CAST(1 AS DOUBLE))", "(CAST(2 AS DOUBLE))"


def last(environment, query):
    return [tuple(row) for row in environment.execute_sql(query).collect()][-1]


seen = {
    (mode, place): last(environment, f"SELECT MAX(x), MIN(x) FROM (VALUES {', '.join(order)}) r(x)")
    for mode, environment in environments.items()
    for place, order in {"first": [nan, one, two], "middle": [one, nan, two], "last": [one, two, nan]}.items()
}
batch = environments["batch"]
keys = last(batch, f"SELECT COUNT(*), SUM(n) FROM (SELECT x, COUNT(*) AS n FROM (VALUES {nan}, {nan}) r(x) GROUP BY x)")
ordered = [row[0] for row in batch.execute_sql(f"SELECT x FROM (VALUES {nan}, {one}) r(x) ORDER BY x").collect()]
print(importlib.metadata.version("apache-flink"), seen, keys, ordered, sep="\n")
for (_, place), pair in seen.items():
    assert all(map(math.isnan, pair)) if place == "first" else pair == (2.0, 1.0)
assert keys == (1, 2) and ordered[0] == 1.0 and math.isnan(ordered[1])
PYTHON
