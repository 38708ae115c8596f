"""The paper's input (item, price, time; IV), made batch by batch: any length in no memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.harness.bids import BATCH_ROWS, START_US
from cec_store.operators.contract import InputBatch

PRICE_MAX = 100_000_000
_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Bids:
    """Bids on ``items``: chosen evenly, or by Zipf's law where ``skew`` is its exponent.

    Each batch has a seed of its own, so reading can begin anywhere and gives the same rows.
    """

    items: int
    rows: int
    skew: float = 0.0
    seed: int = 1
    batch_rows: int = BATCH_ROWS
    values: int = 1
    """Columns of prices: ``price``, ``price2`` …"""
    rows_per_s: float = 0.0
    """0: as fast as it is read."""
    unpaced_rows: int = 0
    """The rate holds from here on."""

    @property
    def schema(self) -> pa.Schema:
        prices = ["price", *(f"price{i}" for i in range(2, self.values + 1))]
        return pa.schema([("item", pa.int64()), *((name, pa.int64()) for name in prices),
                          ("time", _TIME)])  # fmt: skip

    def read(self, start: int, stop: int | None = None) -> Iterator[InputBatch]:
        stop = self.rows if stop is None else min(stop, self.rows)
        chances = self._chances()
        pace: Pace | None = None
        for number in range(start // self.batch_rows, -(-stop // self.batch_rows)):
            first = number * self.batch_rows
            low, high = max(0, start - first), min(self.batch_rows, stop - first)
            batch, times_us = self._batch(number, chances)
            offsets = np.arange(first + low, first + high)
            if self.rows_per_s and first >= self.unpaced_rows:
                pace = pace or Pace(self.rows_per_s)
                pace.wait(high - low)
            yield InputBatch(batch.slice(low, high - low), offsets, times_us[low:high])

    def _chances(self) -> NDArray[np.float64] | None:
        """Cumulated, from the most frequent item to the rarest."""
        if not self.skew:
            return None
        weights = np.arange(1, self.items + 1, dtype=np.float64) ** -self.skew
        chances: NDArray[np.float64] = np.cumsum(weights) / weights.sum()
        return chances

    def _items(self, number: int, chances: NDArray[np.float64] | None) -> NDArray[np.int64]:
        random = np.random.default_rng((self.seed, number))
        if chances is None:
            return random.integers(0, self.items, self.batch_rows)
        places = np.searchsorted(chances, random.random(self.batch_rows))
        return np.minimum(places, self.items - 1)

    def _batch(
        self, number: int, chances: NDArray[np.float64] | None
    ) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
        items = self._items(number, chances)
        # Prices matter to nothing that is measured; they only have to differ.
        prices = (items * 7919 + number * 104_729 + np.arange(len(items))) % PRICE_MAX
        times_us = START_US + number * self.batch_rows + np.arange(self.batch_rows)
        values = [pa.array(prices + place) for place in range(self.values)]
        columns = [pa.array(items), *values, pa.array(times_us).cast(_TIME)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), times_us


class Pace:
    """Keeps a source at so many rows a second; 0 for as fast as it goes."""

    def __init__(self, rows_per_s: float) -> None:
        self._rows_per_s = rows_per_s
        self._began = time.perf_counter()
        self._rows = 0

    def wait(self, rows: int) -> None:
        """Return when these rows are due."""
        self._rows += rows
        if self._rows_per_s:
            due = self._began + self._rows / self._rows_per_s
            time.sleep(max(0.0, due - time.perf_counter()))
