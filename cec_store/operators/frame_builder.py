"""A step's effects as the records of one frame, and which CHECKs join them."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.format.columns import Ints
from cec_store.format.schema import KEY, STATE, TIMESTAMP_TYPE, RecordKind, RecordSchema
from cec_store.log.writer import FrameMarks
from cec_store.operators.acknowledging import Acknowledging
from cec_store.operators.contract import Effects, Operator, Step


class FrameBuilder:
    """Puts an operator's output and its windows' footprints on top of one another."""

    def __init__(self, operator: Operator, schema: RecordSchema) -> None:
        self._operator = operator
        self._schema = schema
        self._types = {column.name: column.type for column in schema.arrow}

    def records(self, step: Step, effects: Effects, checked: Ints | None) -> pa.RecordBatch:
        """Output rows, then OPEN, then CHECK, in the record schema."""
        opened = effects.opened if checked is not None else effects.opened[:0]
        footprints = np.concatenate([opened, checked]) if checked is not None else opened
        rows, more = effects.rows.num_rows, len(footprints)
        kinds = np.full(rows + more, self._operator.output_kind, np.uint8)
        kinds[rows : rows + len(opened)] = RecordKind.OPEN
        kinds[rows + len(opened) :] = RecordKind.CHECK
        arrays = [
            pa.array(kinds),
            _caused(step.timestamps_us, effects.causes, more).view(TIMESTAMP_TYPE),
            *(
                _caused(step.positions[:, i], effects.causes, more)
                for i in range(self._schema.inputs)
            ),
        ]
        keys, states = self._operator.snapshot(footprints) if more else (None, None)
        if KEY in self._types:
            arrays.append(self._column(KEY, effects.keys, keys, rows, more))
        if STATE in self._types:
            arrays.append(self._column(STATE, None, states, rows, more))
        arrays += [
            self._column(name, effects.rows.column(name), None, rows, more)
            for name in self._schema.data.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)

    def _column(self, name: str, above: pa.Array | None, below: pa.Array | None,
               rows: int, more: int) -> pa.Array:  # fmt: skip
        """One column of a frame: the output rows' part over the footprints', nulls for none."""
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

    def frame(
        self, step: Step, effects: Effects, end_offset: int
    ) -> tuple[pa.RecordBatch, FrameMarks]:
        """The step's frame, where the log ends at ``end_offset`` before it."""
        checkpointer = self._checkpointer
        position = int(step.positions[-1].sum())
        first_footprint = end_offset + effects.rows.num_rows
        checkpointer.closed(effects.closed)
        checkpointer.opened(effects.opened, first_footprint, position)
        end = first_footprint + len(effects.opened)
        # Thread time: waiting for the processor is not charged to the CHECKs.
        began = time.thread_time()
        checked = checkpointer.plan(end, position)
        checkpointer.opened(checked, end, position)
        checking_s = time.thread_time() - began
        if len(effects.opened) or len(checked):
            self._acknowledging.add_footprints(step.positions[-1])
        began = time.thread_time()
        batch = self._builder.records(step, effects, checked)
        if len(checked):
            self.checks_written += len(checked)
            # Their share of making the frame, by the number of records.
            checking_s += (time.thread_time() - began) * len(checked) / batch.num_rows
            checkpointer.spent(len(checked), checking_s)
        end += len(checked)
        marks = FrameMarks(checkpointer.open_windows, checkpointer.extent(end), position)
        return batch, marks


def _caused(values: Ints, causes: Ints, more: int) -> pa.Array:
    """Of each output row its cause's value; of the footprints that of the step's last row."""
    stacked = np.empty(len(causes) + more, np.int64)
    stacked[: len(causes)] = values[causes]
    if more:
        stacked[len(causes) :] = values[-1]
    return pa.array(stacked)
