"""Commits by reference and summaries of them, as values and as objects. docs/format.md §11."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pyarrow as pa
import zstandard

from cec_store.errors import CorruptLog, upgrade_needed
from cec_store.format.bodies import compress, inflated
from cec_store.format.by_reference.commit_body import CommitBody
from cec_store.format.checksum import crc32c
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    NONE,
    RECORD_STREAM,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    Codec,
    FrameHeader,
    FrameType,
    NewerVersion,
    SegmentHeader,
    decode_frame_header,
    decode_segment_header,
    follows,
    prove_body,
)
from cec_store.format.schema import RecordSchema

SUMMARY_STREAM = 2
_COMPRESSION_LEVEL = 3
_TYPES = (FrameType.COMMIT.value,)
_INTEGERS = range(-(2**63), 2**63)


class Operation(IntEnum):
    """Kind of a commit. Frozen on disk: never renumber, never reuse."""

    MAKE = 1
    APPEND = 2
    MERGE = 3
    TRIM = 4
    SET = 5


@dataclass(frozen=True)
class ReferenceCommit:
    """State of a queue after one commit, besides its segments."""

    operation: Operation = Operation.MAKE
    query: str | None = None
    batch: int | None = None
    starts: tuple[int, ...] = ()
    """Oldest offset of each partition."""
    ends: tuple[int, ...] = ()
    """Next offset of each partition."""
    queries: Mapping[str, int] = field(default_factory=dict)
    """The last batch of every streaming query that ever committed."""
    consumed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Next offsets of the other queues that the batch read, by ``log_id`` in hexadecimal."""
    settings: Mapping[str, str] = field(default_factory=dict)
    schema: RecordSchema | None = None
    """Schema of the records, in the commit that makes the queue; else ``None``."""

    def has(self, query: str, batch: int) -> bool:
        """Return whether this batch of this query is in the queue already."""
        return self.queries.get(query, -1) >= batch

    def _facts(self) -> dict[str, Any]:
        """Return the JSON object that says it, without what has no content."""
        schema = None if self.schema is None else base64.b64encode(self.schema.encode()).decode()
        facts = {
            "operation": int(self.operation),
            "query": self.query,
            "batch": self.batch,
            "queries": dict(self.queries),
            "consumed": {queue: list(ends) for queue, ends in self.consumed.items()},
            "settings": dict(self.settings),
            "schema": schema,
        }
        return {key: value for key, value in facts.items() if value not in (None, {})}

    @classmethod
    def _of(cls, body: CommitBody) -> ReferenceCommit:
        """Return what a body says.

        Raises:
            NewerVersion: a later format wrote it.
            ValueError, BadHeader: it says what cannot be.
        """
        facts, starts, ends = dict(body.facts), body.starts, body.ends
        if not ends or min(starts) < 0:
            raise ValueError(f"{len(ends)} partitions, the oldest offsets are {starts[:3]}")
        if any(start > end for start, end in zip(starts, ends, strict=True)):
            raise ValueError("a partition that starts behind its end")
        operation = _integer(facts.pop("operation", None))
        if operation not in list(Operation):
            raise NewerVersion(f"a commit that does {operation}")
        query, batch = facts.pop("query", None), facts.pop("batch", None)
        if (query is None) is not (batch is None):
            raise ValueError("a query without its batch, or the other way round")
        queries = _object(facts.pop("queries", {}))
        consumed = _object(facts.pop("consumed", {}))
        settings = _object(facts.pop("settings", {}))
        schema = facts.pop("schema", None)
        if facts:
            raise NewerVersion(f"a commit that says {sorted(facts)[:3]}")
        return cls(
            Operation(operation),
            None if query is None else _text(query),
            None if batch is None else _integer(batch),
            starts,
            ends,
            {name: _integer(last) for name, last in queries.items()},
            {queue: tuple(map(_integer, _array(of))) for queue, of in consumed.items()},
            {name: _text(value) for name, value in settings.items()},
            None if schema is None else RecordSchema.decode(_bytes(schema)),
        )


def _integer(value: Any) -> int:
    if type(value) is not int or value not in _INTEGERS:
        raise ValueError(f"{value!r:.50} is no integer of 64 bits")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.50} is no text")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.50} is no object")
    return value


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.50} is no array")
    return value


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except binascii.Error as error:
        raise ValueError(f"base64: {error}") from None


