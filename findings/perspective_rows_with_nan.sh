#!/usr/bin/env bash
# perspective-python 5.6.1: an update by a list of rows, one of which has a NaN or an infinity in a column of floats, which Arrow's tables
# may have here. A guess: the value is stored, or is null, or the update raises, as an update by columns does.
#
# Seen: `update` returns without an error, and no row of the list is stored, the sound ones neither. A table that is made of such a list
# has no columns. With columns in place of rows both raise, with a message about missing column names. From Arrow all values are stored.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check perspective-python==5.6.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import math
import perspective
import pyarrow

client = perspective.Server().new_local_client()
seen = {}
for name, value in (("sound", 2.0), ("nan", math.nan), ("infinity", math.inf)):
    table = client.table({"x": "float", "key": "string"})
    table.update([{"x": 1.0, "key": "before"}])
    table.update([{"x": 1.5, "key": "beside"}, {"x": value, "key": "itself"}])
    table.update([{"x": 9.0, "key": "after"}])
    try:
        table.update({"x": [1.5, value], "key": ["beside", "itself"]})
        by_columns = "stored"
    except perspective.PerspectiveError as error:
        by_columns = str(error).strip()
    made = client.table([{"x": 1.5, "key": "beside"}, {"x": value, "key": "itself"}])
    seen[name] = table.view().to_columns()["key"], by_columns, made.view().to_columns()
rows = pyarrow.table({"x": [1.5, math.nan, math.inf], "key": ["beside", "nan", "infinity"]})
sink = pyarrow.BufferOutputStream()
with pyarrow.ipc.new_stream(sink, rows.schema) as writer:
    writer.write_table(rows)
of_arrow = client.table(sink.getvalue().to_pybytes())
again = pyarrow.ipc.open_stream(of_arrow.view().to_arrow()).read_all()["x"].to_pylist()
print(importlib.metadata.version("perspective-python"), *seen.items(), again, sep="\n")
assert seen["sound"][0] == ["before", "beside", "itself", "after", "beside", "itself"] and seen["sound"][1] == "stored"
for name in ("nan", "infinity"):
    assert seen[name][0] == ["before", "after"] and "column names" in seen[name][1] and seen[name][2] == {}
assert again[0] == 1.5 and math.isnan(again[1]) and again[2] == math.inf
PYTHON
