"""The frame around what a version changed: how it is compressed, how it begins, how it ends.

Decompressed, a delta or snapshot of the HDFS-backed provider is rows up to a length of -1. So is a
changelog of RocksDB, of which later formats begin with a text: `v2` ends its rows with a byte 0,
`v3` and `v4` are as the first and the second, and a text more says the versions before by their
unique ids. What is in the rows is Spark's to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cec_store.connectors.spark.checkpoint.java_texts import JavaTexts
from cec_store.connectors.spark.checkpoint.parsing import damaged, parsed
from cec_store.storage.folder import Folder

_LZ4 = b"LZ4Block"
_LZ4_HEADER = 21
_LZ4_METHODS = {0x10: False, 0x20: True}
_BLOCK_MAX = 1 << 26
_ZSTD = b"\x28\xb5\x2f\xfd"
_READ_BYTES = 1 << 20
_NO_MORE_ROWS = b"\xff\xff\xff\xff"
_FORMATS = {"v2": 2, "v3": 3, "v4": 4}
_IDS_BYTES_MAX = 1 << 17  # a text of Java's holds 65,535 bytes


@dataclass(frozen=True)
class ChangedRows:
    """The head of a file of changes: its format and the versions that it names."""

    format: int
    """1 to 4; 1 also of the HDFS-backed provider."""
    before: tuple[tuple[int, str], ...] = ()
    """Versions that it builds on, back to a snapshot, with their unique ids."""


def read_head(folder: Folder, name: str) -> ChangedRows | None:
    """Return a file's beginning; ``None`` where its compression is not read here.

    Raises:
        CorruptLog: it cannot be decompressed, or begins as nothing does.
        FileNotFoundError: it is not there.
    """
    pieces = _decompressed(folder, name)
    return None if pieces is None else _head(f"{folder.path}/{name}", _first_bytes(pieces))


def check_whole(folder: Folder, name: str, done: Callable[[int], None]) -> ChangedRows | None:
    """Read a file of changes to its end and return its head, as :func:`read_head` does.

    ``done`` is called with each number of bytes read from the file.

    Raises:
        CorruptLog: it cannot be decompressed, or does not end right behind its last row.
        FileNotFoundError: it is not there.
    """
    pieces = _decompressed(folder, name, done)
    if pieces is None:
        return None
    path, first, last = f"{folder.path}/{name}", b"", b""
    for piece in pieces:
        first = first + piece if len(first) < _IDS_BYTES_MAX else first
        last = (last + piece)[-len(_NO_MORE_ROWS) :]
    head = _head(path, first)
    end = b"\0" if head.format in (2, 4) else _NO_MORE_ROWS
    if not last.endswith(end):
        raise damaged(path, folder.size(name), "it ends without the mark behind its last row")
    return head


def _first_bytes(pieces: Iterator[bytes]) -> bytes:
    first = b""
    for piece in pieces:
        first += piece
        if len(first) >= _IDS_BYTES_MAX:
            break
    return first


def _head(path: str, first: bytes) -> ChangedRows:
    code = first[2:4].decode("latin-1")
    if first[:2] != b"\0\x02" or code not in _FORMATS:
        return ChangedRows(1)
    number = _FORMATS[code]
    if number < 3:
        return ChangedRows(number)
    text = JavaTexts(path, first[4:]).one()

    def versions() -> tuple[tuple[int, str], ...]:
        return tuple((int(i["version"]), str(i["checkpointUniqueId"])) for i in json.loads(text))

    return ChangedRows(number, parsed(path, first, versions))


def _decompressed(
    folder: Folder, name: str, done: Callable[[int], None] = lambda _: None
) -> Iterator[bytes] | None:
    magic = folder.read(name, 0, len(_LZ4))
    if magic == _LZ4:
        return _of_lz4(folder, name, done)
    if magic.startswith(_ZSTD):
        return _of_zstd(folder, name, done)
    if not magic:
        raise damaged(f"{folder.path}/{name}", 0, "the file is empty")
    return None


def _of_lz4(folder: Folder, name: str, done: Callable[[int], None]) -> Iterator[bytes]:
    """Blocks as lz4-java frames them; the last one is empty, and nothing follows it."""
    path, size = f"{folder.path}/{name}", folder.size(name)
    codec, kept, at, read = pa.Codec("lz4_raw"), b"", 0, 0

    def take(count: int) -> bytes:
        nonlocal kept, at, read
        while len(kept) < count and read < size:
            more = folder.read(name, read, min(_READ_BYTES, size - read))
            if not more:
                break
            done(len(more))
            kept, read = kept + more, read + len(more)
        part, kept = kept[:count], kept[count:]
        if len(part) < count:
            raise damaged(path, at, "the file ends too early")
        at += count
        return part

    while True:
        start = at
        header = take(_LZ4_HEADER)
        packed, whole = (int.from_bytes(header[n : n + 4], "little") for n in (9, 13))
        is_packed = _LZ4_METHODS.get(header[8] & 0xF0)
        if header[:8] != _LZ4 or is_packed is None or max(packed, whole) > _BLOCK_MAX:
            raise damaged(path, start, "no block of lz4 begins here")
        if not whole:
            break
        block = take(packed)
        if is_packed:
            try:
                block = codec.decompress(block, decompressed_size=whole).to_pybytes()
            except (OSError, pa.ArrowException) as error:
                raise damaged(
                    path, start, f"a block of lz4 that cannot be unpacked: {error}"
                ) from None
        if len(block) != whole:
            raise damaged(path, start, f"a block of {whole} bytes unpacks to {len(block)}")
        yield block
    if at != size:
        raise damaged(path, at, "something stands behind the end")


def _of_zstd(folder: Folder, name: str, done: Callable[[int], None]) -> Iterator[bytes]:
    source = _Reading(folder, name, done)
    try:
        with pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd") as stream:
            while piece := stream.read(_READ_BYTES):
                yield piece
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, FileNotFoundError):
            raise
        path = f"{folder.path}/{name}"
        raise damaged(path, source.at, f"it cannot be unpacked: {error}") from None


class _Reading:
    """A file of a folder as Arrow reads one."""

    closed = False

    def __init__(self, folder: Folder, name: str, done: Callable[[int], None]) -> None:
        self._folder = folder
        self._name = name
        self._done = done
        self._size = folder.size(name)
        self.at = 0

    def read(self, size: int) -> Any:
        data = self._folder.read(self._name, self.at, min(size, self._size - self.at))
        self.at += len(data)
        self._done(len(data))
        return data

    def close(self) -> None:
        self.closed = True
