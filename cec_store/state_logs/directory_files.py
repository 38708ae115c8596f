"""The two files of a key directory: keys of successive frames, and live rows. docs/format.md §16.

They are derived from the log, and only Spark's store makes them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray

from cec_store.errors import CorruptLog
from cec_store.format.arrow_limits import ARROW_ERRORS
from cec_store.format.checksum import crc32c
from cec_store.format.columns import Bools, Ints
from cec_store.format.zstd_frames import inflate
from cec_store.partitioned.murmur3 import Hashes
from cec_store.storage.folder import Folder

ZONE_ROWS = 256
"""Rows of which a live file has the least time."""
_NAME = re.compile(r"\d{20}-\d{20}\.(keys|live)")
_FOOTER = struct.Struct("<4sHHQIII")
_CRC_BYTES = 4
_HASH_BYTES = 4
_MAGICS = {"keys": b"CECK", "live": b"CECL"}
_VERSION = 1
_END = struct.Struct("<QQQIQQQ")
_COUNT = struct.Struct("<I")
_KEY_FILE = struct.Struct("<QQII")
_FRAME = struct.Struct("<QQIIIIQQiiIII")
_RUN = struct.Struct("<II")
_ROW_BYTES = 12
"""Bytes of a row in a block of sorted keys, beside its key."""
_PIECE_BYTES = 1 << 20
_KEYS = pa.large_binary()
_NO_ROWS = np.empty(0, np.uint32)
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Seal:
    """A footer: how long the parts of a file are, and their checksums."""

    head_bytes: int
    head_crc: int
    body_crc: int
    body_bytes: int


@dataclass(frozen=True)
class KeyFileOf:
    """A key file as a live file names it."""

    name: str
    head_crc: int
    body_crc: int

    def is_sealed_by(self, seal: Seal) -> bool:
        """Return True if a file with this footer is the one that is named."""
        return (self.head_crc, self.body_crc) == (seal.head_crc, seal.body_crc)


@dataclass(frozen=True)
class KeyFrame:
    """A frame as a key file describes it, beside the hashes of its keys."""

    segment_id: int
    byte: int
    body_bytes: int
    raw_bytes: int
    codec: int
    rows: int
    first_offset: int
    frame_bytes: int
    key_width: int
    """Bytes of every key; -1 where they differ."""
    value_width: int
    key_bytes: int
    """Bytes of all keys."""
    value_bytes: int
    families: NDArray[np.uint16] | None
    """The family of each row; ``None`` where all are of the default one."""

    @property
    def end_offset(self) -> int:
        return self.first_offset + self.rows


@dataclass(frozen=True)
class SortedRun:
    """Place at which keys of one family stand in their order."""

    family: int
    byte: int
    """Place of its first block."""
    blocks: NDArray[np.uint32]
    """Rows, bytes of keys and stored bytes of each; shape (blocks, 3)."""


@dataclass(frozen=True)
class SortedRows:
    """Rows in the order of their keys."""

    frames: NDArray[np.uint32]
    """Numbers of the rows' frames in the file; shape (rows,)."""
    rows: NDArray[np.uint32]
    """Numbers of the rows in their frames; shape (rows,)."""
    keys: pa.LargeBinaryArray


@dataclass(frozen=True)
class LivePart:
    """The rows of a frame that are live, and when they are due."""

    live: Ints
    """Rows, ascending."""
    timed_rows: int
    """The first so many rows have times."""
    least_times_us: Ints
    """The least time of each zone of them."""


@dataclass(frozen=True)
class LiveFile:
    """The rows of the extent that are live at the end of a version."""

    segment_id: int
    byte: int
    seq: int
    chain_crc: int
    version: int
    open_windows: int
    end_offset: int
    times_of: str
    """Name of the time that rows have; empty for none."""
    key_files: tuple[KeyFileOf, ...]
    """Files that have the extent's frames, oldest first."""
    parts: tuple[LivePart, ...]
    """Parts of the newest frames in those files, oldest first."""


def is_of_key_directory(name: str) -> bool:
    """Return True if a file of this name is one of a key directory."""
    return _NAME.fullmatch(name) is not None


def is_live_file(name: str) -> bool:
    """Return True if a file of this name says which rows are live."""
    return is_of_key_directory(name) and name.endswith(".live")


