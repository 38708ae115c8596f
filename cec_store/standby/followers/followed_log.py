"""A log that another process writes, read as it grows: some frames at a time, each once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cec_store.checkpoints.rebuild import EventualCheckpoint, input_taken, rebuild
from cec_store.errors import OutOfRange, RecoveryError
from cec_store.format.columns import Ints, values_of
from cec_store.format.records import inputs_of
from cec_store.format.schema import KEY, KIND, STATE, RecordKind, input_column
from cec_store.log.chain import QueueChain
from cec_store.log.frames import Frame
from cec_store.log.positions import checked
from cec_store.values import Extent, Position

GROUP_RECORDS = 1 << 18
"""Records that are taken at once."""


@dataclass(frozen=True)
class NewRecords:
    """Frames that were appended since the last look."""

    records: pa.Table
    positions: Ints
    """Positions of the input, shape (records, inputs)."""
    first_offset: int
    upto: Ints
    """The input that the log reflects at their end, shape (inputs,)."""


class StateGivenUp(OutOfRange):
    """Somebody went on from an empty state: what was followed is no more."""


class FollowedLog:
    """Position of a follower in a log. For one thread."""

    def __init__(self, chain: QueueChain) -> None:
        self.chain = chain
        schema = chain.schema()
        self._inputs = schema.inputs
        self._columns = [KIND, *(input_column(number) for number in range(schema.inputs))]
        if schema.key is not None and schema.state is not None:
            self._columns += [KEY, STATE]
        self._last: Frame | None = None
        self.upto: Ints = np.zeros(schema.inputs, np.int64)
        """The input that the log reflects as far as it was read, shape (inputs,)."""
        self.frames_read = 0

    @property
    def end_offset(self) -> int:
        """Everything below it was read."""
        return 0 if self._last is None else self._last.header.end_offset

    @property
    def open_windows(self) -> int:
        """N, where the log was read to."""
        return 0 if self._last is None else self._last.header.open_windows

    def extent(self, frames: int) -> Extent:
        """Return the extent that a recovery from here would read, with ``frames`` new ones."""
        records = 0 if self._last is None else self._last.header.extent_records
        end = self.end_offset
        return Extent(records, frames, 0, 0, self.open_windows, end - records, end)

    def begin(self) -> EventualCheckpoint | None:
        """Go to the log's end, of which this is the eventual checkpoint; ``None`` without a frame.

        Raises:
            RecoveryError: the log is written without checkpoints.
        """
        self.chain.refresh()
        last = self.chain.last()
        if last is None:
            return None
        self._refuse_uncounted(last)
        checkpoint = rebuild(self.chain, last.header.seq)
        self._last, self.upto = last, checkpoint.replay_upto
        self.frames_read += checkpoint.extent.frames
        return checkpoint

    def new(self) -> Iterator[NewRecords]:
        """Yield the records made durable since the last call, in the order of the log.

        Raises:
            OutOfRange: it has been trimmed already, an older copy was put back, or the state was
                given up;
                begin anew.
            QueueReplaced: another queue stands there now.
            RecoveryError: the log is written without checkpoints.
        """
        assert self._last is not None, "begin first"
        end = self.chain.refresh()
        if end.seq == self._last.header.seq + 1:
            return
        if end.offset < self.end_offset:
            checked(Position(self.end_offset), self.chain.bounds())
            return  # a writer has yet to show again what was read before a power cut
        group: list[Frame] = []
        for frame in self.chain.frames(self._last.next_address):
            group.append(frame)
            records = frame.header.end_offset - group[0].header.first_offset
            # A group ends with a whole step, because there is no state within a step.
            if records >= GROUP_RECORDS and not frame.header.continues:
                yield self._taken(group)
                group = []
        if group:
            yield self._taken(group)

    def _taken(self, group: Sequence[Frame]) -> NewRecords:
        self._refuse_uncounted(group[-1])
        batches = [self.chain.records(frame, columns=self._columns) for frame in group]
        table = pa.Table.from_batches(batches)
        if (values_of(table.column(KIND), "u1") == RecordKind.GAP.value).any():
            raise StateGivenUp(f"{self.chain.path}: the operator has lost its state; begin anew")
        positions = inputs_of(table, self._inputs)
        if len(positions) or self._inputs == 1:
            self.upto = input_taken(group[-1].header, positions)
        self._last = group[-1]
        self.frames_read += len(group)
        return NewRecords(table, positions, group[0].header.first_offset, self.upto)

    def _refuse_uncounted(self, frame: Frame) -> None:
        if not frame.header.is_counted:
            raise RecoveryError(
                f"{self.chain.path}: frame {frame.header.seq} was written without checkpoints, so "
                "there are no footprints to follow; take over by upstream backup"
            )


class LogFollower:
    """An operator that is kept close to a log, and how far it has come there."""

    _log: FollowedLog

    @property
    def frames_read(self) -> int:
        """Frames of the log read so far."""
        return self._log.frames_read

    @property
    def followed_offset(self) -> int:
        """Everything of the log below it was taken."""
        return self._log.end_offset

    @property
    def log_end(self) -> int:
        """End of the log at the last look."""
        return self._log.chain.end.offset
