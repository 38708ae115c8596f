#!/usr/bin/env bash
# Flink 2.3.0 from Python (`apache-flink`): TIMESTAMP(6), whose microseconds are what Python's datetime has. A guess: a datetime that goes into a
# table by `from_elements`, or comes out by `collect`, keeps them; if not, there is an error.
#
# Seen: both ways cut it to milliseconds: .123456 is .123000, while Flink itself keeps what SQL made, as its text shows. Before 1970
# one millisecond is added on the way in (.789123 is .790000). The last microsecond of 9999, which stands for "never ends", is
# .999008 of that second. So a row that is collected is not found again by its time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check apache-flink==2.3.0
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import importlib.metadata
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment


def tables(settings):
    environment = TableEnvironment.create(settings)
    environment.get_config().set("parallelism.default", "1")
    environment.get_config().set("table.local-time-zone", "UTC")
    return environment


batch = tables(EnvironmentSettings.in_batch_mode())


def rows(query):
    return [tuple(row) for row in batch.execute_sql(query).collect()]


texts = ["2020-01-01 00:00:00.123456", "9999-12-31 23:59:59.999999"]
values = ", ".join(f"(TIMESTAMP '{text}')" for text in texts)
out = rows(f"SELECT t, CAST(t AS STRING) FROM (VALUES {values}) r(t)")
times = [datetime.datetime(2020, 1, 1, 0, 0, 0, 123456), datetime.datetime(1960, 5, 5, 12, 34, 56, 789123)]
column = DataTypes.ROW([DataTypes.FIELD("t", DataTypes.TIMESTAMP(6))])
batch.create_temporary_view("given", batch.from_elements([(time,) for time in times], column))
into = rows("SELECT CAST(t AS STRING) FROM given")
print(importlib.metadata.version("apache-flink"), out, into, sep="\n")
assert [text for _, text in out] == texts
assert [time.microsecond for time, _ in out] == [123000, 999008]
assert into == [("2020-01-01 00:00:00.123000",), ("1960-05-05 12:34:56.790000",)]
PYTHON
