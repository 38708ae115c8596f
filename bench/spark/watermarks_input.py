"""The input of bench/spark/watermarks.py: much state in few files, then small batches, each a file.

Of the state so many rows expire in each small batch: times are spread evenly over a span that is as
long as the watermark's delay, and each batch is a step later than the one before. Within the span
they are in no order at all, unless a workload says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SMALL = 1_000
"""Rows of a small batch, and of one side's batch of a join five times as many."""
JOIN_ROWS = 5_000
STEP_S = 5
EXPIRING = 350
"""Rows of the first state that expire in each batch, but for a join, where as many go as come."""
START_S = 1_700_000_000
_LOAD_ROWS_MAX = 1_500_000
_SECOND_US = 1_000_000
_NEW_IDS = 10**9

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Workload:
    """A state of so many rows, and the batches behind it."""

    kind: str
    """`near`: what expires is a delay old; `far`: two of them; `mixed`: rows come in no order of
    time at all, as many as expire; `join`: two sides; `nexmark`: so many events a second, which
    nexmark_input writes."""
    rows: int
    batches: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.rows}-{self.batches}"

    @property
    def span_s(self) -> int:
        """Seconds over which the state's times are spread; whole steps."""
        if self.kind == "join":
            return self.rows // 2 // JOIN_ROWS * 60
        if self.kind == "mixed":  # its times are denser, the older they are
            return 2 * self.rows // SMALL * STEP_S
        return self.rows // EXPIRING * STEP_S

    def write(self, folder: Path) -> None:
        """Write the files below a folder of the workload's name."""
        for number, side in enumerate(("left", "right") if self.kind == "join" else ("",)):
            path = folder / self.name / side
            path.mkdir(parents=True)
            for at, (ids, times_us) in enumerate(self._files(number)):
                write_file(path / f"{at:05}.parquet", at, ids, times_us)

    def write_again(self, folder: Path) -> None:
        """Write one more batch, for a query that is started again."""
        ids, times_us = self._batch(self.batches, np.random.default_rng(self.batches))
        at = 10_000
        write_file(folder / self.name / f"{at:05}.parquet", at, ids, times_us)

    def _files(self, number: int) -> Iterator[tuple[Longs, Longs]]:
        dice = np.random.default_rng([number, self.rows])
        rows = self.rows // 2 if self.kind == "join" else self.rows
        ids = dice.integers(0, 4 * self.rows, rows) if self.kind == "join" else np.arange(rows)
        shares = dice.random(rows)
        if self.kind == "mixed":
            shares = 1 - np.sqrt(shares)
        times_us = (START_S + shares * self.span_s) * _SECOND_US
        for first in range(0, rows, _LOAD_ROWS_MAX):
            part = slice(first, first + _LOAD_ROWS_MAX)
            yield ids[part], times_us[part].astype(np.int64)
        for batch in range(self.batches):
            yield self._batch(batch, dice)

    def _batch(self, batch: int, dice: np.random.Generator) -> tuple[Longs, Longs]:
        count, step_s, back_s = SMALL, STEP_S, STEP_S
        if self.kind == "join":
            count, step_s, back_s = JOIN_ROWS, 60, 60
        if self.kind == "mixed":
            back_s = self.span_s
        delays = 2 if self.kind == "far" else 1
        end_us = (START_S + delays * self.span_s + (batch + 1) * step_s) * _SECOND_US
        times_us = end_us - 1_000 - dice.integers(0, back_s * _SECOND_US - 1_000, count)
        times_us[0] = end_us - 1_000  # what the watermark goes by
        is_join = self.kind == "join"
        ids = dice.integers(0, 4 * self.rows, count) if is_join else _new_ids(batch, count)
        return ids, times_us


def write_file(path: Path, at: int, ids: Longs, times_us: Longs) -> None:
    times = pa.array(times_us, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": ids, "ts": times}), path, compression="none")
    os.utime(path, (START_S + at,) * 2)  # by these the stream orders its files


def _new_ids(batch: int, count: int) -> Longs:
    return _NEW_IDS + batch * count + np.arange(count)
