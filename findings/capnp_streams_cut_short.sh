#!/usr/bin/env bash
# pycapnp 2.2.4 (Cap'n Proto for Python): a file of messages one after the other, read by `read_multiple` or `read_multiple_packed`, that ends
# in the middle of a message, as a writer leaves it that was killed. msgpack 1.2.4 has the same for its `Unpacker`. A guess: after the last
# whole message there is an error, as in pycapnp's own `read_multiple_bytes` over the same bytes, in protobuf 7.36.2
# (`parse_length_prefixed`) and in streams of pyarrow 26.0.1; only an end between two messages is an end.
#
# Seen: wherever the file is cut, iteration ends as if it were whole. That is for the middle of a file as well: one bit that is changed in the
# length of message 10 of 30 makes it too long for the file, and the other 20 are gone without an error. So a reader cannot tell a
# log that ends from one that broke off.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    msgpack==1.2.4 protobuf==7.36.2 pyarrow==26.0.1 pycapnp==2.2.4
echo '@0xbf5147cbbecf40c1; struct Row { n @0 :Int64; text @1 :Text; }' > rows.capnp
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import io
import capnp
import msgpack
import pyarrow
from google.protobuf import proto, wrappers_pb2

capnp.remove_import_hook()
schema = capnp.load("rows.capnp")


def messages():
    return [schema.Row.new_message(n=n, text=f"row {n}") for n in range(30)]


def on_disk(data, read):
    with open("rows.bin", "wb") as file:
        file.write(data)
    with open("rows.bin", "rb") as file:
        return [row.n for row in read(file)]


def packed():
    with open("packed.bin", "wb") as file:
        for message in messages():
            message.write_packed(file)
    with open("packed.bin", "rb") as file:
        return file.read()


def length_prefixed(data):
    stream, found = io.BytesIO(data), []
    while (row := proto.parse_length_prefixed(wrappers_pb2.StringValue, stream)) is not None:
        found.append(int(row.value))
    return found


def protobuf_rows():
    target = io.BytesIO()
    for n in range(30):
        proto.serialize_length_prefixed(wrappers_pb2.StringValue(value=f"{n:08}"), target)
    return target.getvalue()


def arrow_rows():
    rows = pyarrow.table({"n": range(30)})
    target = io.BytesIO()
    with pyarrow.ipc.new_stream(target, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=10)
    return target.getvalue()


def cuts(data, read):
    """At how many of all places that lose rows a cut stream is read without an error."""
    assert read(data) == list(range(30))
    quiet = lossless = 0
    for size in range(len(data)):
        try:
            found = read(data[:size])
        except Exception:
            continue
        assert found == list(range(len(found)))
        quiet += len(found) < 30
        lossless += len(found) == 30
    return quiet, len(data) - lossless


plain = b"".join(message.to_bytes() for message in messages())
seen = {
    "read_multiple": cuts(plain, lambda data: on_disk(data, schema.Row.read_multiple)),
    "read_multiple_packed": cuts(packed(), lambda data: on_disk(data, schema.Row.read_multiple_packed)),
    "read_multiple_bytes": cuts(plain, lambda data: [row.n for row in schema.Row.read_multiple_bytes(data)]),
    "msgpack": cuts(
        b"".join(msgpack.packb([n, f"row {n}"]) for n in range(30)), lambda data: [n for n, _ in msgpack.Unpacker(io.BytesIO(data))]
    ),
    "protobuf": cuts(protobuf_rows(), length_prefixed),
    "pyarrow": cuts(arrow_rows(), lambda data: pyarrow.ipc.open_stream(data).read_all()["n"].to_pylist()),
}
size = len(plain) // 30
changed = bytearray(plain)
changed[10 * size + 5] ^= 0x40
rest = len(on_disk(bytes(changed), schema.Row.read_multiple))
names = ("pycapnp", "msgpack", "protobuf", "pyarrow")
print(*[f"{name} {importlib.metadata.version(name)}" for name in names], *seen.items(), f"after a changed length: {rest}", sep="\n")
for name in ("read_multiple", "read_multiple_packed", "msgpack"):
    quiet, places = seen[name]
    assert quiet == places
assert seen["read_multiple_bytes"][0] == seen["protobuf"][0] == 30
assert seen["pyarrow"][0] == 3
assert rest == 10
PYTHON
