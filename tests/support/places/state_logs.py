"""Writes state logs as docs/format.md §9 says, next to a plain dict that says what they hold.

Only for tests: what Spark runs is written in Scala. Records, footprints, N and q are worked out
here one by one, not with the code that is under test.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from cec_store import EventualCheckpoint
from cec_store.format.bodies import encode_blocks, encode_body
from cec_store.format.checksum import crc32c
from cec_store.format.frame import (
    COUNTED,
    NONE,
    RECORD_STREAM,
    SEGMENT_HEADER_BYTES,
    Codec,
    FrameHeader,
    FrameType,
    SegmentFlags,
    SegmentHeader,
)
from cec_store.format.schema import RecordKind, RecordSchema
from cec_store.log.segment import SegmentReader, SegmentWriter
from cec_store.storage.folder import Folder
from cec_store.storage.names import segment_id_of

Key = tuple[int, bytes]
"""Column family and key."""
SCHEMA = RecordSchema(
    pa.schema([]),
    key=pa.schema([("family", pa.uint16()), ("key", pa.binary())]),
    state=pa.schema([("value", pa.binary()), ("renewed", pa.bool_())]),
    inputs=1,
)
START_US = 1_357_016_400_000_000


@dataclass(frozen=True)
class Commit:
    """A version as one attempt made it."""

    version: int = 0
    state: dict[Key, bytes] = field(default_factory=dict)
    footprints: dict[Key, int] = field(default_factory=dict)
    """Offset of each key's newest footprint."""
    seq: int = 0
    """The next frame's."""
    offset: int = 0
    """The next record's."""
    segment_id: int = NONE
    byte: int = 0
    """Of its last frame."""
    end: int = 0
    salt: int = 0
    running_crc: int = 0
    log_id: bytes = b""

    @property
    def extent_records(self) -> int:
        return self.offset - min(self.footprints.values()) if self.footprints else 0

    @property
    def unique_id(self) -> str:
        return f"{self.segment_id:016x}-{self.salt:016x}-{self.seq - 1:x}"


EMPTY = Commit()


