"""Several inputs in the order in which their rows come, and in an order that was written down.

The order of arrival is that of the batches that can be read: in turn one of each input. Which
rows are in a batch, and whether there is one, depends on when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import Ints
from cec_store.operators.contract import InputBatch, Step
from cec_store.operators.inputs.merge import BATCH_ROWS_MAX, INPUTS_MAX, merged_rows
from cec_store.operators.inputs.reading import joined, no_rows, rows_of

Runs = list[tuple[int, int]]
"""(input, rows): so many rows of this input, then those of the next run."""


def arrivals(
    inputs: Sequence[Iterator[InputBatch]],
    starts: Ints,
    schemas: Sequence[pa.Schema],
    rows_max: int = BATCH_ROWS_MAX,
) -> Iterator[Step]:
    """Steps of at most ``rows_max`` rows, in the order in which the inputs give them.

    ``starts`` and ``schemas`` as of :func:`merge`.
    """
    if len(inputs) > INPUTS_MAX:
        raise ValueError(f"{len(inputs)} inputs, and at most {INPUTS_MAX} can be merged")
    none = [no_rows(schema) for schema in schemas]
    unread = np.array(starts, np.int64)
    going = dict(enumerate(inputs))
    while going:
        came = [(number, next(source, None)) for number, source in going.items()]
        for number, read in came:
            if read is None:
                del going[number]
        for parts in _cut([(number, read) for number, read in came if read is not None], rows_max):
            taken = [parts.get(number, none[number]) for number in range(len(none))]
            step = _step(
                taken, [(source, len(part.offsets)) for source, part in parts.items()], unread
            )
            yield step
            unread = step.positions[-1]


def _cut(came: list[tuple[int, InputBatch]], rows_max: int) -> Iterator[dict[int, InputBatch]]:
    """Batches by their input, one after the other, as parts of at most so many rows together."""
    parts: dict[int, InputBatch] = {}
    room = rows_max
    for number, read in came:
        at, count = 0, len(read.offsets)
        while at < count:
            stop = min(count, at + room)
            parts[number] = rows_of(read, at, stop)
            room -= stop - at
            at = stop
            if not room:
                yield parts
                parts, room = {}, rows_max
    if parts:
        yield parts


class InputAgain:
    """Rows of the inputs that were taken before, in the steps of that time."""

    def __init__(
        self, inputs: Sequence[Iterator[InputBatch]], start: Ints, schemas: Sequence[pa.Schema]
    ) -> None:
        """The inputs are read from ``start`` on, shape (inputs,)."""
        self.position = np.array(start, np.int64)
        self._inputs = inputs
        self._held = [no_rows(schema) for schema in schemas]

    def step(self, stop: Ints, runs: Runs | None) -> Step | None:
        """The rows up to ``stop``, shape (inputs,), in this order, or in that of :func:`merge`.

        ``None`` where there are fewer rows than there were: in the runs, or none before ``stop``.
        """
        taken = [self._take(number, int(end)) for number, end in enumerate(stop)]
        counts = np.zeros(len(taken), np.int64)
        for number, rows in runs or ():
            counts[number] += rows
        is_moved = [int(end) > at for end, at in zip(stop, self.position.tolist(), strict=True)]
        for part, moved, end, count in zip(taken, is_moved, stop, counts, strict=True):
            is_whole = not moved or (len(part.offsets) and int(part.offsets[-1]) + 1 == int(end))
            if not is_whole or (runs is not None and len(part.offsets) != count):
                return None
        if runs is None and any(is_moved):
            step = merged_rows(taken, self.position)
        else:
            step = _step(taken, runs or [], self.position)
        self.position = np.array(stop, np.int64)
        return step

    def _take(self, number: int, stop: int) -> InputBatch:
        held = [self._held[number]]
        while not len(held[-1].offsets) or int(held[-1].offsets[-1]) + 1 < stop:
            read = next(self._inputs[number], None)
            if read is None:
                break
            held.append(read)
        whole = joined(held)
        count = int(np.searchsorted(whole.offsets, stop))
        self._held[number] = rows_of(whole, count, len(whole.offsets))
        return rows_of(whole, 0, count)


def runs_of(source: NDArray[np.int8]) -> NDArray[np.int32]:
    """The order of a step's rows as (input, rows, input, rows, …)."""
    if not len(source):
        return np.empty(0, np.int32)
    begins = np.flatnonzero(np.append(True, source[1:] != source[:-1]))
    lengths = np.diff(begins, append=len(source))
    return np.stack([source[begins], lengths], axis=1).astype(np.int32).ravel()


def _step(taken: list[InputBatch], runs: Runs, unread: Ints) -> Step:
    """All these rows in the order of the runs."""
    numbers = np.array([number for number, _ in runs], np.int8)
    source = np.repeat(numbers, np.array([rows for _, rows in runs], np.int64))
    row_of = np.argsort(source, kind="stable")
    times = np.concatenate([part.timestamps_us for part in taken])
    timestamps_us = np.empty(len(source), np.int64)
    timestamps_us[row_of] = times
    positions = np.empty((len(source), len(taken)), np.int64)
    for number, part in enumerate(taken):
        after = np.concatenate([unread[number : number + 1], part.offsets + 1])
        positions[:, number] = after[np.cumsum(source == number)]
    return Step(tuple(part.batch for part in taken), source, positions, timestamps_us)
