"""Selection of the records that a replay returns, and of their columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from cec_store.errors import SchemaMismatch
from cec_store.format.schema import KIND, TIMESTAMP, TIMESTAMP_TYPE, RecordKind
from cec_store.values import Position, to_timestamp_us

METADATA_COLUMNS = (
    pa.field(TIMESTAMP, TIMESTAMP_TYPE),
    pa.field(KIND, pa.uint8()),
    pa.field("_offset", pa.int64()),
)
"""Columns that ``include_metadata`` adds to those of a queue, in this order."""
PARTITION_COLUMN = pa.field("_partition", pa.int32())
"""Columns that it adds besides where a queue is read by partitions."""
OUTPUT_KINDS = frozenset({RecordKind.DATA, RecordKind.RESULT})
Moment = date | int | str | Position
"""A place in time, as :func:`.values.to_timestamp_us` takes it, or in the log."""


@dataclass(frozen=True)
class Selection:
    """Arguments of :meth:`cec_store.OutputQueue.replay`, as one value."""

    since: Moment | None = None
    """A moment: only records at or after it, wherever they stand; a position is where to begin.
    ``None``: the oldest record that is left."""
    until: Moment | None = None
    """A moment: only records before it; a position is where to end. ``None``: the end."""
    kinds: Collection[RecordKind] = OUTPUT_KINDS
    include_metadata: bool = False
    include_state: bool = False
    follow: bool = False
    """Wait for more at the end."""
    from_moment: Moment | None = None
    """Begin with the first record at or after it; those behind that one may be earlier."""
    end_offset: int | None = None
    """Nothing from here on, whatever ``until`` says."""
    columns: Sequence[str] | None = None
    """Names of the user's columns to read, in this order; ``None``: all."""

    def __post_init__(self) -> None:
        # Relative moments count from now, for all partitions and however long they are read.
        for name in ("since", "until", "from_moment"):
            moment = getattr(self, name)
            if moment is not None and not isinstance(moment, Position):
                object.__setattr__(self, name, to_timestamp_us(moment))

    def of_columns(self, data: pa.Schema, path: str) -> list[str]:
        """Return the names of the user's columns that are returned, in order.

        Raises:
            SchemaMismatch: there is no such column, or none is named.
        """
        names: list[str] = data.names if self.columns is None else list(self.columns)
        if self.columns is not None and not names:
            raise SchemaMismatch(f"{path}: no columns: name one at least of {data.names}")
        unknown = [name for name in names if name not in data.names]
        if unknown or len(set(names)) < len(names):
            what = f"there is no column {unknown}" if unknown else f"columns named twice: {names}"
            raise SchemaMismatch(f"{path}: {what}; it has {data.names}")
        return names

    def positions(self) -> list[Position]:
        """Return those of its bounds that are positions."""
        bounds = (self.since, self.until, self.from_moment)
        return [bound for bound in bounds if isinstance(bound, Position)]

    def of_partition(
        self, number: int, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Return a partition's batches, with its number as a column where metadata is wanted."""
        if not self.include_metadata:
            return batches
        cell = pa.scalar(number, PARTITION_COLUMN.type)
        return (
            batch.append_column(PARTITION_COLUMN, pa.repeat(cell, batch.num_rows))
            for batch in batches
        )
