"""The frames of a segment that a commit names, from its bytes of an object. docs/format.md §11."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from cec_store.format.frame import BadHeader, FrameHeader, FrameType, prove_body
from cec_store.format.scan import Bad, FramesInMemory, Numbers, whole_frames


class ReferencedFrame(NamedTuple):
    """A frame of a segment whose header is sound."""

    byte: int
    """Position in the object."""
    header: FrameHeader
    """Its offsets are those in the partition."""
    body: pa.Buffer
    problem: str
    """Reason that the body cannot be believed; empty where it can."""


def frames_of(segment: dict[str, Any], data: bytes) -> Iterator[ReferencedFrame | Bad]:
    """The BATCH frames of a segment, of which ``data`` has the bytes that its commit names.

    Bytes are those of the object.
    """
    frames = FramesInMemory(data, segment["salt"])
    first_byte, offset = segment["byte"], segment["first_offset"]

    def prove(byte: int, header: FrameHeader) -> None:
        if frames.stored_body(byte, header).size < header.body_bytes:
            raise BadHeader("the body is cut short")

    for item in whole_frames(frames.header_at, 0, segment["bytes"], Numbers(), prove):
        if isinstance(item, Bad):
            yield replace(item, byte=first_byte + item.byte)
            return
        byte, header = item
        if header.type == FrameType.BATCH:
            body = frames.stored_body(byte, header)
            here = header._replace(first_offset=offset)
            yield ReferencedFrame(first_byte + byte, here, body, _problem_of(header, body))
            offset += header.record_count


def _problem_of(header: FrameHeader, body: pa.Buffer) -> str:
    try:
        prove_body(header, body)
    except BadHeader as error:
        return str(error)
    return ""
