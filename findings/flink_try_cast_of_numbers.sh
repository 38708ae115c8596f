#!/usr/bin/env bash
# Flink 2.3.0, SQL: TRY_CAST, which is documented to give NULL where CAST fails. A guess: a number that the type cannot hold is NULL, and CAST
# raises for it, as both do for a text of the same number and as DuckDB and Spark do.
#
# Seen: numbers never fail. 300 AS TINYINT is 44, 3000000000 AS INT is negative, 1e20 AS BIGINT is the greatest bigint, 3e9 AS SMALLINT is
# -1, and NaN AS INT is 0; only decimals give NULL. So a check by "TRY_CAST(...) IS NULL" finds a bad text and no bad number.
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


batch = tables(EnvironmentSettings.in_batch_mode())


def one(expression):
    ((value,),) = batch.execute_sql(f"SELECT {expression}").collect()
    return value


cases = {
    "300 AS TINYINT": 44,
    "'300' AS TINYINT": None,
    "CAST(3000000000 AS BIGINT) AS INT": -1294967296,
    "1e20 AS BIGINT": 2**63 - 1,
    "3e9 AS INT": 2**31 - 1,
    "3e9 AS SMALLINT": -1,
    "CAST('NaN' AS DOUBLE) AS INT": 0,
    "123.4 AS DECIMAL(3, 2)": None,
}
seen = {case: one(f"TRY_CAST({case})") for case in cases}
by_cast = one("CAST(300 AS TINYINT)")
print(importlib.metadata.version("apache-flink"), seen, by_cast)
assert seen == cases and by_cast == 44
PYTHON
