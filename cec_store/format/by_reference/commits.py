"""Commits by reference and summaries of them, as values and as objects. docs/format.md §11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.errors import CorruptLog, upgrade_needed
from cec_store.format.bodies import encode_body
from cec_store.format.by_reference.whole_segment import WholeSegment, decode_whole, encode_whole
from cec_store.format.frame import NONE, RECORD_STREAM, BadHeader, SegmentHeader
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.schema import RecordSchema

SUMMARY_STREAM = 2
_COMPRESSION_LEVEL = 3
_COMMIT = pa.struct(
    [
        ("operation", pa.uint8()),
        ("query", pa.string()),
        ("batch", pa.int64()),
        ("starts", pa.list_(pa.int64())),
        ("ends", pa.list_(pa.int64())),
        ("queries", pa.map_(pa.string(), pa.int64())),
        ("consumed", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("settings", pa.map_(pa.string(), pa.string())),
        ("schema", pa.binary()),
    ]
)
SEGMENT_COLUMNS = pa.schema(
    [
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("records", pa.int64()),
        ("file", pa.string()),
        ("byte", pa.int64()),
        ("bytes", pa.int64()),
        ("salt", pa.uint64()),
        ("least_us", pa.int64()),
        ("greatest_us", pa.int64()),
        ("frames", pa.int32()),
        ("written_us", pa.int64()),
        ("removed", pa.bool_()),
    ]
)
"""Fields of segments that commits name: one row each."""
REFERENCE_SCHEMA = RecordSchema(
    pa.schema([("commit", _COMMIT), ("segment", pa.struct(list(SEGMENT_COLUMNS)))])
)


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
    """By ``log_id`` in hexadecimal: what the batch took in of other queues, next offsets."""
    settings: Mapping[str, str] = field(default_factory=dict)
    schema: RecordSchema | None = None
    """Number of the commit that makes a queue."""

    def has(self, query: str, batch: int) -> bool:
        """Return whether this batch of this query is in the queue already."""
        return self.queries.get(query, -1) >= batch

    def _row(self) -> dict[str, Any]:
        consumed = [(queue, list(ends)) for queue, ends in self.consumed.items()]
        return {
            "operation": int(self.operation),
            "query": self.query,
            "batch": self.batch,
            "starts": list(self.starts),
            "ends": list(self.ends),
            "queries": list(self.queries.items()),
            "consumed": consumed,
            "settings": list(self.settings.items()),
            "schema": None if self.schema is None else self.schema.encode(),
        }

    @classmethod
    def _from_row(cls, row: dict[str, Any]) -> ReferenceCommit:
        """``ValueError``, ``TypeError`` or :class:`BadHeader` where it is none."""
        starts, ends = tuple(row["starts"]), tuple(row["ends"])
        if len(starts) != len(ends) or not ends or min(starts) < 0:
            raise ValueError(f"{len(starts)} starts of {len(ends)} partitions")
        if any(start > end for start, end in zip(starts, ends, strict=True)):
            raise ValueError("a partition that starts behind its end")
        schema = row["schema"]
        return cls(
            Operation(row["operation"]),
            row["query"],
            row["batch"],
            starts,
            ends,
            dict(row["queries"]),
            {queue: tuple(offsets) for queue, offsets in row["consumed"]},
            dict(row["settings"]),
            None if schema is None else RecordSchema.decode(schema),
        )


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
        rows = self.segments.num_rows
        commits = pa.array([self.commit._row(), *[None] * rows], _COMMIT)
        first = pa.nulls(1, pa.struct(list(SEGMENT_COLUMNS)))
        segments = pa.concat_arrays([first, self.segments.to_struct_array()])
        batch = pa.record_batch([commits, segments], schema=REFERENCE_SCHEMA.data)
        times = to_timestamps(pa.array(np.full(1 + rows, self.created_us)))
        body = encode_body(data_records(REFERENCE_SCHEMA, batch, times), _COMPRESSION_LEVEL)
        stream_id = SUMMARY_STREAM if self.is_summary else RECORD_STREAM
        return encode_whole(header, REFERENCE_SCHEMA, [body], stream_id)

    @classmethod
    def decode(
        cls, data: bytes, path: str, number: int, *, is_summary: bool = False
    ) -> ReferenceObject:
        """Back from bytes that were read from ``path``.

        Raises:
            CorruptLog: they are not those of this commit or summary.
            UnsupportedVersion: a later format wrote it.
        """
        whole = decode_whole(data, path, SUMMARY_STREAM if is_summary else RECORD_STREAM)
        if whole.schema != REFERENCE_SCHEMA:
            raise CorruptLog(path, 0, "not the columns of a commit")
        if whole.header.segment_id != number:
            raise CorruptLog(path, 0, f"the object is number {whole.header.segment_id}")
        records = whole.records()
        if len(records) != 1 or not records[0].num_rows:
            raise CorruptLog(path, 0, f"a commit of {len(records)} frames")
        commit, segments = _taken_apart(whole, records[0])
        header = whole.header
        after = None if header.prev_segment == NONE else (header.prev_segment, header.prev_salt)
        return cls(
            number, header.log_id, commit, segments, header.created_us, is_summary, header.salt,
            after,
        )  # fmt: skip


def _taken_apart(
    whole: WholeSegment, records: pa.RecordBatch
) -> tuple[ReferenceCommit, pa.RecordBatch]:
    """The commit of the first row, and the segments of the others."""
    byte, _ = whole.frames[0]
    commits, segments = records.column("commit"), records.column("segment").slice(1)
    try:
        records.validate(full=True)  # names of files and queries are UTF-8
    except pa.ArrowInvalid as error:
        raise CorruptLog(whole.path, byte, f"a commit: {error}") from error
    row = commits[0].as_py()
    if row is None or commits.null_count != len(commits) - 1 or segments.null_count:
        raise CorruptLog(whole.path, byte, "not one commit and its segments")
    if row["operation"] not in list(Operation):
        raise upgrade_needed(whole.path, f"a commit that does {row['operation']}")
    columns = pa.RecordBatch.from_struct_array(segments)
    try:
        commit = ReferenceCommit._from_row(row)
        _check_segments(columns, len(commit.ends))
    except (ValueError, TypeError, BadHeader) as error:
        raise CorruptLog(whole.path, byte, f"a commit that says what cannot be: {error}") from error
    return commit, columns


def _check_segments(segments: pa.RecordBatch, partitions: int) -> None:
    if any(column.null_count for column in segments.columns):
        raise ValueError("a segment with nulls")
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


def segments_of(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return :data:`SEGMENT_COLUMNS`; ``removed`` is false where it is not given."""
    return pa.RecordBatch.from_pylist(
        [{"removed": False, **row} for row in rows], schema=SEGMENT_COLUMNS
    )
