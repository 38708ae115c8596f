"""Commits by reference, as values and as objects. docs/format.md §11."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import pyarrow as pa
import zstandard

from cec_store.errors import CorruptLog
from cec_store.format.bodies import compress, inflated
from cec_store.format.by_reference.commit_body import CommitBody
from cec_store.format.by_reference.inline import (
    COMMIT_TYPES,
    InlineFrames,
    NumberedFrames,
    inline_bytes,
    placed,
)
from cec_store.format.by_reference.whole_segment import FrameParts
from cec_store.format.frame import (
    NONE,
    RAW_BYTES_MAX,
    RECORD_STREAM,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    Codec,
    FrameHeader,
    FrameType,
    NewerVersion,
    SegmentHeader,
    decode_segment_header,
    follows,
)
from cec_store.format.scan import Bad, FramesInMemory, refusal, whole_frames
from cec_store.format.schema import RecordSchema

SINCE_STREAM = 2
SINCE_EVERY = (4, 64, 4096)
"""A commit at a multiple of one of these says what came since the last multiple of the next; of the
last one since the beginning."""
WRITER_SETTING = "writer"
"""Token of the one writer that may append, of a queue that has one. docs/format.md §13."""
_COMPRESSION_LEVEL = 3
_INTEGERS = range(-(2**63), 2**63)


def since_base(number: int) -> int | None:
    """Return the commit since which commit ``number`` says what came; ``None``: it does not say.

    Of 0 it is all there is, what commit 0 has added included.
    """
    if number == 0 or number % SINCE_EVERY[0]:
        return None
    for wider in SINCE_EVERY[1:]:
        if number % wider:
            return number - number % wider
    return 0


def floor_of(number: int) -> int:
    """Return the last commit up to ``number`` that says all there is, or 0."""
    return number - number % SINCE_EVERY[-1]


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
class Since:
    """Segments that came and went since an earlier commit, those of the commit itself included."""

    base: tuple[int, int] | None
    """Number and salt of the earlier commit; ``None``: these are all that count."""
    segments: pa.RecordBatch
    """Columns of :data:`SEGMENT_COLUMNS`."""

    def body(self) -> CommitBody:
        """Return the body of its frame."""
        facts = {}
        if self.base is not None:
            number, salt = self.base
            facts = {"number": number, "salt": f"{salt:016x}"}
        return CommitBody(facts, (), (), self.segments)

    @classmethod
    def of(cls, body: CommitBody, number: int) -> Since:
        """Return what the body of commit ``number`` says.

        Raises:
            NewerVersion: a later format wrote it.
            ValueError: it says what cannot be.
        """
        facts = dict(body.facts)
        base = facts.pop("number", None), facts.pop("salt", None)
        if facts:
            raise NewerVersion(f"a commit that says since when {sorted(facts)[:3]}")
        is_all = base == (None, None)
        if body.ends or since_base(number) != (0 if is_all else _integer(base[0])):
            raise ValueError(f"commit {number} says what came since commit {base[0]}")
        if is_all:
            return cls(None, body.segments)
        salt = int.from_bytes(bytes.fromhex(_text(base[1])), "big")
        if base[0] == 0 or f"{salt:016x}" != base[1]:
            raise ValueError(f"{base[1]!r:.50} is no salt of a commit to go on from")
        return cls((base[0], salt), body.segments)


@dataclass(frozen=True)
class ReferenceObject:
    """An object of ``log/``: a commit with its segments."""

    number: int
    log_id: bytes
    commit: ReferenceCommit
    segments: pa.RecordBatch
    """Columns of :data:`SEGMENT_COLUMNS`."""
    created_us: int
    salt: int = 0
    """Random in each commit, so that no two are equal by chance."""
    after: tuple[int, int] | None = None
    """Number and salt of the commit that it goes on from: the one before, or that of `since`."""
    since: Since | None = None
    inline: Sequence[InlineFrames | NumberedFrames] = field(default=(), repr=False, compare=False)
    """Frames of the segments whose file is :data:`.inline.OWN`, in order, to be encoded with it."""

    def at_once(self) -> ReferenceObject:
        """Return what came since an earlier commit as one commit, where this says it; else this."""
        if self.since is None:
            return self
        return replace(self, segments=self.since.segments, after=self.since.base, since=None)

    def encode(self) -> list[bytes]:
        """Return the object's bytes, part by part."""
        number, salt = self.after or (NONE, 0)
        header = SegmentHeader(
            epoch=0, log_id=self.log_id, segment_id=self.number, salt=self.salt, first_seq=0,
            prev_segment=number, prev_bytes=0, prev_salt=salt, prev_chain=0,
            created_us=self.created_us,
        )  # fmt: skip
        frames = FrameParts(header)
        body = CommitBody(self.commit._facts(), self.commit.starts, self.commit.ends, self.segments)
        _add_frame(frames, RECORD_STREAM, body.encode(), body)
        if self.since is not None:
            body = self.since.body()
            raw = body.encode()
            if len(raw) <= RAW_BYTES_MAX:
                _add_frame(frames, SINCE_STREAM, raw, body)
        for segment in self.inline:
            segment.add_to(frames)
        return frames.parts

    def placed(self, size: int) -> ReferenceObject:
        """Return it as readers have it, of an object of ``size`` bytes: with places of all frames.

        Raises:
            ValueError: as :func:`.inline_bytes`; or `since` has others.
        """
        own_bytes = inline_bytes(self.segments)
        since = self.since
        if since is not None and inline_bytes(since.segments) != own_bytes:
            raise ValueError("inline frames that came since an earlier commit, and not with this")
        if not own_bytes:
            return self
        segments = placed(self.segments, self.number, size - own_bytes)
        if since is not None:
            since = replace(since, segments=placed(since.segments, self.number, size - own_bytes))
        return replace(self, segments=segments, since=since, inline=())

    @classmethod
    def decode(
        cls, data: bytes, path: str, number: int, *, with_since: bool = True
    ) -> ReferenceObject:
        """Back from bytes that were read from ``path``.

        Without ``with_since`` what it says that came since an earlier commit is proven by its
        checksum alone, and left out: who follows has it from the commits before.

        Raises:
            CorruptLog: they are not those of this commit.
            UnsupportedVersion: a later format wrote it.
        """
        try:
            header = decode_segment_header(data)
            if header.segment_id != number:
                raise BadHeader(f"the object is number {header.segment_id}")
            body, *rest = _bodies_of(header, data, with_since=with_since)
            commit = ReferenceCommit._of(body)
            _check_segments(body.segments, commit)
            since = Since.of(rest[0], number) if rest else None
            if since is not None:
                _check_segments(since.segments, commit)
            after = None if header.prev_segment == NONE else (header.prev_segment, header.prev_salt)
            return cls(
                number, header.log_id, commit, body.segments, header.created_us, header.salt,
                after, since,
            ).placed(len(data))  # fmt: skip
        except BadHeader as error:
            raise refusal(path, 0, error) from None
        except (ValueError, OSError, zstandard.ZstdError) as error:
            what = f"a commit that says what cannot be: {error}"
            raise CorruptLog(path, SEGMENT_HEADER_BYTES, what) from error


