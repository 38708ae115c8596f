"""Check a frame's records by themselves and against the frame's header.

Open windows and extents are counted anew by going forward over all records. A rebuild goes backward
with other code (:mod:`cec_store.checkpoints.rebuild`), so a mistake of either one shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import values_of
from cec_store.format.frame import FrameHeader
from cec_store.format.records import closes, inputs_of, kinds_of
from cec_store.format.schema import KEY, TIMESTAMP, RecordKind, RecordSchema
from cec_store.inspector.decoding.keys import key_columns, key_encoder
from cec_store.operators.keys.words import grown

_CLOSED = np.iinfo(np.int64).max
# Order within a step: output and MERGED, determinants, OPEN, CHECK. Unknown kinds come last.
_RANKS = np.full(256, 9, np.int8)
_RANKS[[RecordKind.DATA.value, RecordKind.RESULT.value]] = 0
_RANKS[[RecordKind.GAP.value, RecordKind.MERGED.value]] = 0
_RANKS[RecordKind.DETERMINANT.value] = 1
_RANKS[RecordKind.OPEN.value] = 2
_RANKS[RecordKind.CHECK.value] = 3
# A record of an unknown kind is a fault of its own; its window counts as if it were a footprint.
_IS_OF_A_WINDOW = np.ones(256, np.bool_)
_IS_OF_A_WINDOW[[RecordKind.DATA.value, RecordKind.DETERMINANT.value, RecordKind.GAP.value]] = False


class WindowRecount:
    """Open windows, each with the offset of its last footprint."""

    def __init__(self, schema: RecordSchema) -> None:
        """Raises ``ValueError`` for key columns that cannot be compared."""
        self._keys = key_encoder(schema)
        self._last = np.full(1024, _CLOSED, np.int64)
        self.open_windows = 0
        self.known_from = 0
        """Every record from this offset on has been counted."""

    def forget(self, offset: int) -> None:
        """Records below ``offset`` could not be read."""
        self._last[:] = _CLOSED
        self.open_windows = 0
        self.known_from = offset

    def take(self, kinds: NDArray[np.uint8], keys: pa.StructArray, first_offset: int) -> None:
        """The next frame's records."""
        if (kinds == RecordKind.GAP.value).any():  # alone in its frame: every window is lost
            self.forget(first_offset)
            return
        (rows,) = np.nonzero(_IS_OF_A_WINDOW[kinds])
        if not len(rows):
            return
        if len(rows) < len(kinds):
            keys = keys.take(pa.array(rows))
        codes = self._keys.encode(key_columns(keys))
        if self._keys.bound > len(self._last):
            known = len(self._last)
            self._last = grown(self._last, self._keys.bound)
            self._last[known:] = _CLOSED
        # The newest record of a key decides: of equal codes the last one.
        newest, from_end = np.unique(codes[::-1], return_index=True)
        decisive = rows[len(rows) - 1 - from_end]
        is_open = ~closes(kinds[decisive])
        was_open = self._last[newest] != _CLOSED
        self.open_windows += int(is_open.sum()) - int(was_open.sum())
        self._last[newest] = np.where(is_open, first_offset + decisive, _CLOSED)
        if self._keys.wants_trim(self.open_windows):
            self._keys.trim(np.flatnonzero(self._last != _CLOSED))

    def extent_records(self, end_offset: int) -> int:
        """q at the end of the frame last taken."""
        return end_offset - int(self._last.min()) if self.open_windows else 0


class RecordChecks:
    """Checks frames in order; yields (kind of fault, what is wrong)."""

    def __init__(self, schema: RecordSchema) -> None:
        self.schema = schema
        self.counts = np.zeros(256, np.int64)
        """Records of each kind."""
        self.recounted_frames = 0
        self._step_rank = 0
        """Rank of the last record, while its step is not complete."""
        self._inputs = np.full(schema.inputs, np.iinfo(np.int64).min)
        self._recount: WindowRecount | None = None
        if schema.key is not None and schema.inputs:
            with suppress(ValueError):  # keys of a type that no operator makes
                self._recount = WindowRecount(schema)
        self._starts_at: int | None = None

    def forget(self, offset: int) -> None:
        """Records below ``offset`` could not be read."""
        if self._recount is not None:
            self._recount.forget(offset)

    def check(self, header: FrameHeader, records: pa.RecordBatch) -> Iterator[tuple[str, str]]:
        """Yield (kind of fault, what is wrong) for the records of the next frame."""
        kinds = kinds_of(records)
        self.counts += np.bincount(kinds, minlength=256)
        yield from self._check_order(header, records, kinds)
        yield from self._check_timestamps(header, records)
        if self._recount is not None:
            if self._starts_at is None:
                self._starts_at = header.first_offset
                self._recount.known_from = max(self._recount.known_from, header.first_offset)
            self._recount.take(kinds, records.column(KEY), header.first_offset)
            yield from self._check_windows(header)

    def _check_order(
        self, header: FrameHeader, records: pa.RecordBatch, kinds: NDArray[np.uint8]
    ) -> Iterator[tuple[str, str]]:
        ranks = _RANKS[kinds]
        before, self._step_rank = self._step_rank, 0
        if header.continues:
            self._step_rank = int(ranks[-1]) if len(ranks) else before
        if len(ranks) and ranks.max() == 9:
            row = int(ranks.argmax())
            yield "kinds", f"record {header.first_offset + row} has the unknown kind {kinds[row]}"
        elif (np.diff(ranks, prepend=np.int8(before)) < 0).any():
            row = int((np.diff(ranks, prepend=np.int8(before)) < 0).argmax())
            yield "kinds", f"record {header.first_offset + row} stands after a footprint"
        if not self.schema.inputs or not len(kinds):
            return
        inputs = np.concatenate([self._inputs[None], inputs_of(records, self.schema.inputs)])
        falls = (inputs[1:] < inputs[:-1]).any(axis=1)
        if falls.any():
            row = header.first_offset + int(falls.argmax())
            yield "inputs", f"the input position falls at record {row}"
        self._inputs = inputs[-1]
        if header.input_upto and header.input_upto < int(self._inputs.sum()):
            taken = int(self._inputs.sum())
            yield "inputs", f"the header says input up to {header.input_upto}, a record {taken}"

    @staticmethod
    def _check_timestamps(
        header: FrameHeader, records: pa.RecordBatch
    ) -> Iterator[tuple[str, str]]:
        times = values_of(records.column(TIMESTAMP), "i8")
        if not len(times):
            return
        span = (int(times.min()), int(times.max()))
        claimed = (header.min_timestamp_us, header.max_timestamp_us)
        if span != claimed:
            yield "timestamps", f"the header says {claimed}, the records are {span}"

    def _check_windows(self, header: FrameHeader) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with N and q, if the header's own extent is known in full.

        It is not after trimming or damage.
        """
        assert self._recount is not None
        if not header.is_counted:
            return
        if header.end_offset - header.extent_records < self._recount.known_from:
            return
        self.recounted_frames += 1
        if header.open_windows != self._recount.open_windows:
            yield (
                "open-windows",
                f"the header says N = {header.open_windows}, the records leave "
                f"{self._recount.open_windows} windows open",
            )
        extent = self._recount.extent_records(header.end_offset)
        if header.extent_records != extent:
            yield "extent", f"the header says q = {header.extent_records}, the records say {extent}"