def seq_of(name: str) -> int:
    """Return the number of the last frame of which the file of this name speaks."""
    return int(name[21:41])


def seal_of(folder: Folder, name: str) -> Seal:
    """Return the footer of a file.

    Raises:
        CorruptLog: it is damaged, or of a version that this release does not know.
        FileNotFoundError: there is no such file.
    """
    size = folder.size(name)
    at = max(0, size - _FOOTER.size)
    footer = folder.read(name, at, _FOOTER.size)
    path = f"{folder.path}/{name}"
    if len(footer) < _FOOTER.size:
        raise CorruptLog(path, at, "the file is cut short")
    magic, version, reserved, head_bytes, head_crc, body_crc, footer_crc = _FOOTER.unpack(footer)
    is_ours = magic == _MAGICS[name.rpartition(".")[2]]
    if not is_ours or crc32c(footer[:-_CRC_BYTES]) != footer_crc:
        raise CorruptLog(path, at, "its footer fails its checksum")
    if (version, reserved) != (_VERSION, 0):
        reason = f"version {version} of key directories is unknown to this release"
        raise CorruptLog(path, at, reason)
    body_bytes = at - head_bytes
    if body_bytes < 0:
        raise CorruptLog(path, at, "the file is cut short")
    return Seal(head_bytes, head_crc, body_crc, body_bytes)


def _check_body(folder: Folder, name: str, seal: Seal) -> None:
    """Raises :class:`CorruptLog` where a file's body fails its checksum."""
    crc = 0
    for at in range(0, seal.body_bytes, _PIECE_BYTES):
        crc = crc32c(folder.read(name, at, min(_PIECE_BYTES, seal.body_bytes - at)), crc)
    if crc != seal.body_crc:
        raise CorruptLog(f"{folder.path}/{name}", 0, "its body fails its checksum")


def problem_of(folder: Folder, name: str) -> str | None:
    """Return what is wrong with a file of a key directory; None where its checksums are right.

    Raises:
        FileNotFoundError: there is no such file.
    """
    try:
        seal = seal_of(folder, name)
        _head_of(folder, name, seal)
        _check_body(folder, name, seal)
    except CorruptLog as error:
        return error.reason
    return None


def read_live_file(folder: Folder, name: str) -> LiveFile:
    """Return what a live file says.

    Raises:
        CorruptLog: it is damaged, or of a version that this release does not know.
        FileNotFoundError: there is no such file.
    """
    seal = seal_of(folder, name)
    _check_body(folder, name, seal)
    return _read_head(folder, name, seal, _live_file)


def read_key_file(
    folder: Folder, name: str, seal: Seal
) -> tuple[tuple[KeyFrame, ...], tuple[SortedRun, ...]]:
    """Return what a key file says of its frames, oldest first, and its sorted runs.

    Raises as :func:`seal_of` does.
    """
    frames, heads = _read_head(folder, name, seal, _key_file)
    at = sum(frame.rows for frame in frames) * _HASH_BYTES
    runs = []
    for family, blocks in heads:
        runs.append(SortedRun(family, at, blocks))
        at += int(blocks[:, 2].sum(dtype=np.int64))
    if at != seal.body_bytes:
        what = f"{seal.body_bytes} bytes of hashes and sorted runs, and speaks of {at}"
        raise CorruptLog(f"{folder.path}/{name}", 0, f"it has {what}")
    return frames, tuple(runs)


def sorted_rows(folder: Folder, name: str, run: SortedRun) -> SortedRows:
    """Return all rows of a sorted run of a key file.

    Raises:
        CorruptLog: a block is not what the head says.
    """
    at, blocks = run.byte, [SortedRows(_NO_ROWS, _NO_ROWS, pa.array([], _KEYS))]
    for rows, key_bytes, stored_bytes in run.blocks.tolist():
        size = rows * _ROW_BYTES + key_bytes
        try:
            raw = inflate(pa.py_buffer(folder.read(name, at, stored_bytes)), size)
        except (*ARROW_ERRORS, ValueError, zstandard.ZstdError) as error:
            raise CorruptLog(f"{folder.path}/{name}", at, f"a sorted run: {error}") from error
        frames, numbers, lengths = np.frombuffer(raw, "<u4", rows * 3).reshape(3, rows)
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        if ends[-1] != key_bytes:
            what = "a block of sorted keys is not as long as they are"
            raise CorruptLog(f"{folder.path}/{name}", at, what)
        buffers = [None, pa.py_buffer(ends), raw.slice(rows * _ROW_BYTES)]
        blocks.append(SortedRows(frames, numbers, pa.Array.from_buffers(_KEYS, rows, buffers)))
        at += stored_bytes
    return SortedRows(
        np.concatenate([block.frames for block in blocks]),
        np.concatenate([block.rows for block in blocks]),
        pa.concat_arrays([block.keys for block in blocks]),
    )


