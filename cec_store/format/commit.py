"""The commits of a queue of many partitions, as values and as records. docs/format.md §11."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from functools import cached_property

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

    @cached_property
    def pieces(self) -> Mapping[int, tuple[tuple[Staged, int], ...]]:
        """By partition what it takes in there, each with the offset of its first record."""
        found: dict[int, list[tuple[Staged, int]]] = {}
        at = list(self.ends)
        for piece in reversed(self.staged):
            at[piece.partition] -= piece.records
            found.setdefault(piece.partition, []).append((piece, at[piece.partition]))
        return {number: tuple(reversed(pieces)) for number, pieces in found.items()}

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the partitions ended before it; 0 for those that it adds."""
        firsts = {number: pieces[0][1] for number, pieces in self.pieces.items()}
        return tuple(firsts.get(number, end) for number, end in enumerate(self.ends))

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
