#!/usr/bin/env bash
# pulsar-client 3.13.0 (Apache Pulsar for Python): a record with `Integer()` and `Long()` fields, which a topic registers as Avro's int
# and long, and which `AvroSchema` and `JsonSchema` encode. A guess: both refuse the same values, as both refuse a text in a Boolean
# field.
#
# Seen: `AvroSchema` refuses an integer beyond 32 bits and a boolean; `JsonSchema` writes them, and a long beyond 64 bits as well, and
# decodes them again, so a producer and a consumer in Python agree on messages that contradict the topic's schema. NaN is written as NaN,
# which is not JSON. `AvroSchema` makes a double beyond a Float infinity. To both a Boolean that was not given is false, and other fields
# null.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pulsar-client==3.13.0 fastavro==1.13.1
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import json
from pulsar.schema import AvroSchema, Boolean, Float, Integer, JsonSchema, Long, Record


class Row(Record):
    i = Integer()
    l = Long()
    f = Float()
    b = Boolean()


def through(kind, **values):
    schema = kind(Row)
    try:
        row = schema.decode(schema.encode(Row(**values)))
    except (TypeError, ValueError) as error:
        return type(error).__name__
    return [getattr(row, name) for name in values]


values = [{"i": 2**40}, {"i": True}, {"l": 2**70}, {"f": 1e300}, {"b": "x"}]
by_avro = [through(AvroSchema, **value) for value in values]
by_json = [through(JsonSchema, **value) for value in values]
types = {field["name"]: field["type"] for field in json.loads(JsonSchema(Row).schema_info().schema())["fields"]}
text = JsonSchema(Row).encode(Row(f=float("nan")))
print(importlib.metadata.version("pulsar-client"), types, by_avro, by_json, text)
assert types["i"] == ["null", "int"] and types["l"] == ["null", "long"]
assert by_avro == ["ValueError", "ValueError", "ValueError", [float("inf")], "TypeError"]
assert by_json == [[2**40], [True], [2**70], [1e300], "TypeError"] and by_json[1][0] is True
assert b'"f": NaN' in text
PYTHON
