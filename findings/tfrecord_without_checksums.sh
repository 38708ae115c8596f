#!/usr/bin/env bash
# tfrecord 1.14.6 (PyPI): TFRecord files, whose records each have a CRC-32C of their length and one of their bytes. A guess: a reader
# compares them, since the format has nothing else; the package computes both when it writes.
#
# Seen: the reader passes over both. A letter changed in the file comes out as if it had been written, and so does a changed checksum.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cd "$folder"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check tfrecord==1.14.6 google-crc32c==1.9.0
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import struct
import google_crc32c
from tfrecord import TFRecordWriter, tfrecord_loader


def masked(data):
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def changed(raw):
    with open("changed", "wb") as file:
        file.write(raw)
    return [bytes(row["word"]) for row in tfrecord_loader("changed", None, None)]


writer = TFRecordWriter("written")
writer.write({"word": (b"hello", "byte")})
writer.close()
with open("written", "rb") as file:
    raw = file.read()
(length,) = struct.unpack("<Q", raw[:8])
assert struct.unpack("<I", raw[8:12])[0] == masked(raw[:8])
assert struct.unpack("<I", raw[12 + length :])[0] == masked(raw[12 : 12 + length])
seen = changed(raw), changed(raw.replace(b"hello", b"hallo")), changed(raw[:-4] + bytes(4))
print(importlib.metadata.version("tfrecord"), seen)
assert seen == ([b"hello"], [b"hallo"], [b"hello"])
PYTHON
