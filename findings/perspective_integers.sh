#!/usr/bin/env bash
# perspective-python 5.6.1, tables that are updated by a stream: integers of Python, in a table that is made of them or of a schema. A
# guess: a column that is called "integer" holds 64 bits, as one of Arrow's int64 does under the same name, or what it cannot hold is
# refused, as a table of a value of 33 bits is made one of floats.
#
# Seen: it has 32 bits, and an update wraps: 2^31 is negative and 2^40 + 5 is 5, from Arrow's int64 too; 1.9 is 1. In the column of the
# index a key of 2^32 + 1 is the key 1 and overwrites its row, so of streams with ids of 64 bits rows are lost.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check perspective-python==5.6.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import perspective
import pyarrow

client = perspective.Server().new_local_client()


def arrow(values):
    table = pyarrow.table({"n": pyarrow.array(values, pyarrow.int64())})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def columns(table):
    return table.schema()["n"], table.view().to_columns()


of_arrow = client.table(arrow([2**62 + 1, -(2**63)]))
of_python = client.table({"n": [2**31]})
updated = client.table({"n": [7]})
for values in ({"n": [2**31, 2**40 + 5]}, arrow([2**40 + 5]), {"n": [1.9]}):
    updated.update(values)
keyed = client.table({"n": "integer", "text": "string"}, index="n")
keyed.update([{"n": 1, "text": "first"}])
keyed.update([{"n": 2**32 + 1, "text": "second"}])
seen = {"of arrow": columns(of_arrow), "of python": columns(of_python), "updated": columns(updated), "keyed": columns(keyed)}
print(importlib.metadata.version("perspective-python"), *seen.items(), sep="\n")
assert seen["of arrow"] == ("integer", {"n": [2**62 + 1, -(2**63)]})
assert seen["of python"] == ("float", {"n": [2.0**31]})
assert seen["updated"] == ("integer", {"n": [7, -(2**31), 5, 5, 1]})
assert seen["keyed"] == ("integer", {"n": [1], "text": ["second"]})
PYTHON