@dataclass
class Writer:
    """One provider instance: it appends to segments of its own only."""

    folder: Folder
    random: Random
    level: int = 1
    """Of zstd; 0: not compressed."""
    blocks: bool = False
    rows_per_block: int = 0
    """As many as come to 16 KiB, unless it is given."""
    """Codec 2, as Spark's provider does, instead of 1."""
    segment_bytes: int = 64 << 20
    object_per_commit: bool = False
    syncs: bool = True
    clock_us: int = START_US

    def __post_init__(self) -> None:
        ids = [n for n in map(segment_id_of, self.folder.names()) if n is not None]
        self._seen = max(ids, default=0) >> 32
        self._segment: SegmentWriter | None = None
        self._last = EMPTY

    def commit(
        self, base: Commit, changes: dict[Key, bytes | None], *, renew: int = 0, frames: int = 1
    ) -> Commit:
        """Write the version after ``base``: None removes a key, ``renew`` old ones are renewed."""
        rows, state, footprints = self._rows(base, changes, renew)
        if (
            self._segment is None
            or base is not self._last
            or self._segment.bytes >= self.segment_bytes
            or self.object_per_commit
        ):
            self._begin(base)
        assert self._segment is not None
        made = base
        cuts = [len(rows) * part // frames for part in range(frames + 1)]
        for part in range(frames):
            is_last = part == frames - 1
            here = rows[cuts[part] : cuts[part + 1]]
            made = self._append(base, made, here, state, footprints, is_last)
        if self.syncs:
            self._segment.sync()
        self._last = made
        return made

    def roll(self) -> None:
        """As if the segment were full."""
        self.close()
        self._segment = None

    def close(self) -> None:
        if self._segment is not None:
            self._segment.close()

    def _rows(
        self, base: Commit, changes: dict[Key, bytes | None], renew: int
    ) -> tuple[list[dict[str, Any]], dict[Key, bytes], dict[Key, int]]:
        self.clock_us += 1_000_000
        state, footprints = dict(base.state), dict(base.footprints)
        rows: list[dict[str, Any]] = []

        def add(kind: RecordKind, key: Key, value: bytes | None, renewed: bool = False) -> None:
            if kind == RecordKind.RESULT:
                del state[key], footprints[key]
            else:
                assert value is not None
                state[key] = value
                footprints[key] = base.offset + len(rows)
            rows.append(
                {
                    "_kind": kind,
                    "_timestamp": self.clock_us,
                    "_input_0": base.version + 1,
                    "_key": {"family": key[0], "key": key[1]},
                    "_state": None if value is None else {"value": value, "renewed": renewed},
                }
            )

        for key, value in changes.items():
            known = key in base.state
            if value is not None:
                add(RecordKind.CHECK if known else RecordKind.OPEN, key, value)
            elif known:
                add(RecordKind.RESULT, key, None)
        untouched = [key for key in base.footprints if key in state and key not in changes]
        for key in sorted(untouched, key=base.footprints.__getitem__)[:renew]:
            add(RecordKind.CHECK, key, state[key], True)
        return rows, state, footprints

    def _begin(self, base: Commit) -> None:
        self.close()
        ordinal = self._seen + 1
        self._seen = ordinal
        header = SegmentHeader(
            epoch=0,
            log_id=base.log_id or self.random.randbytes(16),
            segment_id=ordinal << 32 | self.random.getrandbits(31) << 1,
            salt=self.random.getrandbits(64),
            first_seq=base.seq,
            prev_segment=base.segment_id,
            prev_bytes=base.end,
            prev_salt=base.salt,
            prev_chain=base.running_crc,
            created_us=self.clock_us,
        )
        self._segment = SegmentWriter(self.folder, header)
        append_frame(self._segment, FrameType.SCHEMA, base, SCHEMA.encode(), upto=base.version)

    def _append(
        self,
        base: Commit,
        before: Commit,
        rows: list[dict[str, Any]],
        state: dict[Key, bytes],
        footprints: dict[Key, int],
        is_last: bool,
    ) -> Commit:
        assert self._segment is not None
        records = records_of(rows)
        level = max(1, self.level)
        body = (
            encode_blocks(records, level, self.rows_per_block)
            if self.blocks
            else encode_body(records, level)
        )
        stored, codec = body.stored, body.codec
        raw_bytes = body.raw_bytes
        if not self.level:
            stored, codec = bytes(records.serialize()), Codec.NONE
            raw_bytes = len(stored)
        offset = before.offset + len(rows)
        oldest = min(footprints.values(), default=offset)
        byte = append_frame(
            self._segment, FrameType.BATCH, before, stored,
            upto=base.version + 1, raw_bytes=raw_bytes, codec=codec, record_count=len(rows),
            min_timestamp_us=body.min_timestamp_us, max_timestamp_us=body.max_timestamp_us,
            flags=COUNTED if is_last else 0, open_windows=len(state) if is_last else 0,
            extent_records=offset - oldest if is_last else 0,
        )  # fmt: skip
        header = self._segment.header
        return Commit(
            base.version + 1, state, footprints, before.seq + 1, offset, header.segment_id, byte,
            self._segment.bytes, header.salt, self._segment.running_crc, header.log_id,
        )  # fmt: skip


def records_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    columns = []
    for column in SCHEMA.arrow:
        kind = pa.int64() if column.name == "_timestamp" else column.type
        columns.append(pa.array([row[column.name] for row in rows], kind).cast(column.type))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA.arrow)


def append_frame(
    segment: SegmentWriter,
    frame_type: FrameType,
    before: Commit,
    body: bytes,
    *,
    upto: int,
    raw_bytes: int | None = None,
    **fields: Any,
) -> int:
    header = FrameHeader(
        type=frame_type, stream_id=RECORD_STREAM, seq=before.seq, first_offset=before.offset,
        prev_segment=before.segment_id, prev_byte=before.byte,
        chain_crc=segment.running_crc, durable_upto=segment.synced_bytes,
        salt=segment.header.salt, input_upto=upto,
        body_bytes=len(body), raw_bytes=len(body) if raw_bytes is None else raw_bytes,
        body_crc=crc32c(body), **fields,
    )  # fmt: skip
    return segment.append(header.encode(), body)


def merge(folder: Folder, ids: list[int]) -> int:
    """What maintenance makes of neighbouring segments of one lineage; returns its number."""
    readers = [SegmentReader(folder, segment_id) for segment_id in ids]
    first, newest = readers[0].header, readers[-1].header
    stops = [reader.header.prev_bytes for reader in readers[1:]] + [readers[-1].size()]
    head = first._replace(
        segment_id=newest.segment_id | 1, salt=newest.salt, flags=SegmentFlags.COMPACTED
    )
    made = SegmentWriter(folder, head)
    schema = readers[0].header_at(SEGMENT_HEADER_BYTES)
    body = readers[0].body_at(SEGMENT_HEADER_BYTES, schema).to_pybytes()
    previous = (schema.prev_segment, schema.prev_byte)

    def again(header: FrameHeader) -> bytes:
        return encode_again(header, previous, made.header.salt, made.running_crc)

    made.append(again(schema), body)
    for reader, stop in zip(readers, stops, strict=True):
        for byte, header in reader.frames(stop=stop):
            if header.type == FrameType.BATCH:
                stored = reader.body_at(byte, header).to_pybytes()
                previous = made.header.segment_id, made.append(again(header), stored)
    made.sync()
    made.close()
    return made.header.segment_id


