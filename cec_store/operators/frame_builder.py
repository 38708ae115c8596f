"""A step's effects as the records of its frames, and which CHECKs join them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.format.bodies import cut_to_frames
from cec_store.format.columns import Ints
from cec_store.format.schema import (
    DETERMINANT,
    DETERMINANT_TYPE,
    KEY,
    STATE,
    TIMESTAMP_TYPE,
    RecordKind,
    RecordSchema,
)
from cec_store.log.frames import FrameMarks
from cec_store.operators.acknowledging import Acknowledging
from cec_store.operators.choosing import determinant_of
from cec_store.operators.contract import Effects, Operator, Step

_PIECE_ROWS = 1 << 18
"""Records that are put together at once; all that a step of usual size has."""


class FrameBuilder:
    """Puts an operator's output and its windows' footprints on top of one another."""

    def __init__(self, operator: Operator, schema: RecordSchema, frame_bytes_max: int) -> None:
        self._operator = operator
        self._schema = schema
        self._frame_bytes_max = frame_bytes_max
        self._types = {column.name: column.type for column in schema.arrow}
        self.determinants = int(schema.determinants)
        """Number of a step's records that say what chance has decided."""

    def parts(
        self, step: Step, effects: Effects, opened: Ints, checked: Ints
    ) -> Iterator[pa.RecordBatch]:
        """Output rows, MERGED, DETERMINANT, OPEN and CHECK, in turn: a batch for each frame.

        Each is made when it is asked for, which has to be before the operator's next step.
        """
        footprints = np.concatenate([opened, checked])
        output, effects = effects.rows.num_rows, _with_merged(effects, step)
        rows = effects.rows.num_rows
        first = rows + self.determinants
        kinds = np.full(first + len(footprints), self._operator.output_kind.value, np.uint8)
        kinds[output:rows] = RecordKind.MERGED.value
        kinds[rows:first] = RecordKind.DETERMINANT.value
        kinds[first : first + len(opened)] = RecordKind.OPEN.value
        kinds[first + len(opened) :] = RecordKind.CHECK.value
        for start in range(0, len(kinds), _PIECE_ROWS):
            stop = min(start + _PIECE_ROWS, len(kinds))
            begin, end = min(start, rows), min(stop, rows)
            piece = Effects(
                rows=effects.rows.slice(begin, end - begin),
                keys=None if effects.keys is None else effects.keys.slice(begin, end - begin),
                causes=effects.causes[begin:end],
            )
            slots = footprints[max(start, first) - first : max(stop, first) - first]
            records = self._records(step, piece, slots, kinds[start:stop])
            yield from cut_to_frames(records, self._frame_bytes_max)

    def _records(
        self, step: Step, effects: Effects, footprints: Ints, kinds: NDArray[np.uint8]
    ) -> pa.RecordBatch:
        """Return these output rows and MERGED, a determinant if it is due, and footprints."""
        rows, more = effects.rows.num_rows, len(kinds) - effects.rows.num_rows
        times_us, positions = _with_begin(step)
        arrays = [
            pa.array(kinds),
            _caused(times_us, step.rows, effects.causes, more).view(TIMESTAMP_TYPE),
            *(
                _caused(positions[i], step.rows, effects.causes, more)
                for i in range(self._schema.inputs)
            ),
        ]
        has_determinant = more > len(footprints)
        keys, states = self._footprints(footprints, has_determinant)
        if KEY in self._types:
            arrays.append(self._column(KEY, effects.keys, keys, rows, more))
        if STATE in self._types:
            arrays.append(self._column(STATE, None, states, rows, more))
        if self.determinants:
            chosen = pa.nulls(more, DETERMINANT_TYPE)
            if has_determinant:
                nothing = pa.nulls(len(footprints), DETERMINANT_TYPE)
                logged = determinant_of(step, self._operator.chances)
                chosen = pa.concat_arrays([logged, nothing])
            arrays.append(self._column(DETERMINANT, None, chosen, rows, more))
        arrays += [
            self._column(name, effects.rows.column(name), None, rows, more)
            for name in self._schema.data.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)

    def _footprints(
        self, slots: Ints, below_determinant: bool
    ) -> tuple[pa.Array | None, pa.Array | None]:
        """Keys and states of these slots, below a determinant's, which has neither."""
        if not len(slots):
            return None, None
        keys, states = self._operator.snapshot(slots)
        if not below_determinant:
            return keys, states
        return (
            pa.concat_arrays([pa.nulls(1, self._types[KEY]), keys]),
            pa.concat_arrays([pa.nulls(1, self._types[STATE]), states]),
        )

    def _column(self, name: str, above: pa.Array | None, below: pa.Array | None,
               rows: int, more: int) -> pa.Array:  # fmt: skip
        """One column of a part: the output rows' part over the footprints', nulls for none."""
        kind = self._types[name]
        above = pa.nulls(rows, kind) if above is None else above
        if not more:
            return above
        below = pa.nulls(more, kind) if below is None else below
        return pa.concat_arrays([above, below]) if rows else below


