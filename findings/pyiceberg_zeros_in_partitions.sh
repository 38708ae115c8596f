#!/usr/bin/env bash
# pyiceberg 0.12.0 and a table that is partitioned by a column of doubles (identity), to which 0.0 and -0.0 are appended at once. A
# guess: the two zeros are one partition or two, and each row is written once.
#
# Seen: each of the two rows is written twice, into two files, without an error: the zeros are told apart when partitions are listed
# and are equal when their rows are taken. Of one append of three rows a scan gives five, and the snapshot counts five added.
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
from pyiceberg.transforms import IdentityTransform

catalog = SqlCatalog("local", uri="sqlite:///catalog.db", warehouse="file://" + os.getcwd())
catalog.create_namespace("n")
rows = pa.table({"x": [0.0, -0.0, 1.0], "id": [1, 2, 3]})


def appended(name, partitioned):
    table = catalog.create_table(name, rows.schema)
    if partitioned:
        with table.update_spec() as change:
            change.add_field("x", IdentityTransform(), "x_part")
    table.append(rows)
    return catalog.load_table(name)


plain, partitioned = appended("n.plain", False), appended("n.partitioned", True)
added = partitioned.current_snapshot().summary["added-records"]
seen = sorted(partitioned.scan().to_arrow()["id"].to_pylist())
print(sorted(plain.scan().to_arrow()["id"].to_pylist()), seen, added)
assert sorted(plain.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
assert seen == [1, 1, 2, 2, 3] and added == "5"
PYTHON
