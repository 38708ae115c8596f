#!/usr/bin/env bash
# fastavro 1.13.1 and avro 1.12.2: a field that the reader's schema adds, whose default stands for a date, a time, bytes or a record. A
# guess: records without the field get the value that a record with that value gives, so a column has one type.
#
# Seen: they get the JSON of the schema. A date is the number 0 where others are dates, bytes are text in fastavro ("\xff", not b"\xff")
# and UTF-8 in avro (two bytes for that one), a decimal is as its bytes are; a record misses its own fields' defaults in fastavro.
# fastavro's writer cannot write its own default of bytes (TypeError). The two raise nothing when they read.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check avro==1.12.2 fastavro==1.13.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import decimal
import io
import json
import avro.schema
import fastavro
from avro.datafile import DataFileReader
from avro.io import DatumReader

inner = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int", "default": 7}]}
cases = {
    "date": ({"type": "int", "logicalType": "date"}, 0, datetime.date(1970, 1, 1)),
    "decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\x01", decimal.Decimal("0.01")),
    "bytes": ("bytes", "\xff", b"\xff"),
    "record": (inner, {}, {"n": 7}),
}


def row(*fields):
    return {"type": "record", "name": "Row", "fields": list(fields)}


def read(file, schema):
    fast = next(fastavro.reader(io.BytesIO(file.getvalue()), schema))["c"]
    of_avro = DatumReader(readers_schema=avro.schema.parse(json.dumps(schema)))
    return fast, next(DataFileReader(io.BytesIO(file.getvalue()), of_avro))["c"]


old, seen = io.BytesIO(), {}
fastavro.writer(old, row({"name": "a", "type": "int"}), [{"a": 1}])
for name, (of_type, default, value) in cases.items():
    new, schema = io.BytesIO(), row({"name": "c", "type": of_type, "default": default})
    fastavro.writer(new, schema, [{"c": value}])
    assert read(new, schema) == (value, value), read(new, schema)
    seen[name] = read(old, schema)
print(fastavro.__version__, seen)
assert seen["date"] == (0, 0)
assert seen["decimal"] == ("\x01", b"\x01")
assert seen["bytes"] == ("\xff", b"\xc3\xbf")
assert seen["record"] == ({}, {"n": 7})
try:
    fastavro.writer(io.BytesIO(), row({"name": "c", "type": "bytes", "default": "\xff"}), [{}])
except TypeError as error:
    print(error)
else:
    raise SystemExit("fastavro writes a default of bytes now")
PYTHON
