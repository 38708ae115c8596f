"""The windows with the oldest footprints, found in one pass over an extent of any size.

A footprint counts if its key does not come again. So the keys of the oldest records are remembered,
some thousands, and each later record strikes out its own. What is left in the end are the oldest
windows, all of them up to the last record that was remembered. Only where fewer are left than were
asked for does another pass begin behind it, which remembers more, at most :data:`KEYS_MAX`.

Memory: one frame, and some 200 bytes for each key remembered, however large the extent is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.errors import CorruptLog
from cec_store.format.columns import Ints
from cec_store.format.records import closes, empty_batch, kinds_of, of_windows
from cec_store.format.schema import KEY, RecordSchema
from cec_store.inspector.decoding.keys import key_columns, key_encoder
from cec_store.inspector.measuring.sketches import sketches_of
from cec_store.inspector.measuring.totals import BytesSinceLast, MoreBytes
from cec_store.log.frames import Frame
from cec_store.log.reader import LogReader
from cec_store.operators.keys.words import grown

KEYS_MAX = 1 << 16
_KEYS_FIRST = 1 << 10
"""Keys of the first search. Usually one in eight or more of the oldest footprints still counts, so
that this finds hundreds.
"""
_GONE = -1
_SIEVE_BITS = 20
_NO_SIEVE = np.zeros(0, np.bool_)
_SLICE_ROWS = 1 << 15
"""Sieved at a time: what that takes stays within a processor's cache."""


@dataclass(frozen=True)
class OldestFootprints:
    """Offsets of open windows' footprints, oldest first, and these records."""

    offsets: list[int]
    records: pa.RecordBatch


def oldest_footprints(
    log_reader: LogReader,
    frames: Sequence[Frame],
    count: int,
    progress: BytesSinceLast | None = None,
) -> OldestFootprints:
    """Return the footprints of the ``count`` windows with the oldest ones, oldest first.

    ``frames`` are those of an extent, oldest first; the last one ends it.

    Raises:
        CorruptLog: damage in the extent, or footprints that do not add up to N.
    """
    last = frames[-1].header
    first_offset = last.end_offset - last.extent_records
    count_max = min(count, last.open_windows)
    if count_max <= 1:  # by what q is, the extent's first record
        return _materialised(log_reader, frames, [first_offset][:count_max])
    offsets: list[int] = []
    start, keys_max = first_offset, _KEYS_FIRST
    while len(offsets) < count_max and start < last.end_offset:
        search = _Search(log_reader.schema(), start, min(keys_max, KEYS_MAX))
        for frame in frames:
            if frame.header.end_offset > start:
                search.take(frame, log_reader.records(frame))
                if progress is not None:
                    progress(MoreBytes(frame.header.frame_bytes))
        offsets += search.live().tolist()
        start = last.end_offset if search.stop is None else search.stop
        keys_max *= 8
    if (start >= last.end_offset and len(offsets) != last.open_windows) or offsets[:1] != [
        first_offset
    ]:
        at = frames[-1].address
        raise CorruptLog(
            log_reader.reader(at.segment_id).path, at.byte,
            f"the frame counts {last.open_windows} open windows from record {first_offset} on, "
            f"its extent has {len(offsets)} from {offsets[0] if offsets else last.end_offset} on",
        )  # fmt: skip
    return _materialised(log_reader, frames, offsets[:count_max])


