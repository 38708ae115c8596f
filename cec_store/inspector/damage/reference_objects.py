"""The objects of a queue by reference, several at a time, over damage and on. Reads only.

docs/format.md §11.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from cec_store.errors import CecError
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    NewerVersion,
    body_is_sound,
    decode_frame_header,
)
from cec_store.partitioned.by_reference.queue_state import QueueState
from cec_store.storage.stores.store import Store

_AT_ONCE = 8
Read = bytes | FileNotFoundError | CecError


class Wanted(NamedTuple):
    """A part of an object."""

    name: str
    byte: int = 0
    size: int | None = None
    """``None``: to its end."""


def read_all(store: Store, parts: Iterable[Wanted]) -> Generator[Read, None, None]:
    """Each of these in order, or why it cannot be had; some are read ahead of the caller."""

    def read(part: Wanted) -> Read:
        try:
            return store.read(part.name, part.byte, part.size)
        except (FileNotFoundError, CecError) as error:
            return error

    left = iter(parts)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        while some := [*islice(left, _AT_ONCE)]:
            yield from threads.map(read, some)


def part_of(segment: dict[str, Any]) -> Wanted:
    """Return the byte range of an object that holds a segment's frames, as its commit says."""
    return Wanted(segment["file"], segment["byte"], segment["bytes"])


def segments_of_partition(state: QueueState, number: int) -> list[dict[str, Any]]:
    """The segments that count, in the order of their records."""
    live = state.live
    mine = live.filter(pa.array(live.column("partition").to_numpy() == number))
    segments: list[dict[str, Any]] = mine.sort_by("first_offset").to_pylist()
    return segments


class ReferencedFrame(NamedTuple):
    """A frame of a segment whose header is sound."""

    byte: int
    """Position in the object."""
    header: FrameHeader
    """Its offsets are those in the partition."""
    body: pa.Buffer
    problem: str
    """Reason that the body cannot be believed; empty where it can."""


class BadPlace(NamedTuple):
    """Place at which the frames of a segment end before they should."""

    byte: int
    reason: str
    is_newer: bool
    first_offset: int
    """Offset in the partition of the first record that is out of reach."""


def frames_of(segment: dict[str, Any], data: bytes) -> Iterator[ReferencedFrame | BadPlace]:
    """The BATCH frames of a segment, of which ``data`` has the bytes that its commit names."""
    buffer, byte, due = pa.py_buffer(data), 0, None
    offset = segment["first_offset"]
    while byte < segment["bytes"]:
        try:
            header = decode_frame_header(data, byte)
            if header.salt != segment["salt"]:
                raise BadHeader("the frame belongs to another segment")
            if due not in (None, header.seq):
                raise BadHeader(f"frame number {header.seq} where {due} is due")
            if byte + header.frame_bytes > len(data):
                raise BadHeader("body cut short")
        except BadHeader as error:
            is_newer = isinstance(error, NewerVersion)
            yield BadPlace(segment["byte"] + byte, str(error), is_newer, offset)
            return
        if header.type == FrameType.BATCH:
            body = buffer.slice(byte + FRAME_HEADER_BYTES, header.body_bytes)
            problem = "" if body_is_sound(header, body) else "body fails its checksum"
            here = header._replace(first_offset=offset)
            yield ReferencedFrame(segment["byte"] + byte, here, body, problem)
            offset, due = offset + header.record_count, header.seq + 1
        byte += header.frame_bytes


def claims_of(frames: Sequence[FrameHeader]) -> dict[str, int]:
    """Return the figures that a commit should have for a segment of exactly these frames.

    Counts of records and frames, and the least and greatest timestamp in microseconds.
    """
    return {
        "records": sum(header.record_count for header in frames),
        "frames": len(frames),
        "least_us": min((header.min_timestamp_us for header in frames), default=0),
        "greatest_us": max((header.max_timestamp_us for header in frames), default=0),
    }