class Footprinting:
    """Adds the footprints to the frames of an operator's steps, in the operator's thread."""

    def __init__(
        self, builder: FrameBuilder, checkpointer: Checkpointer, acknowledging: Acknowledging
    ) -> None:
        self.checks_written = 0
        self._builder = builder
        self._checkpointer = checkpointer
        self._acknowledging = acknowledging

    def frames(
        self, step: Step, effects: Effects, end_offset: int
    ) -> tuple[Iterator[pa.RecordBatch], int, FrameMarks]:
        """The parts of the step, how many records they have, and what holds at its end.

        The log ends at ``end_offset`` before it.
        """
        checkpointer = self._checkpointer
        position = int(step.end.sum())
        output = effects.rows.num_rows + effects.merges
        first_footprint = end_offset + output + self._builder.determinants
        checkpointer.closed(effects.closed)
        checkpointer.opened(effects.opened, first_footprint, position)
        end = first_footprint + len(effects.opened)
        checkpointer.opened(effects.grown, end, position)
        end += len(effects.grown)
        # Thread time: waiting for the processor is not charged to the CHECKs.
        began = time.thread_time()
        planned = checkpointer.plan(end, position)
        checkpointer.opened(planned, end, position)
        checking_s = time.thread_time() - began
        checked = np.concatenate([effects.grown, planned])
        if len(effects.opened) or len(checked):
            self._acknowledging.add_footprints(step.end)
        end += len(planned)
        self.checks_written += len(checked)
        parts = self._builder.parts(step, effects, effects.opened, checked)
        if len(planned):
            parts = self._charged(parts, len(planned), end - end_offset, checking_s)
        marks = FrameMarks(checkpointer.open_windows, checkpointer.extent(end), position)
        return parts, end - end_offset, marks

    def _charged(
        self, parts: Iterator[pa.RecordBatch], checks: int, records: int, checking_s: float
    ) -> Iterator[pa.RecordBatch]:
        """The parts; what making them took is charged to the CHECKs, by the number of records."""
        making_s, began = 0.0, time.thread_time()
        for part in parts:
            making_s += time.thread_time() - began
            yield part
            began = time.thread_time()
        self._checkpointer.spent(checks, checking_s + making_s * checks / records)


def _with_merged(effects: Effects, step: Step) -> Effects:
    """Put rows of nulls for MERGED records behind the output, as of the end of the step."""
    merged = effects.merged
    if merged is None or effects.keys is None:
        return effects
    count = len(merged)
    nulls = [pa.nulls(count, column.type) for column in effects.rows.schema]
    return Effects(
        rows=pa.RecordBatch.from_arrays(
            [
                pa.concat_arrays([above, below])
                for above, below in zip(effects.rows.columns, nulls, strict=True)
            ],
            schema=effects.rows.schema,
        ),
        keys=pa.concat_arrays([effects.keys, merged]),
        causes=np.append(effects.causes, np.full(count, step.rows - 1)),
    )


def _with_begin(step: Step) -> tuple[Ints, list[Ints]]:
    """Time and positions by input of each row; behind the last, at −1, those before the first.

    What the clock has done before the first row has the clock's time.
    """
    inputs = range(step.positions.shape[1])
    if step.begin is None:
        return step.timestamps_us, [step.positions[:, i] for i in inputs]
    clock_us = step.choices.clock_us or 0
    times_us = np.append(step.timestamps_us, clock_us)
    return times_us, [np.append(step.positions[:, i], step.begin[i]) for i in inputs]


def _caused(values: Ints, rows: int, causes: Ints, more: int) -> pa.Array:
    """Return the cause's value of each output row; of what follows that of the step's last row."""
    stacked = np.empty(len(causes) + more, np.int64)
    stacked[: len(causes)] = values[causes]
    if more:
        stacked[len(causes) :] = values[rows - 1]
    return pa.array(stacked)