def _add_frame(frames: FrameParts, stream_id: int, raw: bytes, body: CommitBody) -> None:
    count = body.segments.num_rows
    stored, raw_bytes, codec = compress(raw, _COMPRESSION_LEVEL, count)
    frame = FrameHeader(
        type=FrameType.COMMIT, codec=codec, stream_id=stream_id, record_count=count,
        raw_bytes=raw_bytes,
    )  # fmt: skip
    frames.add(frame, stored)


def _bodies_of(header: SegmentHeader, data: bytes, *, with_since: bool) -> list[CommitBody]:
    """Return the bodies of an object's one or two COMMIT frames; the first alone if asked so.

    Raises:
        BadHeader: a frame is not sound, or another; or what follows are not its inline frames.
        ValueError, OSError, zstandard.ZstdError: a body is none of a commit.
    """
    frames = FramesInMemory(data, header.salt, COMMIT_TYPES)
    running_crc = header.running_crc
    bodies: list[CommitBody] = []
    count = 0

    def prove(byte: int, frame: FrameHeader) -> None:
        nonlocal running_crc, count
        running_crc = follows(running_crc, frame)
        count += 1
        if frame.type != FrameType.COMMIT:
            raise BadHeader("a frame of records where a commit is due")
        if count > 2 or frame.stream_id != (RECORD_STREAM, SINCE_STREAM)[count - 1]:
            raise BadHeader(f"a frame of stream {frame.stream_id}, as number {count}")
        if frame.codec not in (Codec.NONE, Codec.ZSTD):
            raise NewerVersion(f"a commit with codec {frame.codec}")
        stored = frames.body_at(byte, frame)
        if count == 2 and not with_since:
            return
        body = CommitBody.decode(inflated(stored, frame.codec, frame.raw_bytes))
        if body.segments.num_rows != frame.record_count:
            raise BadHeader(f"{body.segments.num_rows} segments, not {frame.record_count}")
        bodies.append(body)

    byte, stop = SEGMENT_HEADER_BYTES, len(data)
    while byte < stop:
        # One after the other, because the first one says where the last one ends.
        item = next(whole_frames(frames.header_at, byte, stop, None, prove))
        if isinstance(item, Bad):
            raise (NewerVersion if item.newer else BadHeader)(item.reason)
        byte += item[1].frame_bytes
        if count == 1:
            stop = len(data) - inline_bytes(bodies[0].segments)
    # An object that is cut by as many bytes as `since` has must not pass for one without it.
    if byte > stop or not bodies or _is_commit(frames, byte):
        raise BadHeader(f"it ends before its {'inline frames' if bodies else 'commit'}")
    return bodies


def _is_commit(frames: FramesInMemory, byte: int) -> bool:
    try:
        return frames.header_at(byte).type == FrameType.COMMIT
    except BadHeader:
        return False


def _check_segments(segments: pa.RecordBatch, commit: ReferenceCommit) -> None:
    partitions, least = len(commit.ends), 0 if WRITER_SETTING in commit.settings else 1
    values = {name: segments.column(name).to_numpy() for name in _NUMBERS}
    if segments.num_rows and not (
        (values["partition"] >= 0).all()
        and (values["partition"] < partitions).all()
        and all((values[name] >= 0).all() for name in ("first_offset", "byte", "bytes"))
        and (values["records"] >= least).all()
        and ((values["least_us"] <= values["greatest_us"]) | (values["records"] == 0)).all()
    ):
        raise ValueError("a segment that cannot be")


_NUMBERS = (
    "partition", "first_offset", "records", "byte", "bytes", "least_us", "greatest_us",
)  # fmt: skip