def hashes_of(folder: Folder, name: str, frames: tuple[KeyFrame, ...]) -> Iterator[Hashes]:
    """Yield the hashes of the keys of each of a file's frames, shape (rows,)."""
    at = 0
    for frame in frames:
        size = frame.rows * _HASH_BYTES
        yield np.frombuffer(folder.read(name, at, size), "<u4")
        at += size


def _head_of(folder: Folder, name: str, seal: Seal) -> bytes:
    """Return a file's head; raises :class:`CorruptLog` where it fails its checksum."""
    head = folder.read(name, seal.body_bytes, seal.head_bytes)
    if len(head) < seal.head_bytes or crc32c(head) != seal.head_crc:
        path = f"{folder.path}/{name}"
        raise CorruptLog(path, seal.body_bytes, "its head fails its checksum")
    return head


def _read_head(folder: Folder, name: str, seal: Seal, read: Callable[[_Head], _Made]) -> _Made:
    try:
        return read(_Head(_head_of(folder, name, seal)))
    except (struct.error, ValueError) as error:  # the checksum is right all the same
        path = f"{folder.path}/{name}"
        raise CorruptLog(path, seal.body_bytes, f"its head is none: {error}") from error


class _Head:
    """Fields one behind the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def fields(self, form: struct.Struct) -> tuple[Any, ...]:
        values = form.unpack_from(self._data, self._at)
        self._at += form.size
        return values

    def count(self) -> int:
        return int(self.fields(_COUNT)[0])

    def array(self, dtype: str, count: int) -> NDArray[Any]:
        """Raises :class:`ValueError` where so many are not left."""
        values = np.frombuffer(self._data, dtype, count, self._at) if count else np.empty(0, dtype)
        self._at += values.nbytes
        return values


def _live_file(head: _Head) -> LiveFile:
    segment_id, byte, seq, chain_crc, version, open_windows, end_offset = head.fields(_END)
    times_of = bytes(head.array("u1", head.count())).decode()
    named = [head.fields(_KEY_FILE) for _ in range(head.count())]
    return LiveFile(
        segment_id,
        byte,
        seq,
        chain_crc,
        version,
        open_windows,
        end_offset,
        times_of=times_of,
        key_files=tuple(KeyFileOf(f"{of[0]:020}-{of[1]:020}.keys", *of[2:]) for of in named),
        parts=tuple(_live_part(head) for _ in range(head.count())),
    )


def _live_part(head: _Head) -> LivePart:
    live = np.flatnonzero(_bits(head.array("<u8", head.count())))
    timed_rows = head.count()
    return LivePart(live, timed_rows, head.array("<i8", head.count()))


def _bits(words: NDArray[np.uint64]) -> Bools:
    return np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_)


def _key_file(
    head: _Head,
) -> tuple[tuple[KeyFrame, ...], list[tuple[int, NDArray[np.uint32]]]]:
    frames = tuple(_key_frame(head) for _ in range(head.count()))
    runs = []
    for _ in range(head.count()):
        family, blocks = head.fields(_RUN)
        runs.append((int(family), head.array("<u4", blocks * 3).reshape(blocks, 3)))
    return frames, runs


def _key_frame(head: _Head) -> KeyFrame:
    segment_id, byte, body_bytes, raw_bytes, codec, rows, *more, has_families = head.fields(_FRAME)
    first_offset, frame_bytes, key_width, value_width, key_bytes, value_bytes = more
    return KeyFrame(
        segment_id=segment_id,
        byte=byte,
        body_bytes=body_bytes,
        raw_bytes=raw_bytes,
        codec=codec,
        rows=rows,
        first_offset=first_offset,
        frame_bytes=frame_bytes,
        key_width=key_width,
        value_width=value_width,
        key_bytes=key_bytes,
        value_bytes=value_bytes,
        families=head.array("<u2", rows) if has_families else None,
    )
