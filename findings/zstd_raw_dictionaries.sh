#!/usr/bin/env bash
# zstd dictionaries in python-zstandard 0.25.0. A guess: a wrong dictionary is refused, since a frame names the one that it needs.
#
# Seen: so it is for a trained dictionary. One made of raw content (any bytes that lack the header of a dictionary) has the number 0,
# which frames do not name: with another one of the same kind a frame gives other text without an error, unless it has a checksum.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check zstandard==0.25.0
"$folder/venv/bin/python" - <<'PYTHON'
import zstandard

records = [b"record %d with some words in it, number %d" % (i, i * 7) for i in range(2000)]
raw, other = (zstandard.ZstdCompressionDict(b"".join(records[i : i + 50])) for i in (0, 50))
trained, retrained = zstandard.train_dictionary(4096, records), zstandard.train_dictionary(4096, records[::-1])


def read(written_with, read_with, checksum=False):
    frame = zstandard.ZstdCompressor(dict_data=written_with, write_checksum=checksum).compress(records[0])
    return zstandard.ZstdDecompressor(dict_data=read_with).decompress(frame)


print(zstandard.__version__, raw.dict_id(), read(raw, other))
assert raw.dict_id() == other.dict_id() == 0
assert read(raw, raw) == records[0]
assert read(raw, other) != records[0] and len(read(raw, other)) == len(records[0])
for wrong in ((trained, retrained), (raw, other, True)):
    try:
        read(*wrong)
    except zstandard.ZstdError as error:
        print(error)
    else:
        raise SystemExit("a wrong dictionary is taken now")
PYTHON
