"""Rows of a stream that wait for rows of another, and which of them are in reach."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cec_store.format.columns import Ints
from cec_store.format.records import empty_batch

NONE: Ints = np.empty(0, np.int64)
_CHUNKS_MAX = 64


@dataclass
class WaitingRows:
    """The rows of one input that can still match, in input order; each field has one item a row.

    ``place`` is a row's place in the chunks of payload one after the other. Payload of rows that
    are gone stays until it outweighs the rest.
    """

    schema: pa.Schema
    codes: Ints
    timestamps_us: Ints
    offsets: Ints
    place: Ints
    chunks: list[pa.RecordBatch]
    chunk_rows: int = 0

    @classmethod
    def none(cls, schema: pa.Schema) -> WaitingRows:
        return cls(schema, NONE, NONE, NONE, NONE, [])

    def append(self, batch: pa.RecordBatch, codes: Ints, times_us: Ints, offsets: Ints) -> None:
        """Let the rows whose code is not negative (their key holds no null) wait."""
        rows = np.flatnonzero(codes >= 0)
        self.codes = np.concatenate([self.codes, codes[rows]])
        self.timestamps_us = np.concatenate([self.timestamps_us, times_us[rows]])
        self.offsets = np.concatenate([self.offsets, offsets[rows]])
        self.place = np.concatenate([self.place, rows + self.chunk_rows])
        if batch.num_rows:
            self.chunks.append(batch)
            self.chunk_rows += batch.num_rows

    def drop_before(self, time_us: int) -> None:
        """Let go of the rows below this time."""
        self._keep(np.flatnonzero(self.timestamps_us >= time_us))

    def drop_below(self, offset: int) -> None:
        """Let go of the rows below this offset."""
        self._keep(np.arange(np.searchsorted(self.offsets, offset), len(self.offsets)))

    def _keep(self, kept: Ints) -> None:
        if len(kept) < len(self.codes):
            self.codes, self.timestamps_us = self.codes[kept], self.timestamps_us[kept]
            self.offsets, self.place = self.offsets[kept], self.place[kept]
        if self.chunk_rows > 2 * len(kept) or len(self.chunks) > _CHUNKS_MAX:
            self.chunks = [self.rows(self.place)]
            self.place = np.arange(len(kept))
            self.chunk_rows = len(kept)

    def rows(self, place: Ints) -> pa.RecordBatch:
        """The payload at these places."""
        table = pa.Table.from_batches(self.chunks, self.schema)
        batches = table.take(pa.array(place)).to_batches()
        if not batches:
            return empty_batch(self.schema)
        return pa.concat_batches(batches)


def pairs_in_reach(
    codes: Ints, earliest_us: Ints, latest_us: Ints, other_codes: Ints, other_us: Ints
) -> tuple[Ints, Ints]:
    """Pairs (row, other row) with one code and the other's time in the row's reach.

    The others that can match at all are sorted by (code, time), where each row has a range.
    """
    if not len(codes) or not len(other_codes):
        return NONE, NONE
    is_wanted = np.zeros(int(max(codes.max(), other_codes.max())) + 1, np.bool_)
    is_wanted[codes] = True
    near = np.flatnonzero(is_wanted[other_codes] & (other_us >= earliest_us.min()))
    times_us = np.unique(other_us[near])
    packed = (other_codes[near] << 32) | np.searchsorted(times_us, other_us[near])
    by_key = np.argsort(packed)
    packed, near = packed[by_key], near[by_key]
    prefix = codes << 32
    start = np.searchsorted(packed, prefix | np.searchsorted(times_us, earliest_us))
    stop = np.searchsorted(packed, prefix | np.searchsorted(times_us, latest_us, side="right"))
    counts = np.maximum(stop - start, 0)
    row = np.repeat(np.arange(len(codes)), counts)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return row, near[start[row] + nth]
