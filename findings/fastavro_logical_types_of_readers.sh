#!/usr/bin/env bash
# fastavro 1.13.1: a reader's schema with another logical type than the writer's. A guess: the reader's counts, as for all that schema
# resolution does, or the two are refused; Avro's specification lets decimals of different scales not match.
#
# Seen: it has no effect. A reader that asks for the plain long gets datetimes, one that asks for timestamps of longs gets numbers, one
# that asks for decimals with another scale gets the writer's; it is not an error either. A reader's plain type (int to double) counts.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check fastavro==1.13.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import decimal
import io
import fastavro


def schema(of):
    return {"type": "record", "name": "Row", "fields": [{"name": "c", "type": of}]}


def read(written, asked, value):
    file = io.BytesIO()
    fastavro.writer(file, schema(written), [{"c": value}])
    file.seek(0)
    return next(fastavro.reader(file, schema(asked)))["c"]


def cents(scale):
    return {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": scale}


millis = {"type": "long", "logicalType": "timestamp-millis"}
start = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
seen = [
    read(millis, "long", start),
    read("long", millis, 1577836800000),
    read(cents(2), cents(4), decimal.Decimal("1.23")),
    read("int", "double", 5),
]
print(seen)
assert seen == [start, 1577836800000, decimal.Decimal("1.23"), 5.0]
assert [type(value) for value in seen] == [datetime.datetime, int, decimal.Decimal, float]
assert seen[2].as_tuple().exponent == -2
PYTHON