class _Search:
    """One pass: remembers keys until there are too many, and then only strikes out."""

    def __init__(self, schema: RecordSchema, start: int, keys_max: int) -> None:
        """Records before the offset ``start`` are passed over."""
        self._keys = key_encoder(schema)
        self._start = start
        self._keys_max = keys_max
        self._newest: Ints = np.full(1024, _GONE, np.int64)
        """Offset of each key's footprint, by the key's number."""
        self._sieve: NDArray[np.bool_] = _NO_SIEVE
        self._suspects: list[list[pa.Array]] = []
        """Keys that passed the sieve and have not been looked up yet."""
        self._suspects_count = 0
        self.stop: int | None = None
        """The first offset of which no key is remembered."""

    def live(self) -> Ints:
        """Offsets of footprints that still count."""
        self._look_up_suspects()
        return np.sort(self._newest[self._newest != _GONE])

    def take(self, frame: Frame, records: pa.RecordBatch) -> None:
        """The next frame of the extent."""
        first_offset = frame.header.first_offset
        kinds = kinds_of(records)
        is_meant = of_windows(kinds)
        is_meant[: max(0, self._start - first_offset)] = False
        (rows,) = np.nonzero(is_meant)
        keys = records.select([KEY])
        if len(rows) < len(kinds):
            keys = keys.take(pa.array(rows))
        done = 0
        while self.stop is None and done < len(rows):
            some = rows[done : done + self._keys_max]
            self._remember(keys.slice(done, len(some)), kinds[some], first_offset + some)
            done += len(some)
        if done < len(rows):
            self._strike_out(keys.slice(done))

    def _remember(self, keys: pa.RecordBatch, kinds: NDArray[np.uint8], offsets: Ints) -> None:
        codes = self._keys.encode(key_columns(keys.column(KEY)))
        if self._keys.bound > len(self._newest):
            known = len(self._newest)
            self._newest = grown(self._newest, self._keys.bound)
            self._newest[known:] = _GONE
        # The last of several rows with one key stays, because assignments go in order.
        self._newest[codes] = np.where(closes(kinds), _GONE, offsets)
        if self._keys.size >= self._keys_max:
            live = np.flatnonzero(self._newest[: self._keys.bound] != _GONE)
            self._keys.trim(live)
            if len(live) > self._keys_max // 2:
                self.stop = int(offsets[-1]) + 1
                self._sieve = np.zeros(1 << _SIEVE_BITS, np.bool_)
                self._sieve[_sieve_bits_of(self._keys.keys(live).flatten())] = True

    def _strike_out(self, keys: pa.RecordBatch) -> None:
        """Strike out keys that come again; most of them are none of those remembered."""
        columns = key_columns(keys.column(KEY))
        maybe = np.empty(len(keys), np.bool_)
        for start in range(0, len(keys), _SLICE_ROWS):
            here = slice(start, start + _SLICE_ROWS)
            bits = _sieve_bits_of([column.slice(start, _SLICE_ROWS) for column in columns])
            maybe[here] = self._sieve[bits]
        rows = pa.array(np.flatnonzero(maybe))
        self._suspects.append([column.take(rows) for column in columns])
        self._suspects_count += len(rows)
        if self._suspects_count >= _SLICE_ROWS:
            self._look_up_suspects()

    def _look_up_suspects(self) -> None:
        """Strike them out all at once: looking up a few takes about as long as many."""
        if self._suspects:
            columns = [pa.concat_arrays(parts) for parts in zip(*self._suspects, strict=True)]
            codes = self._keys.lookup(columns)
            self._newest[codes[codes >= 0]] = _GONE
        self._suspects, self._suspects_count = [], 0


def _sieve_bits_of(columns: list[pa.Array]) -> NDArray[np.uint64]:
    """Return the place in the sieve of each key.

    The first of :func:`key_columns` is left out: null keys are few, or all there is.
    """
    bits: NDArray[np.uint64] = sketches_of(columns[1:]) & np.uint64((1 << _SIEVE_BITS) - 1)
    return bits


def _materialised(
    log_reader: LogReader, frames: Sequence[Frame], offsets: Sequence[int]
) -> OldestFootprints:
    """The records at these offsets, which rise."""
    parts: list[pa.RecordBatch] = []
    todo = list(offsets)
    for frame in frames:
        here = [offset for offset in todo if offset < frame.header.end_offset]
        if here:
            rows = [offset - frame.header.first_offset for offset in here]
            parts.append(log_reader.records(frame).take(pa.array(rows)))
            todo = todo[len(here) :]
        if not todo:
            break
    empty = empty_batch(log_reader.schema().arrow)
    return OldestFootprints(list(offsets), pa.concat_batches(parts) if parts else empty)
