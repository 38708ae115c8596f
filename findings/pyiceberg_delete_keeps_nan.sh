#!/usr/bin/env bash
# pyiceberg 0.12.0: `delete(filter)` and `overwrite(rows, filter)` of rows with NaN. A guess: they remove what `scan(filter)` finds.
#
# Seen: a scan by `x != 1.0`, `x not in (1.0)` or `not (x > 1.5)` finds NaN, and a delete by the same filter leaves it, as an overwrite
# does, even where NaN is alone in its file. So what was "deleted" is found again by the same filter. `x is nan` deletes it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check "pyiceberg[sql-sqlite]==0.12.0" pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import os
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

catalog = SqlCatalog("local", uri="sqlite:///catalog.db", warehouse="file://" + os.getcwd())
catalog.create_namespace("n")
rows = pa.table({"x": [float("nan"), 1.0, 2.0]})
names = iter("abcdefghij")


def written(part):
    table = catalog.create_table("n." + next(names), rows.schema)
    table.append(part)
    return table


def left(table, condition):
    found = str(table.scan(condition).to_arrow()["x"].to_pylist())
    table.delete(condition)
    return found, str(table.scan().to_arrow()["x"].to_pylist())


for condition, seen in (
    ("x != 1.0", ("[nan, 2.0]", "[nan, 1.0]")),
    ("x not in (1.0)", ("[nan, 2.0]", "[nan, 1.0]")),
    ("not (x > 1.5)", ("[nan, 1.0]", "[nan, 2.0]")),
):
    print(condition, left(written(rows), condition))
    assert left(written(rows), condition) == seen
alone = written(rows.slice(0, 1))
alone.delete("x != 1.0")
assert str(alone.scan("x != 1.0").to_arrow()["x"].to_pylist()) == "[nan]"
alone.delete("x is nan")
assert alone.scan().to_arrow().num_rows == 0
table = written(rows)
table.overwrite(pa.table({"x": [7.0]}), overwrite_filter="x != 1.0")
assert str(sorted(table.scan().to_arrow()["x"].to_pylist(), key=str)) == "[1.0, 7.0, nan]"
PYTHON
