#!/usr/bin/env bash
# cbor2 6.2.1: a memoryview, which is what mmap, LMDB and Arrow buffers hand out without a copy. A guess: it is written as a byte string, as
# `bytes` and `bytearray` are and as msgpack 1.2.4 writes it, or is refused.
#
# Seen: it is an array of numbers, which comes back as a list and takes twice the space: a reader finds [1, 255] where it looks for
# two bytes. Also, Decimal("-0") loses its sign, and Decimal("NaN") and Decimal("Infinity") come back as floats.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check cbor2==6.2.1 msgpack==1.2.4
"$folder/venv/bin/python" - <<'PYTHON'
import decimal
import cbor2
import msgpack

data = bytes([1, 255])
seen = [cbor2.loads(cbor2.dumps(kind(data))) for kind in (bytes, bytearray, memoryview)]
packed = msgpack.unpackb(msgpack.packb(memoryview(data)))
sizes = [len(cbor2.dumps(kind(b"\xff" * 1000))) for kind in (bytes, memoryview)]
decimals = [cbor2.loads(cbor2.dumps(decimal.Decimal(text))) for text in ("-1.50", "-0", "NaN", "Infinity")]
print(seen, packed, sizes, decimals)
assert seen == [data, data, [1, 255]] and packed == data
assert sizes == [1003, 2003]
assert [repr(value) for value in decimals] == ["Decimal('-1.50')", "Decimal('0')", "nan", "inf"]
PYTHON
