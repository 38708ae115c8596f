"""The rows of one input as they are there now, in batches that are worth a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from cec_store.format.records import concat, empty_batch
from cec_store.operators.contract import InputBatch


class Reading(Iterator[InputBatch]):
    """Batches of a source, of which small ones are joined to at most ``rows_max`` rows.

    Joining them makes the cost of a step one of its rows: it does not depend on the frames in
    which they came. A batch that is larger stays as it is, and empty ones are left out.
    """

    def __init__(
        self, batches: Iterator[InputBatch], rows_max: int, *, is_live: bool = False
    ) -> None:
        """``is_live`` says that rows may still come behind the last one that is there."""
        self.is_live = is_live
        self._batches = batches
        self._rows_max = rows_max
        self._ahead: InputBatch | None = None

    @property
    def is_exhausted(self) -> bool:
        """True if no row is left; finding out reads one batch of the source at most."""
        return self._look() is None

    def __next__(self) -> InputBatch:
        parts: list[InputBatch] = []
        room = self._rows_max
        while (ahead := self._look()) is not None and (not parts or len(ahead.offsets) <= room):
            parts.append(ahead)
            room -= len(ahead.offsets)
            self._ahead = None
        if not parts:
            raise StopIteration
        return joined(parts)

    def _look(self) -> InputBatch | None:
        while self._ahead is None:
            read = next(self._batches, None)
            if read is None:
                return None
            if len(read.offsets):
                self._ahead = read
        return self._ahead


def rows_of(read: InputBatch, start: int, stop: int) -> InputBatch:
    """Rows ``[start, stop)`` of a batch."""
    batch = read.batch.slice(start, stop - start)
    return InputBatch(batch, read.offsets[start:stop], read.timestamps_us[start:stop])


def no_rows(schema: pa.Schema) -> InputBatch:
    """A batch of this schema without rows."""
    none = np.empty(0, np.int64)
    return InputBatch(empty_batch(schema), none, none)


def joined(parts: Sequence[InputBatch]) -> InputBatch:
    """The rows of one or more batches of one input, in their order, as one batch."""
    parts = [part for part in parts if len(part.offsets)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return InputBatch(
        concat([part.batch for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.timestamps_us for part in parts]),
    )