def encode_again(
    header: FrameHeader, previous: tuple[int, int], salt: int, chain_crc: int
) -> bytes:
    """The header with another address before it, and of another segment."""
    prev_segment, prev_byte = previous
    again = header._replace(
        salt=salt, durable_upto=0, prev_segment=prev_segment, prev_byte=prev_byte,
        chain_crc=chain_crc,
    )  # fmt: skip
    return again.encode()


# -- random trees -----------------------------------------------------------------------------


@dataclass
class Grown:
    """A log with every attempt at every version in it."""

    folder: Folder
    attempts: list[Commit] = field(default_factory=list)
    merged: dict[int, list[int]] = field(default_factory=dict)
    """Segments by what they were merged into."""

    def versions(self) -> dict[int, Commit]:
        """By rule V1: the attempt in the segment with the highest number."""
        chosen: dict[int, tuple[int, Commit]] = {}
        for attempt in self.attempts:
            places = [attempt.segment_id]
            places += [m for m, ids in self.merged.items() if self._was_merged(attempt, ids)]
            for place in places:
                if attempt.version not in chosen or place >= chosen[attempt.version][0]:
                    chosen[attempt.version] = (place, attempt)
        return {version: attempt for version, (_, attempt) in sorted(chosen.items())}

    def _was_merged(self, attempt: Commit, ids: list[int]) -> bool:
        if attempt.segment_id not in ids:
            return False
        place = ids.index(attempt.segment_id)
        if place == len(ids) - 1:
            return True
        return attempt.end <= SegmentReader(self.folder, ids[place + 1]).header.prev_bytes

    def version_reader(self, commit: Commit) -> list[int]:
        """Segments from the oldest to that of the commit, by what their headers say."""
        ids = [commit.segment_id]
        while (before := SegmentReader(self.folder, ids[-1]).header.prev_segment) != NONE:
            ids.append(before)
        return ids[::-1]


def random_changes(random: Random, base: Commit, keys: int) -> dict[Key, bytes | None]:
    """Puts and removals over three families; the first use of family 2 gives it a name."""
    changes: dict[Key, bytes | None] = {}
    for _ in range(random.randrange(0, 5)):
        family = random.choice((1, 1, 2))
        key = family, bytes([random.randrange(keys)]) * random.randrange(1, 4)
        if random.random() < 0.35:
            changes[key] = None
            continue
        if family == 2 and (0, b"timers") not in base.state:
            changes[0, b"timers"] = struct.pack("<H", 2)
        changes[key] = random.randbytes(random.randrange(0, 30))
    return changes


def grow(folder: Folder, random: Random, steps: int = 14, merges: bool = True) -> Grown:
    """Commits, retries, twins, zombies, rolls, several frames a commit, torn tails."""
    grown = Grown(folder)
    writers: list[tuple[Writer, Commit]] = []
    for _ in range(steps):
        move = random.random()
        if not writers or move < 0.25:
            recent = [EMPTY, *grown.attempts][-3:] if grown.attempts else [EMPTY]
            base = random.choice(recent)
            writer = Writer(
                folder, random, level=random.choice((0, 1)), blocks=random.random() < 0.7,
                segment_bytes=random.choice((2_000, 1 << 20)),
                object_per_commit=random.random() < 0.2, syncs=random.random() < 0.7,
            )  # fmt: skip
            twin = Writer(folder, random, blocks=True) if random.random() < 0.3 else None
            writers += [(each, base) for each in (writer, twin) if each is not None]
        place = len(writers) - 1 if random.random() < 0.8 else random.randrange(len(writers))
        writer, base = writers[place]
        if random.random() < 0.1:
            writer.roll()
        changes = random_changes(random, base, 6)
        made = writer.commit(
            base, changes, renew=random.randrange(3), frames=random.choice((1, 1, 1, 2, 3))
        )
        grown.attempts.append(made)
        writers[place] = (writer, made)
    for writer, _ in writers:
        writer.close()
    if merges and random.random() < 0.5:
        ids = grown.version_reader(random.choice(grown.attempts))
        first = random.randrange(len(ids))
        ids = ids[first:]
        if len(ids) > 1:
            grown.merged[merge(folder, ids)] = ids
    return grown


def contents(found: EventualCheckpoint) -> dict[Key, bytes]:
    keys, states = found.keys.to_pylist(), found.states.to_pylist()
    return {(k["family"], k["key"]): s["value"] for k, s in zip(keys, states, strict=True)}
