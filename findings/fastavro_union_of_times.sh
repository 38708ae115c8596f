#!/usr/bin/env bash
# fastavro 1.13.1: a value of a union is written as the branch that fits it. A guess: a branch that holds the value without loss, when
# there is one, or else an error; for floats it is so (double is taken before float).
#
# Seen: a datetime is a date to Python, so of [date, timestamp] the first takes it, and the time of day is lost; of [timestamp, date]
# it is kept. An integer beyond 32 bits in [int, float] is written as a float: 2^31 + 1 is read as 2147483648.0. Neither raises, and
# `validate` takes both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check fastavro==1.13.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import io
import fastavro
from fastavro.validation import validate

day = {"type": "int", "logicalType": "date"}
time = {"type": "long", "logicalType": "timestamp-micros"}
noon = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.timezone.utc)


def back(union, value):
    schema = {"type": "record", "name": "Row", "fields": [{"name": "c", "type": union}]}
    assert validate({"c": value}, schema)
    file = io.BytesIO()
    fastavro.writer(file, schema, [{"c": value}])
    file.seek(0)
    return next(fastavro.reader(file))["c"]


seen = [back([day, time], noon), back([time, day], noon), back(["int", "float"], 2**31 + 1), back(["float", "double"], 0.1)]
print(seen)
assert seen == [datetime.date(2020, 1, 1), noon, 2147483648.0, 0.1]
assert type(seen[0]) is datetime.date and type(seen[2]) is float
PYTHON
