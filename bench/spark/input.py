"""The input of the Spark benchmarks: updates of random keys as Parquet files, two to a batch.

A stream reads ``<stream>/*``; a phase is a folder that appears there at once (a link), so that no
batch ever sees half of it. A file source that takes two files per trigger then makes exactly the
batches that were written: it orders by modification time, so each file has one of its own.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

FILES_PER_BATCH = 2  # one per core: a single file is read by a single task
AMOUNTS = 1000
FIRST_MTIME_S = 1_700_000_000

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Phase:
    """Batches of random updates, ``rows`` in each; without ``rows`` each key once in all."""

    name: str
    number: int
    keys: int
    batches: int = 1
    rows: int = 0

    @property
    def total_rows(self) -> int:
        return self.batches * self.rows or self.keys

    def updates(self) -> Iterator[tuple[Longs, Longs]]:
        """Keys and amounts of each batch, the same at every call."""
        for batch in range(self.batches):
            dice = np.random.default_rng([self.number, batch])
            keys = dice.integers(0, self.keys, self.rows) if self.rows else self._share(batch)
            yield keys, dice.integers(0, AMOUNTS, len(keys))

    def _share(self, batch: int) -> Longs:
        every = np.random.default_rng([self.number, 0]).permutation(np.arange(self.keys))
        return every[batch :: self.batches]

    def write(self, folder: Path) -> None:
        """Write the phase below ``folder``."""
        path = folder / self.name
        path.mkdir(parents=True)
        mtime_s = FIRST_MTIME_S + self.number * 1_000
        for batch, (keys, amounts) in enumerate(self.updates()):
            table = pa.table({"key": keys, "amount": amounts})
            share = -(-len(keys) // FILES_PER_BATCH)
            for part in range(FILES_PER_BATCH):
                file = path / f"{batch:04}-{part}.parquet"
                pq.write_table(table.slice(part * share, share), file, compression="none")
                at = mtime_s + batch * FILES_PER_BATCH + part
                os.utime(file, (at, at))


def show(phase: Path, stream: Path) -> None:
    """Let the stream see a phase that was written; again does no harm."""
    stream.mkdir(parents=True, exist_ok=True)
    link = stream / phase.name
    if not link.is_symlink():
        link.symlink_to(phase)


def updates_alone_bytes(phases: tuple[Phase, ...], partitions: int) -> float:
    """Compressed keys, counts and sums that a batch of the last phase changes; mean of them."""
    count, total = np.zeros((2, phases[0].keys), np.int64)
    sizes = []
    for phase in phases:
        for keys, amounts in phase.updates():
            count += np.bincount(keys, minlength=len(count))
            np.add.at(total, keys, amounts)
            if phase is phases[-1]:
                changed, first = np.unique(keys, return_index=True)
                changed = changed[np.argsort(first)]  # as they come: random, not sorted
                sizes.append(_compressed_bytes(changed, count[changed], total[changed], partitions))
    return statistics.mean(sizes)


def _compressed_bytes(keys: Longs, count: Longs, total: Longs, partitions: int) -> int:
    """One batch, its keys dealt to the partitions by a hash (which one makes no difference)."""
    partition = (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    partition %= np.uint64(partitions)
    size = 0
    for number in range(partitions):
        mine = partition == number
        columns = _rows(keys[mine]) + _rows(count[mine], total[mine])
        size += len(zstandard.ZstdCompressor(level=1).compress(columns))
    return size


def _rows(*fields: Longs) -> bytes:
    """Spark's encoding: a version byte, a word of null bits, eight bytes a field."""
    rows = np.zeros((len(fields[0]), 1 + 8 + 8 * len(fields)), np.uint8)
    for at, field in enumerate(fields):
        rows[:, 9 + 8 * at : 17 + 8 * at] = field.astype("<i8")[:, None].view(np.uint8)
    return rows.tobytes()
