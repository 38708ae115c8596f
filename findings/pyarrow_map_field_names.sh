#!/usr/bin/env bash
# pyarrow 26.0.1: a map whose key and value fields have names of their own, written to an IPC stream or a Parquet file and
# read again. A guess: it comes back as it was, as a list's `element` does.
#
# Seen: both fields are called `key` and `value` afterwards; their metadata stays in a stream, and goes with Parquet's. `==`
# and `Schema.equals` call the two types equal, `Schema.equals(check_metadata=True)` calls the schemas different although all
# metadata in the stream is what it was, and the types' texts differ.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import io

import pyarrow as pa
import pyarrow.parquet as pq

delays = pa.map_(
    pa.field("plane", pa.string(), nullable=False, metadata={"about": "tail number"}),
    pa.field("delay", pa.int64(), metadata={"about": "minutes"}),
)
stops = pa.list_(pa.field("stop", pa.string(), metadata={"about": "airport"}))
schema = pa.schema([("delays", delays), ("stops", stops)])
rows = pa.table(
    {"delays": pa.array([[("N1", 5)]], delays), "stops": pa.array([["JFK"]], stops)}, schema=schema
)


def seen(found):
    of_map, of_list = found.field("delays").type, found.field("stops").type
    fields = (of_map.key_field, of_map.item_field, of_list.value_field)
    return [(field.name, field.metadata) for field in fields]


stream = pa.BufferOutputStream()
with pa.ipc.new_stream(stream, schema) as writer:
    writer.write_table(rows)
streamed = pa.ipc.open_stream(stream.getvalue()).schema
file = io.BytesIO()
pq.write_table(rows, file)
parquet = pq.read_table(file).schema
for name, found in (("made", schema), ("stream", streamed), ("Parquet", parquet)):
    print(name, seen(found))

about = [{b"about": text} for text in (b"tail number", b"minutes", b"airport")]
assert seen(schema) == list(zip(("plane", "delay", "stop"), about))
assert seen(streamed) == list(zip(("key", "value", "stop"), about))
assert [name for name, _ in seen(parquet)[:2]] == ["key", "value"]
assert streamed.field("delays").type == delays
assert str(streamed.field("delays").type) != str(delays)
assert schema.equals(streamed)
assert not schema.equals(streamed, check_metadata=True)
assert pa.schema([schema.field("stops")]).equals(
    pa.schema([streamed.field("stops")]), check_metadata=True
)
PYTHON
