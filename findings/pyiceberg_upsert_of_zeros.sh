#!/usr/bin/env bash
# pyiceberg 0.12.0: `upsert` of a row with the key -0.0 into a table with a row of the key 0.0. A guess: it is updated, as the two are
# equal, or inserted; one of the two, whichever other rows come along.
#
# Seen: alone it is neither, and gone without an error, with 0 rows updated and 0 inserted (a filter finds the key in the table, a join
# does not); together with another key it is inserted.
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
names = iter("abc")


def upserted(keys):
    rows = pa.table({"key": [0.0, 1.0], "word": ["old", "old"]})
    table = catalog.create_table("n." + next(names), rows.schema)
    table.append(rows)
    counts = table.upsert(pa.table({"key": keys, "word": ["new"] * len(keys)}), join_cols=["key"])
    words = sorted(str(tuple(row.values())) for row in table.scan().to_arrow().to_pylist())
    return counts.rows_updated, counts.rows_inserted, words


seen = [upserted([-0.0]), upserted([-0.0, 5.0])]
print(*seen, sep="\n")
assert seen[0] == (0, 0, ["(0.0, 'old')", "(1.0, 'old')"])
assert seen[1] == (0, 2, ["(-0.0, 'new')", "(0.0, 'old')", "(1.0, 'old')", "(5.0, 'new')"])
PYTHON
