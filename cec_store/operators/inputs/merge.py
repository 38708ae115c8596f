"""Several inputs into one sequence of steps whose order does not depend on their batches.

Of the inputs' next rows the one with the smallest timestamp goes first, of equal ones that of
the lowest input. Where timestamps go backward inside an input, a row waits for the rows before
it, so what counts is the largest timestamp of its input from its head on: the *due* time. (Rows
before the head do not matter, so the maximum may begin anew at each head.) Rows are decided as
soon as no row still to come can leave before them.

An input that is live and has no rows now may get any row later. So nothing is decided until it
has one again: the rows of the others that are due later are held back. Only then is the order that
of the rows, and not that of their coming.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from cec_store.format.columns import Ints
from cec_store.operators.contract import InputBatch, Step
from cec_store.operators.inputs.reading import no_rows, rows_of

BATCH_ROWS_MAX = 65_536
INPUTS_MAX = 127  # a step numbers them in one signed byte


class _PendingRows:
    """Rows of one input that were read and not emitted yet."""

    def __init__(
        self, source: Iterator[InputBatch], schema: pa.Schema, is_live: bool = False
    ) -> None:
        self.is_read = False
        """True once the source has no more rows now."""
        self.is_live = is_live
        self._source = source
        self._read = no_rows(schema)
        self.due_us: Ints = self._read.timestamps_us

    @property
    def is_awaited(self) -> bool:
        """True if no row is pending, and rows that may yet come can be due before all others."""
        return self.is_live and self.is_read and not len(self.due_us)

    @property
    def is_ended(self) -> bool:
        """True if no row comes behind the pending ones."""
        return self.is_read and not self.is_live

    def fill(self) -> None:
        """Read on until there is a row, or the input has no more of them."""
        while not len(self.due_us) and not self.is_read:
            read = next(self._source, None)
            if read is None:
                self.is_read = True
            elif len(read.offsets):
                self._read = read
                self.due_us = np.maximum.accumulate(read.timestamps_us)

    def take(self, count: int) -> tuple[InputBatch, Ints]:
        """Take the first ``count`` rows, and when they are due."""
        read, due_us = self._read, self.due_us
        self.due_us = due_us[count:]
        self._read = rows_of(read, count, len(due_us))
        return rows_of(read, 0, count), due_us[:count]


def merged_rows(taken: list[InputBatch], next_unread: Ints) -> Step:
    """All these rows, one batch of each input, as one step in the order of :func:`merge`."""
    due = [(read, np.maximum.accumulate(read.timestamps_us)) for read in taken]
    (step,) = _steps(due, next_unread, max(1, sum(len(read.offsets) for read in taken)))
    return step


def merge(
    inputs: Sequence[Iterator[InputBatch]],
    starts: Ints,
    schemas: Sequence[pa.Schema],
    rows_max: int = BATCH_ROWS_MAX,
    live: Sequence[bool] | None = None,
) -> Iterator[Step]:
    """Steps of at most ``rows_max`` rows that hold every decided row of the inputs, in order.

    ``starts`` has shape (inputs,): the offsets from which they are read. ``schemas`` are theirs;
    an input without rows in a step has an empty batch in it. Reading on from the positions of
    any row gives the rows after it in the same order. ``live`` says which inputs may get more
    rows behind those that are there; by default none may, and then every row is decided.
    """
    if len(inputs) > INPUTS_MAX:
        raise ValueError(f"{len(inputs)} inputs, and at most {INPUTS_MAX} can be merged")
    live = live or [False] * len(inputs)
    pending = [_PendingRows(*parts) for parts in zip(inputs, schemas, live, strict=True)]
    next_unread = np.array(starts, np.int64)
    while True:
        for input_rows in pending:
            input_rows.fill()
        if any(input_rows.is_awaited for input_rows in pending):
            return
        if not any(len(input_rows.due_us) for input_rows in pending):
            return
        taken = [
            input_rows.take(count)
            for input_rows, count in zip(pending, _decided(pending), strict=True)
        ]
        for step in _steps(taken, next_unread, rows_max):
            yield step
            next_unread = step.positions[-1]


def _decided(pending: list[_PendingRows]) -> list[int]:
    """Return how many rows of each input come before all rows still to be read."""
    reading = [
        (int(input_rows.due_us[-1]), j)
        for j, input_rows in enumerate(pending)
        if not input_rows.is_ended
    ]
    if not reading:
        return [len(input_rows.due_us) for input_rows in pending]
    # What the inputs still hold leaves after the last rows read: the one due first decides, and
    # its own input, read to that row, goes first among equals.
    due_us, decider = min(reading)
    return [
        int(np.searchsorted(input_rows.due_us, due_us, side="right" if j <= decider else "left"))
        for j, input_rows in enumerate(pending)
    ]


def _steps(
    taken: list[tuple[InputBatch, Ints]], next_unread: Ints, rows_max: int
) -> Iterator[Step]:
    counts = [len(due_us) for _, due_us in taken]
    source = np.repeat(np.arange(len(taken), dtype=np.int8), counts)
    if len(taken) > 1:
        due_us = np.concatenate([due_us for _, due_us in taken])
        order = np.argsort(due_us, kind="stable")
        source = source[order]
        timestamps_us = np.concatenate([read.timestamps_us for read, _ in taken])[order]
    else:
        timestamps_us = taken[0][0].timestamps_us
    positions = np.empty((len(source), len(taken)), np.int64)
    unread = np.zeros((len(source) + 1, len(taken)), np.int64)
    for j, (read, _) in enumerate(taken):
        # Rows of input j before each row of the merged order, and the offset that comes next.
        unread[1:, j] = np.cumsum(source == j)
        after = np.concatenate([next_unread[j : j + 1], read.offsets + 1])
        positions[:, j] = after[unread[1:, j]]
    for start in range(0, len(source), rows_max):
        stop = min(start + rows_max, len(source))
        batches = tuple(
            read.batch.slice(unread[start, j], unread[stop, j] - unread[start, j])
            for j, (read, _) in enumerate(taken)
        )
        part = slice(start, stop)
        yield Step(batches, source[part], positions[part], timestamps_us[part])