@dataclass(frozen=True)
class ReferenceObject:
    """An object of ``log/``: a commit with its segments, or a summary."""

    number: int
    log_id: bytes
    commit: ReferenceCommit
    segments: pa.RecordBatch
    """Columns of :data:`SEGMENT_COLUMNS`."""
    created_us: int
    is_summary: bool = False
    salt: int = 0
    """Random in each commit, so that no two are equal by chance; a summary has its commit's."""
    after: tuple[int, int] | None = None
    """Number and salt of the commit that it goes on from: the one before, or a summary's base."""

    def encode(self) -> list[bytes]:
        """Return the object's bytes, part by part."""
        number, salt = self.after or (NONE, 0)
        header = SegmentHeader(
            epoch=0, log_id=self.log_id, segment_id=self.number, salt=self.salt, first_seq=0,
            prev_segment=number, prev_bytes=0, prev_salt=salt, prev_chain=0,
            created_us=self.created_us,
        )  # fmt: skip
        count = self.segments.num_rows
        body = CommitBody(self.commit._facts(), self.commit.starts, self.commit.ends, self.segments)
        stored, raw_bytes, codec = compress(body.encode(), _COMPRESSION_LEVEL, count)
        frame = FrameHeader(
            type=FrameType.COMMIT, codec=codec, chain_crc=header.running_crc, salt=self.salt,
            stream_id=SUMMARY_STREAM if self.is_summary else RECORD_STREAM, record_count=count,
            body_bytes=len(stored), raw_bytes=raw_bytes, body_crc=crc32c(stored),
        )  # fmt: skip
        return [header.encode(), frame.encode(), stored]

    @classmethod
    def decode(
        cls, data: bytes, path: str, number: int, *, is_summary: bool = False
    ) -> ReferenceObject:
        """Back from bytes that were read from ``path``.

        Raises:
            CorruptLog: they are not those of this commit or summary.
            UnsupportedVersion: a later format wrote it.
        """
        try:
            header = decode_segment_header(data)
            if header.segment_id != number:
                raise BadHeader(f"the object is number {header.segment_id}")
            body = _body_of(header, data, SUMMARY_STREAM if is_summary else RECORD_STREAM)
            commit = ReferenceCommit._of(body)
            _check_segments(body.segments, len(commit.ends))
        except NewerVersion as error:
            raise upgrade_needed(path, str(error)) from None
        except BadHeader as error:
            raise CorruptLog(path, 0, str(error)) from None
        except (ValueError, OSError, zstandard.ZstdError) as error:
            what = f"a commit that says what cannot be: {error}"
            raise CorruptLog(path, SEGMENT_HEADER_BYTES, what) from error
        after = None if header.prev_segment == NONE else (header.prev_segment, header.prev_salt)
        return cls(
            number, header.log_id, commit, body.segments, header.created_us, is_summary,
            header.salt, after,
        )  # fmt: skip


def _body_of(header: SegmentHeader, data: bytes, stream_id: int) -> CommitBody:
    """Return the body of an object's one frame.

    Raises:
        BadHeader: the frame is not sound, or another, or not the last.
        ValueError, OSError, zstandard.ZstdError: its body is none of a commit.
    """
    frame = decode_frame_header(data, SEGMENT_HEADER_BYTES, _TYPES)
    follows(header.running_crc, frame)
    if frame.salt != header.salt:
        raise BadHeader("the frame belongs to another object")
    if frame.stream_id != stream_id:
        raise BadHeader(f"a frame of stream {frame.stream_id}, not {stream_id}")
    if frame.codec not in (Codec.NONE, Codec.ZSTD):
        raise NewerVersion(f"a commit with codec {frame.codec}")
    stored = pa.py_buffer(data).slice(SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES)
    prove_body(frame, stored)
    body = CommitBody.decode(inflated(stored, frame.codec, frame.raw_bytes))
    if body.segments.num_rows != frame.record_count:
        raise BadHeader(f"{body.segments.num_rows} segments, not {frame.record_count}")
    return body


def _check_segments(segments: pa.RecordBatch, partitions: int) -> None:
    values = {name: segments.column(name).to_numpy() for name in _NUMBERS}
    if segments.num_rows and not (
        (values["partition"] >= 0).all()
        and (values["partition"] < partitions).all()
        and all((values[name] >= 0).all() for name in ("first_offset", "byte", "bytes"))
        and (values["records"] > 0).all()
        and (values["least_us"] <= values["greatest_us"]).all()
    ):
        raise ValueError("a segment that cannot be")


_NUMBERS = (
    "partition", "first_offset", "records", "byte", "bytes", "least_us", "greatest_us",
)  # fmt: skip
