#!/usr/bin/env bash
# pyiceberg 0.12.0: a filter compares a column of integers with 1.5, or a column of dates with a time of day. A guess: `n = 1.5` finds
# nothing and `n > 1.5` finds 2, or the filter is refused, as one with the float 1.5 in an expression is.
#
# Seen: in a filter that is text, or with a Decimal, the literal is rounded to the column's type, whatever the operator: `n = 1.5` finds
# 2, `n > 1.5` does not, and `delete("n = 1.5")` deletes 2. A datetime is cut to its day: a date is not below the noon of it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check "pyiceberg[sql-sqlite]==0.12.0" pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import decimal
import os
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, LessThan

catalog = SqlCatalog("local", uri="sqlite:///catalog.db", warehouse="file://" + os.getcwd())
catalog.create_namespace("n")
rows = pa.table({"n": [1, 2, 3], "day": [datetime.date(2020, 1, day) for day in (1, 2, 3)]})
table = catalog.create_table("n.t", rows.schema)
table.append(rows)


def found(condition):
    return table.scan(condition).to_arrow()["n"].to_pylist()


noon = datetime.datetime(2020, 1, 2, 12)
seen = [found(c) for c in (
    "n = 1.5", "n > 1.5", "n < 1.5", "n = 2.4", EqualTo("n", decimal.Decimal("1.5")), EqualTo("day", noon), LessThan("day", noon)
)]
print(seen)
assert seen == [[2], [3], [1], [2], [2], [2], [1]]
try:
    found(EqualTo("n", 1.5))
except TypeError as error:
    print(error)
else:
    raise SystemExit("a float is taken now")
table.delete("n = 1.5")
assert table.scan().to_arrow()["n"].to_pylist() == [1, 3]
PYTHON
