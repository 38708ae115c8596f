#!/usr/bin/env bash
# fastavro 1.13.1 and Avro files with snappy, of which each block ends with the CRC-32 of what was compressed. A guess: a reader
# compares it, since snappy has no checksum of its own and blocks have no other.
#
# Seen: fastavro passes over it, and a changed letter comes out as if it had been written; avro 1.12.2 raises for the same file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check avro==1.12.2 fastavro==1.13.1 python-snappy==0.7.3
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import io
import avro.datafile
import avro.io
import fastavro

file = io.BytesIO()
fastavro.writer(file, "string", ["abcdefgh"], codec="snappy")
damaged = file.getvalue().replace(b"abcdefgh", b"abcdefgX")
assert damaged != file.getvalue()
records = list(fastavro.reader(io.BytesIO(damaged)))
print(importlib.metadata.version("fastavro"), records)
assert records == ["abcdefgX"]
whole = avro.datafile.DataFileReader(io.BytesIO(file.getvalue()), avro.io.DatumReader())
assert list(whole) == ["abcdefgh"]
try:
    print(list(avro.datafile.DataFileReader(io.BytesIO(damaged), avro.io.DatumReader())))
except Exception as error:
    print(importlib.metadata.version("avro"), type(error).__name__, error)
else:
    raise SystemExit("avro does not compare it now")
PYTHON
