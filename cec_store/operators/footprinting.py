"""Frames with footprints: which CHECKs join a step's output, and what they cost."""

from __future__ import annotations

import time

import pyarrow as pa

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.log.writer import FrameMarks
from cec_store.operators.acknowledging import Acknowledging
from cec_store.operators.contract import Effects, Step
from cec_store.operators.frame_builder import FrameBuilder


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
