"""Bids as in NEXMark and in the paper's evaluation (item, price, time), made from a seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.operators.contract import InputBatch

START_US = 1_700_000_000_000_000
BATCH_ROWS = 65_536
_NUMBERS_BYTES = 24  # item, price and time, eight bytes each
# NEXMark's bids carry such an address; what stands in for the underscores is random.
_URL = b"https://www.nexmark.example/____/____/____/item.htm?query=1&channel=____________"


def bids(rows: int, items: int, seed: int = 1, tuple_bytes: int = _NUMBERS_BYTES) -> pa.Table:
    """Bids on items chosen evenly, at random moments about a microsecond and a half apart.

    Tuples larger than three numbers are filled up with a text column ``url``.
    """
    random = np.random.default_rng(seed)
    columns = {
        "item": pa.array(random.integers(0, items, rows)),
        # NEXMark's price: evenly spread over six orders of magnitude.
        "price": pa.array((10 ** (6 * random.random(rows)) * 100).astype(np.int64)),
        "time": pa.array(START_US + np.cumsum(random.integers(0, 4, rows))).cast(
            pa.timestamp("us", "UTC")
        ),
    }
    if tuple_bytes > _NUMBERS_BYTES:
        columns["url"] = _urls(random, rows, tuple_bytes - _NUMBERS_BYTES)
    return pa.table(columns)


def _urls(random: np.random.Generator, rows: int, size: int) -> pa.Array:
    template = np.frombuffer(_URL * -(-size // len(_URL)), np.uint8)[-size:]
    text = np.tile(template, (rows, 1))
    (blanks,) = np.nonzero(template == ord("_"))
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
    text[:, blanks] = letters[random.integers(0, len(letters), (rows, len(blanks)))]
    ends = np.arange(rows + 1, dtype=np.int32) * size
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(text))


class BidSource:
    """A block of bids over and over, each time later: an input of any length in little memory."""

    def __init__(self, block: pa.Table, rows: int) -> None:
        self.schema: pa.Schema = block.schema
        self._rows = rows
        self._batches = block.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
        self._times = [_times_us(batch) for batch in self._batches]
        self._span_us = int(self._times[-1][-1]) + 1 - START_US

    def read(self, start: int, stop: int | None = None) -> Iterator[InputBatch]:
        """Bids ``[start, stop)``, ``start`` at the beginning of a batch."""
        stop = self._rows if stop is None else stop
        turn = 0
        offset = 0
        while offset < stop:
            for batch, times_us in zip(self._batches, self._times, strict=True):
                count = min(batch.num_rows, stop - offset)
                if offset >= start and count > 0:
                    later = times_us[:count] + turn * self._span_us
                    yield InputBatch(
                        batch.slice(0, count), np.arange(offset, offset + count), later
                    )
                offset += batch.num_rows
            turn += 1


def _times_us(batch: pa.RecordBatch) -> NDArray[np.int64]:
    times: NDArray[np.int64] = batch.column("time").cast(pa.int64()).to_numpy()
    return times
