"""The commits of a queue of many partitions, as values and as records. docs/format.md §11."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from cec_store.chain import Chain
from cec_store.errors import CorruptLog, OutOfRange
from cec_store.frontier import Frame
from cec_store.records import RecordSchema
from cec_store.staging import Staged

_STAGED = pa.struct(
    [
        ("partition", pa.int32()),
        ("segment", pa.int64()),
        ("frames", pa.int64()),
        ("records", pa.int64()),
    ]
)
COMMIT_SCHEMA = RecordSchema(
    pa.schema(
        [
            ("query", pa.string()),
            ("batch", pa.int64()),
            ("staged", pa.list_(_STAGED)),
            ("ends", pa.list_(pa.int64())),
            ("queries", pa.map_(pa.string(), pa.int64())),
        ]
    )
)


@dataclass(frozen=True)
class Commit:
    """What one batch adds, and where the partitions end after it."""

    query: str = ""
    batch: int = -1
    staged: tuple[Staged, ...] = ()
    ends: tuple[int, ...] = (0,)
    queries: dict[str, int] = field(default_factory=dict)
    """The last batch of every streaming query that ever committed."""

    def has(self, query: str, batch: int) -> bool:
        """Whether this batch of this query is in the queue already."""
        return self.queries.get(query, -1) >= batch

    @property
    def is_first(self) -> bool:
        """Whether the queue was empty before."""
        own = [0] * len(self.ends)
        for piece in self.staged:
            own[piece.partition] += piece.records
        return tuple(own) == self.ends

    def following(
        self, query: str, batch: int, staged: tuple[Staged, ...], *, is_stream: bool
    ) -> Commit:
        """The commit after this one."""
        count = max([len(self.ends), *(piece.partition + 1 for piece in staged)])
        ends = [*self.ends, *[0] * (count - len(self.ends))]
        for piece in staged:
            ends[piece.partition] += piece.records
        queries = {**self.queries, query: batch} if is_stream else self.queries
        return Commit(query, batch, staged, tuple(ends), queries)

    def start(self, piece: Staged) -> int:
        """Offset in its partition of the piece's first record."""
        before = [p for p in self.staged if p.partition == piece.partition]
        total = sum(p.records for p in before[before.index(piece) :])
        return self.ends[piece.partition] - total

    def as_batch(self) -> pa.RecordBatch:
        """One row of the columns of ``commits/``."""
        staged = [
            {"partition": p.partition, "segment": p.segment_id, "frames": p.frames,
             "records": p.records} for p in self.staged
        ]  # fmt: skip
        row = [self.query, self.batch, staged, list(self.ends), list(self.queries.items())]
        schema = COMMIT_SCHEMA.data
        arrays = [pa.array([cell], column.type) for cell, column in zip(row, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    @classmethod
    def from_row(cls, row: dict[str, object]) -> Commit:
        """Back from a row of ``commits/``; ``TypeError`` or ``ValueError`` where it is none."""
        staged, ends, queries = row["staged"], row["ends"], row["queries"]
        if not (isinstance(staged, list) and isinstance(ends, list) and isinstance(queries, list)):
            raise TypeError("a commit with nulls")
        pieces = tuple(
            Staged(p["partition"], p["segment"], p["frames"], p["records"]) for p in staged
        )
        if not all(0 <= piece.partition < len(ends) for piece in pieces) or min(ends) < 0:
            raise ValueError("a commit of partitions that it does not count")
        return cls(str(row["query"]), int(str(row["batch"])), pieces, tuple(ends), dict(queries))


def newest_first(chain: Chain) -> Iterator[Commit]:
    """The commits that are left, from the newest back.

    Raises:
        CorruptLog: damaged, or not the log of commits.
    """
    frame = chain.last()
    while frame is not None:
        yield from reversed(_commits(chain, frame))
        try:
            frame = chain.before(frame)
        except OutOfRange:
            return


def newest(chain: Chain) -> Commit:
    """The newest commit; of a queue without any, the one that took in nothing."""
    return next(newest_first(chain), Commit())


def _commits(chain: Chain, frame: Frame) -> list[Commit]:
    rows = chain.records(frame).select(COMMIT_SCHEMA.data.names).to_pylist()
    try:
        return [Commit.from_row(row) for row in rows]
    except (TypeError, ValueError, KeyError) as error:
        path = chain.reader(frame.address.segment_id).path
        raise CorruptLog(path, frame.address.byte, f"no commit: {error}") from None
