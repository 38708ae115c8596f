#!/usr/bin/env bash
# Flink 2.3.0, SQL: SUM and AVG of integers. A guess: the sum of an INT or SMALLINT is a BIGINT, as in Spark and PostgreSQL, or raises
# where it does not fit; an average is a fraction, and lies between the least and the greatest value.
#
# Seen: a sum has the type of its column and wraps: two TINYINT of 100 add up to -56, and 2147483647 and 1 to -2147483648. An average has
# it too, so that of 1 and 2 is 1. It is right for the small types, and negative for six BIGINT of nanoseconds since 1970. In
# streaming each row of the changelog wraps likewise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check apache-flink==2.3.0
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
from pyflink.table import EnvironmentSettings, TableEnvironment


def tables(settings):
    environment = TableEnvironment.create(settings)
    environment.get_config().set("parallelism.default", "1")
    environment.get_config().set("table.local-time-zone", "UTC")
    return environment


batch, stream = tables(EnvironmentSettings.in_batch_mode()), tables(EnvironmentSettings.in_streaming_mode())
cases = {
    "TINYINT": ([100, 100], (-56, 100)),
    "INT": ([2**31 - 1, 1], (-(2**31), 2**30)),
    "BIGINT": ([1, 2], (3, 1)),
    "BIGINT ": ([1_700_000_000_000_000_000] * 6, (6 * 1_700_000_000_000_000_000 - 2**64, -1374457345618258602)),
}
seen = {}
for of_type, (numbers, _) in cases.items():
    values = ", ".join(f"(CAST({number} AS {of_type}))" for number in numbers)
    query = f"SELECT SUM(x), AVG(x) FROM (VALUES {values}) r(x)"
    seen[of_type] = [tuple(list(environment.execute_sql(query).collect())[-1]) for environment in (batch, stream)]
print(importlib.metadata.version("apache-flink"), seen)
assert seen == {of_type: [result] * 2 for of_type, (_, result) in cases.items()}
PYTHON
