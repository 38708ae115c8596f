#!/usr/bin/env bash
# fastavro 1.13.1: a field that the reader's schema adds, with an empty array or map as its default. A guess: each record gets a value of
# its own, since each array that is in the file is a list of its own.
#
# Seen: all records get the one object of the schema. What a program appends to a row's list is in all other rows, in all rows that
# it reads later with this schema, and in the schema, so a file that is read again gives other rows. avro 1.12.2 makes a new list.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check avro==1.12.2 fastavro==1.13.1
"$folder/venv/bin/python" - <<'PYTHON'
import io
import json
import avro.schema
import fastavro
from avro.datafile import DataFileReader
from avro.io import DatumReader

written = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "int"}]}
tags = {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []}
marks = {"name": "marks", "type": {"type": "map", "values": "int"}, "default": {}}
asked = {"type": "record", "name": "Row", "fields": [*written["fields"], tags, marks]}
file = io.BytesIO()
fastavro.writer(file, written, [{"n": 1}, {"n": 2}])


def rows():
    return list(fastavro.reader(io.BytesIO(file.getvalue()), asked))


def rows_of_avro():
    return list(DataFileReader(io.BytesIO(file.getvalue()), DatumReader(readers_schema=avro.schema.parse(json.dumps(asked)))))


for_avro = rows_of_avro()
for_avro[0]["tags"].append("late")
first, second = rows()
first["tags"].append("late")
first["marks"]["late"] = 1
again = rows()
print(fastavro.__version__, second, again, tags, for_avro, sep="\n")
assert for_avro[1]["tags"] == []
assert second == {"n": 2, "tags": ["late"], "marks": {"late": 1}}
assert again[0] == {"n": 1, "tags": ["late"], "marks": {"late": 1}}
PYTHON
