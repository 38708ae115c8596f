#!/usr/bin/env bash
# perspective-python 5.6.1: the least and the greatest value of a group in which one value is null. A guess: nulls are passed over by all
# aggregates, as by `sum` and `avg` here and as in SQL; at least, equal rows have equal aggregates.
#
# Seen: it depends on how the null came. In rows that a table is made of, or of a row without the name, null is the least of all values,
# so `min` and `q1` are null; in rows of an update that say null it is the greatest, so `max` and `q3` are. `low` and `high` take it for 0
# in both, which no row has: the `low` of 5 and 7 is 0, and the `high` of -5 and -7. The rows look the same in a view.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check perspective-python==5.6.1
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import perspective

client = perspective.Server().new_local_client()
NAMES = ("min", "max", "q1", "q3", "low", "high", "sum", "avg")


def made(rows):
    return client.table(rows)


def updated(rows):
    table = client.table({"key": "string", "x": "float"})
    table.update(rows)
    return table


def aggregates(table):
    assert table.view().to_columns()["x"] in ([5.0, None, 7.0], [-5.0, None, -7.0])
    views = {name: table.view(group_by=["key"], columns=["x"], aggregates={"x": name}) for name in NAMES}
    return [view.to_columns()["x"][1] for view in views.values()]


def rows(values, null):
    return [{"key": "a", "x": values[0]}, {"key": "a", **null}, {"key": "a", "x": values[1]}]


nulls = {"null": {"x": None}, "no name": {}}
seen = {
    (values, way.__name__, name): aggregates(way(rows(values, null)))
    for values in ((5.0, 7.0), (-5.0, -7.0)) for way in (made, updated) for name, null in nulls.items()
}
print(importlib.metadata.version("perspective-python"), NAMES, *seen.items(), sep="\n")
for (values, way, name), results in seen.items():
    least, greatest = sorted(values)
    ends = [least, None, least, None] if (way, name) == ("updated", "null") else [None, greatest, None, greatest]
    assert results == [*ends, min(least, 0.0), max(greatest, 0.0), sum(values), sum(values) / 2]
PYTHON
