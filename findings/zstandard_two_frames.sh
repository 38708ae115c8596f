#!/usr/bin/env bash
# python-zstandard 0.25.0 and two zstd frames one after the other (what `cat a.zst b.zst` gives, and what
# append-only writers leave). A guess: they are decompressed as `zstd -d` does it, or refused.
#
# Seen: `decompress`, `decompressobj` and `read_to_iter` return the first frame only, without an error;
# `copy_stream`, `stream_writer` and `open` return both. `stream_reader(...).read()` returns both although
# `read_across_frames=False`, which only bounds `read(size)` to one frame a call. `decompress` tells what
# it leaves out only with `allow_extra_data=False`, which is not the default.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check zstandard==0.25.0
"$folder/venv/bin/python" - <<'PYTHON'
import io
import zstandard

first, second = zstandard.compress(b"a" * 10), zstandard.compress(b"b" * 10)
both = first + second
reader = zstandard.ZstdDecompressor
copied, written = io.BytesIO(), io.BytesIO()
reader().copy_stream(io.BytesIO(both), copied)
reader().stream_writer(written, closefd=False).write(both)
one_frame = {
    "decompress": reader().decompress(both),
    "decompressobj": reader().decompressobj().decompress(both),
    "read_to_iter": b"".join(reader().read_to_iter(both)),
}
two_frames = {
    "copy_stream": copied.getvalue(),
    "stream_writer": written.getvalue(),
    "open": zstandard.open(io.BytesIO(both), "rb").read(),
    "stream_reader.read()": reader().stream_reader(both, read_across_frames=False).read(),
}
bounded = reader().stream_reader(both, read_across_frames=False)
calls = [bounded.read(100), bounded.read(100)]
print(zstandard.__version__, one_frame, two_frames, calls, sep="\n")
assert set(one_frame.values()) == {b"a" * 10}
assert set(two_frames.values()) == {b"a" * 10 + b"b" * 10}
assert calls == [b"a" * 10, b"b" * 10]
try:
    reader().decompress(both, allow_extra_data=False)
except zstandard.ZstdError as error:
    print(error)
else:
    raise SystemExit("allow_extra_data=False no longer refuses the second frame")
PYTHON
