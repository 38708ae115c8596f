"""The windows with the oldest footprints, found in one pass over an extent of any size.

A footprint counts if its key does not come again. So the keys of the oldest records are remembered,
as many as :data:`KEYS_MAX`, and each later record strikes out its own. What is left in the end are
the oldest windows, all of them up to the last record that was remembered. Only where fewer are left
than were asked for does another pass begin behind it.

Memory: one frame, and some 200 bytes for each key remembered, however large the extent is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.errors import CorruptLog
from cec_store.frontier import Frame
from cec_store.inspector.sketches import sketches_of
from cec_store.operators.keys import KeyEncoder
from cec_store.operators.words import grown
from cec_store.records import KEY, RecordKind, RecordSchema, kinds_of
from cec_store.strand import Strand

Ints = NDArray[np.int64]
Progress = Callable[[int], None]
KEYS_MAX = 1 << 16
_GONE = -1
_SIEVE_BITS = 22


def key_columns(records: pa.RecordBatch) -> list[pa.Array]:
    """What tells keys apart: a null key is one, and not the same as one of nulls."""
    keys = records.column(KEY)
    return [keys.is_valid(), *keys.flatten()]


def key_encoder(schema: RecordSchema) -> KeyEncoder:
    """Numbers for keys as :func:`key_columns` gives them."""
    parts = [pa.field("", pa.bool_()), *(pa.field("", f.type) for f in schema.key or [])]
    return KeyEncoder(pa.schema(parts))


@dataclass(frozen=True)
class Footprints:
    """Where open windows can be read, oldest first, and these records."""

    offsets: list[int]
    records: pa.RecordBatch


def oldest_footprints(
    strand: Strand, frames: Sequence[Frame], count: int, progress: Progress | None = None
) -> Footprints:
    """Of the ``count`` windows with the oldest footprints, in their order.

    ``frames`` are those of an extent, oldest first; the last one ends it.

    Raises:
        CorruptLog: damage in the extent, or footprints that do not add up to N.
    """
    last = frames[-1].header
    first_offset = last.end_offset - last.extent_records
    wanted = min(count, last.open_windows)
    if wanted == 0:
        return _materialised(strand, frames, [])
    if wanted == 1:  # by what q is, the extent's first record
        return _materialised(strand, frames, [first_offset])
    found: list[int] = []
    start = 0
    while len(found) < wanted and start < len(frames):
        search = _Search(strand.schema())
        for place, frame in enumerate(frames[start:], start):
            search.take(frame, strand.records(frame), place)
            if progress is not None:
                progress(frame.header.frame_bytes)
        found += search.live().tolist()
        start = search.next_place(len(frames))
    if (start >= len(frames) and len(found) != last.open_windows) or found[:1] != [first_offset]:
        at = frames[-1].address
        raise CorruptLog(
            strand.reader(at.segment_id).path, at.byte,
            f"the frame counts {last.open_windows} open windows from record {first_offset} on, "
            f"its extent has {len(found)} from {found[0] if found else last.end_offset} on",
        )  # fmt: skip
    return _materialised(strand, frames, found[:wanted])


class _Search:
    """One pass: remembers keys until there are too many, and then only strikes out."""

    def __init__(self, schema: RecordSchema) -> None:
        self._keys = key_encoder(schema)
        self._newest: Ints = np.full(1024, _GONE, np.int64)
        """By key's number: the offset of its footprint."""
        self._stop: int | None = None
        """The first frame of which no key is remembered."""
        self._sieve: NDArray[np.bool_] | None = None

    def live(self) -> Ints:
        """Offsets of footprints that still count."""
        return np.sort(self._newest[self._newest != _GONE])

    def next_place(self, end: int) -> int:
        """Where another pass must begin."""
        return end if self._stop is None else self._stop

    def take(self, frame: Frame, records: pa.RecordBatch, place: int) -> None:
        """The next frame of the extent."""
        kinds = kinds_of(records)
        (rows,) = np.nonzero(kinds != RecordKind.DATA)
        keys = records.select([KEY])
        if len(rows) < len(kinds):
            keys = keys.take(pa.array(rows))
        if not len(rows):
            return
        if self._sieve is not None:
            self._strike_out(keys, self._sieve)
            return
        codes = self._keys.encode(key_columns(keys))
        if self._keys.bound > len(self._newest):
            known = len(self._newest)
            self._newest = grown(self._newest, self._keys.bound)
            self._newest[known:] = _GONE
        # Of several rows with one key the last one stays, as assignments go in order.
        is_closed = kinds[rows] == RecordKind.RESULT
        self._newest[codes] = np.where(is_closed, _GONE, frame.header.first_offset + rows)
        if self._keys.size > KEYS_MAX:
            live = np.flatnonzero(self._newest[: self._keys.bound] != _GONE)
            self._keys.trim(live)
            if len(live) > KEYS_MAX // 2:
                self._stop = place + 1
                self._sieve = np.zeros(1 << _SIEVE_BITS, np.bool_)
                self._sieve[_place_of(self._keys.keys(live).flatten())] = True

    def _strike_out(self, keys: pa.RecordBatch, sieve: NDArray[np.bool_]) -> None:
        """These keys come again; most of them are none of those remembered."""
        columns = key_columns(keys)
        (maybe,) = np.nonzero(sieve[_place_of(columns)])
        codes = self._keys.lookup([column.take(pa.array(maybe)) for column in columns])
        self._newest[codes[codes >= 0]] = _GONE


def _place_of(columns: list[pa.Array]) -> NDArray[np.uint64]:
    places: NDArray[np.uint64] = sketches_of(columns) & np.uint64((1 << _SIEVE_BITS) - 1)
    return places


def _materialised(strand: Strand, frames: Sequence[Frame], offsets: Sequence[int]) -> Footprints:
    """The records at these offsets, which rise."""
    parts: list[pa.RecordBatch] = []
    todo = list(offsets)
    for frame in frames:
        here = [offset for offset in todo if offset < frame.header.end_offset]
        if here:
            rows = [offset - frame.header.first_offset for offset in here]
            parts.append(strand.records(frame).take(pa.array(rows)))
            todo = todo[len(here) :]
        if not todo:
            break
    empty = pa.RecordBatch.from_pylist([], strand.schema().arrow)
    return Footprints(list(offsets), pa.concat_batches(parts) if parts else empty)
