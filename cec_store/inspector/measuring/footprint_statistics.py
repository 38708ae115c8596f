"""The open windows of a log by how often and how long ago they left a footprint. Reads only.

It goes forward over the extent once and keeps some numbers for each key: however long the extent,
no more than some frames of it are in memory. Of very many windows a sample is taken, by a hash of
their keys, with the oldest ones always in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cec_store.checkpoints.rebuild import frames_in_order
from cec_store.errors import CorruptLog
from cec_store.format.columns import Ints, flags_of, values_of
from cec_store.format.frame import FrameHeader
from cec_store.format.records import closes, concat, inputs_of, kinds_of, of_windows
from cec_store.format.schema import KEY, KIND, STATE, TIMESTAMP, RecordKind, RecordSchema
from cec_store.inspector.decoding.keys import key_columns, key_encoder
from cec_store.inspector.measuring.oldest_footprints import oldest_footprints
from cec_store.inspector.measuring.sketches import sketches_of
from cec_store.log.frames import Frame
from cec_store.log.reader import LogReader
from cec_store.operators.keys.encoder import KeyEncoder
from cec_store.values import MIN_TIMESTAMP_US

_RENEWED, _INPUT = "renewed", "input"
_NEVER = -1
WINDOWS_MAX = 1 << 18
"""Open windows beyond which a sample of at least half as many is looked at."""
_OLDEST = 100
_ROWS_AT_A_TIME = 1 << 15
"""Frames may be small, and then it is the number of calls that takes the time."""


@dataclass(frozen=True)
class FootprintStatistics:
    """One entry for each open window, in the order of their last footprints, the oldest first."""

    offsets: Ints
    """Offset of each last footprint."""
    timestamps_us: Ints
    replay_rows: Ints
    """Input that each would ask for again, were it the oldest; of a state store, versions."""
    updates: Ints
    """Footprints in the extent that the operator left as the window opened or changed."""
    renewals: Ints
    """Footprints in the extent that only repeat an earlier one."""
    lifetimes: Ints
    """Records from opening to closing, for each window that did both within the extent."""
    end_offset: int
    newest_us: int
    """The largest timestamp in the extent."""
    open_windows: int
    """Records from opening to closing, for each window that did both within the extent."""
    codes: Ints
    encoder: KeyEncoder

    @property
    def weight(self) -> float:
        """Number of windows that each entry stands for."""
        return self.open_windows / len(self.offsets) if len(self.offsets) else 1.0

    @property
    def ages(self) -> Ints:
        """Records from each last footprint to the end of the log."""
        return self.end_offset - self.offsets

    @property
    def ages_us(self) -> Ints:
        """The same by timestamps, to the largest one."""
        return np.maximum(0, self.newest_us - self.timestamps_us)

    @property
    def counts(self) -> Ints:
        """FootprintStatistics of each window in the extent."""
        return self.updates + self.renewals

    def busiest(self, count: int) -> Ints:
        """Numbers of the windows with the most footprints, the busiest first."""
        order: Ints = np.argsort(-self.counts, kind="stable")[:count]
        return order

    def keys(self, windows: Sequence[int] | None = None) -> pa.StructArray:
        """Return the keys of these windows, or of all, as the log has them."""
        codes = self.codes if windows is None else self.codes[list(windows)]
        is_key, *columns = self.encoder.keys(codes).flatten()
        fields = list(self.encoder.schema)[1:]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=pc.invert(is_key))


def footprint_statistics(log_reader: LogReader, last: Frame) -> FootprintStatistics:
    """Return figures of the windows open at the end of a frame, which must be counted there.

    Raises:
        CorruptLog: damage in the extent, or footprints that do not add up to N.
        OutOfRange: a part of the extent is trimmed.
        ValueError: keys of a type that no operator makes.
    """
    frames = frames_in_order(log_reader, last)
    skipped_bits = max(0, (last.header.open_windows // WINDOWS_MAX).bit_length())
    tally = _Tally(log_reader.schema(), last.header.end_offset - last.header.extent_records)
    if skipped_bits:
        tally.sample(skipped_bits, oldest_footprints(log_reader, frames, _OLDEST).records)
    waiting: list[pa.RecordBatch] = []
    first_offset = 0
    for frame in frames:
        first_offset = first_offset if waiting else frame.header.first_offset
        waiting.append(tally.columns_of(log_reader.records(frame)))
        if frame is last or sum(map(len, waiting)) >= _ROWS_AT_A_TIME:
            tally.take(first_offset, concat(waiting))
            waiting.clear()
    statistics = tally.footprints(last.header)
    if not skipped_bits and len(statistics.offsets) != last.header.open_windows:
        path = log_reader.reader(last.address.segment_id).path
        what = f"the frame counts {last.header.open_windows} open windows, its extent has "
        raise CorruptLog(path, last.address.byte, f"{what}{len(statistics.offsets)}")
    return statistics


class _Tally:
    """Counts for each key seen, in arrays indexed by the key's code."""

    def __init__(self, schema: RecordSchema, extent_from: int) -> None:
        self._keys = key_encoder(schema)
        self._says_renewed = schema.state is not None and _RENEWED in schema.state.names
        self._inputs = schema.inputs
        self._skipped = np.uint64(0)
        self._always = np.empty(0, np.uint64)
        self._extent_from = extent_from
        self._rows = self._no_rows(1024)
        """Last footprint, its time and input, updates, renewals, RESULT, OPEN; by code."""
        self._lifetimes = [np.empty(0, np.int64)]
        self._newest_us, self._newest_input = MIN_TIMESTAMP_US, 0

    def sample(self, skipped_bits: int, always: pa.RecordBatch) -> None:
        """Look at one key in ``1 << skipped_bits`` alone, and at those of these records."""
        self._skipped = np.uint64((1 << skipped_bits) - 1)
        self._always = sketches_of(key_columns(always.column(KEY)))

    def _is_sampled(self, keys: pa.StructArray) -> NDArray[np.bool_]:
        sketches = sketches_of(key_columns(keys))
        # Bits from the middle: the sieve of oldest_footprints takes the lowest ones.
        chosen: NDArray[np.bool_] = (sketches >> np.uint64(24)) & self._skipped == 0
        return chosen | np.isin(sketches, self._always)

    def columns_of(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that are looked at. Without the states, these can be freed."""
        columns = [records.column(name) for name in (KIND, TIMESTAMP, KEY)]
        renewed = pa.nulls(len(records), pa.bool_())
        if self._says_renewed:
            renewed = pc.struct_field(records.column(STATE), _RENEWED)
        inputs = pa.array(inputs_of(records, self._inputs).sum(axis=1))
        names = [KIND, TIMESTAMP, KEY, _RENEWED, _INPUT]
        return pa.RecordBatch.from_arrays([*columns, renewed, inputs], names)

    def take(self, first: int, records: pa.RecordBatch) -> None:
        """The next records, of one or more frames."""
        kinds = kinds_of(records)
        newest_input = int(values_of(records.column(_INPUT), "i8").max(initial=0))
        self._newest_input = max(self._newest_input, newest_input)
        (rows,) = np.nonzero(of_windows(kinds))
        rows = rows[first + rows >= self._extent_from]
        if self._skipped:
            rows = rows[self._is_sampled(records.column(KEY).take(pa.array(rows)))]
        if not len(rows):
            return
        records, kinds, offsets = records.take(pa.array(rows)), kinds[rows], first + rows
        keys = records.column(KEY)
        codes = self._keys.encode(key_columns(keys))
        self._make_room()
        times_us = values_of(records.column(TIMESTAMP), "i8")
        self._newest_us = max(self._newest_us, int(times_us.max()))
        last, last_us, input_upto, updates, renewals, closed, _ = self._rows
        is_close, is_renewal = closes(kinds), kinds == RecordKind.CHECK.value
        if self._says_renewed:
            is_renewal &= flags_of(records.column(_RENEWED))
        # A window that comes again after its key has closed is another one.
        closing = codes[is_close]
        closed[closing] = offsets[is_close]
        updates[closing] = renewals[closing] = 0
        is_live = ~is_close & (offsets > closed[codes])
        np.add.at(updates, codes[is_live & ~is_renewal], 1)
        np.add.at(renewals, codes[is_live & is_renewal], 1)
        # The last of equal codes stays, because the newest record of a key decides.
        last[codes] = np.where(is_close, _NEVER, offsets)
        last_us[codes] = times_us
        input_upto[codes] = values_of(records.column(_INPUT), "i8")
        self._add_lifetimes(codes, offsets, kinds)

    def _add_lifetimes(self, codes: Ints, offsets: Ints, kinds: NDArray[np.uint8]) -> None:
        """Each RESULT or MERGED with the OPEN before it, which may stand among earlier records."""
        (ends,) = np.nonzero((kinds == RecordKind.OPEN.value) | closes(kinds))
        ends = ends[np.argsort(codes[ends], kind="stable")]
        codes, offsets, is_open = codes[ends], offsets[ends], kinds[ends] == RecordKind.OPEN.value
        opened = self._rows[6]
        before = np.where(np.roll(is_open, 1), np.roll(offsets, 1), _NEVER)
        is_first = np.append(True, codes[1:] != codes[:-1])[: len(codes)]
        before = np.where(is_first, opened[codes], before)
        lived = ~is_open & (before >= 0)
        self._lifetimes.append((offsets - before)[lived])
        opened[codes] = np.where(is_open, offsets, _NEVER)

    def _make_room(self) -> None:
        have = self._rows.shape[1]
        if self._keys.bound > have:
            room = self._no_rows(max(self._keys.bound - have, have))
            self._rows = np.concatenate([self._rows, room], axis=1)

    @staticmethod
    def _no_rows(count: int) -> Ints:
        rows = np.zeros((7, count), np.int64)
        rows[[0, 5, 6]] = _NEVER
        return rows

    def footprints(self, header: FrameHeader) -> FootprintStatistics:
        (codes,) = np.nonzero(self._rows[0] != _NEVER)
        codes = codes[np.argsort(self._rows[0, codes], kind="stable")]
        offsets, times_us, input_upto, updates, renewals = self._rows[:5, codes]
        newest_input = max(header.input_upto, self._newest_input)
        return FootprintStatistics(
            offsets, times_us, newest_input - input_upto, updates, renewals,
            np.concatenate(self._lifetimes), header.end_offset, self._newest_us,
            header.open_windows, codes, self._keys,
        )  # fmt: skip
