"""The commits of a queue of many partitions, as values and as records. docs/format.md §11."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field

import pyarrow as pa

from cec_store.format.schema import RecordSchema

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
        staged = [astuple(piece) for piece in self.staged]
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
        pieces = tuple(Staged(*(piece[column.name] for column in _STAGED)) for piece in staged)
        if not all(0 <= piece.partition < len(ends) for piece in pieces) or min(ends) < 0:
            raise ValueError("a commit of partitions that it does not count")
        return cls(str(row["query"]), int(str(row["batch"])), pieces, tuple(ends), dict(queries))


@dataclass(frozen=True)
class Staged:
    """A finished piece: rows of one partition, waiting for a commit that names them.

    Its fields are those of a piece in ``commits/``, in that order.
    """

    partition: int
    segment_id: int
    frames: int
    records: int
