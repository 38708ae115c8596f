"""Append throughput against what else one would write batches with: an Arrow file, SQLite.

100-byte records in batches of 10,000, from opening the file to the moment when the last batch is
on disk. The queue syncs in groups (its default) and awaits the last frame; the Arrow file is
compressed with zstd at its default level, in its own threads, and synced once; SQLite commits
each batch with synchronous=FULL in WAL mode, from tuples that are made off the clock.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from pathlib import Path

import pyarrow as pa

from bench.harness.bids import bids
from bench.harness.rounds import Options, Timing, options, race, report, stopwatch
from cec_store import open_queue

TARGETS = {
    "append_vs_ipc": "at least 0.8",
    "append_vs_sqlite": "at least 3",
}
BATCH_ROWS = 10_000
TUPLE_BYTES = 100


def append_queue(folder: Path, batches: list[pa.RecordBatch]) -> float:
    path = folder / "queue"
    with stopwatch() as taken:
        queue = open_queue(path, "x", schema=batches[0].schema, timestamp_column="time")
        for batch in batches:
            queue.append(batch)
        queue.sync()
    queue.close()
    shutil.rmtree(path)
    return taken[0]


def write_ipc(folder: Path, batches: list[pa.RecordBatch]) -> float:
    path = folder / "file.arrow"
    choice = pa.ipc.IpcWriteOptions(compression="zstd")
    with stopwatch() as taken, open(path, "wb") as file:
        with pa.ipc.new_file(file, batches[0].schema, options=choice) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
    return taken[0]


def insert_sqlite(folder: Path, batches: list[pa.RecordBatch]) -> float:
    path = folder / "rows.sqlite"
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE bids (item INTEGER, price INTEGER, time INTEGER, url TEXT)")
    seconds = 0.0
    for batch in batches:
        columns = [batch.column("item"), batch.column("price"), batch.column("time")]
        numbers = [column.cast(pa.int64()).to_pylist() for column in columns]
        rows = list(zip(*numbers, batch.column("url").to_pylist(), strict=True))
        began = time.perf_counter()
        database.execute("BEGIN")
        database.executemany("INSERT INTO bids VALUES (?, ?, ?, ?)", rows)
        database.execute("COMMIT")
        seconds += time.perf_counter() - began
    database.close()
    for name in folder.glob("rows.sqlite*"):
        name.unlink()
    return seconds


def zstd_ratio(batches: list[pa.RecordBatch]) -> float:
    """Return how well zstd level 1 compresses the records: bytes before over bytes after."""
    raw = batches[0].serialize()
    return float(raw.size / len(pa.compress(raw, codec="zstd", asbytes=True)))


def speed(name: str, timing: Timing, rows: int) -> str:
    return (
        f"{name:<12} best {rows / timing.best:>11,.0f} records/s"
        f" {rows * TUPLE_BYTES / timing.best / 1e6:>7.1f} MB/s"
        f"   median {rows / timing.median:>11,.0f} records/s"
    )


def main(asked: Options) -> None:
    count = asked.size(full=300, quick=40)
    table = bids(count * BATCH_ROWS, 100_000, tuple_bytes=TUPLE_BYTES)
    batches = table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
    rows = table.num_rows
    print(
        f"{rows:,} records of {TUPLE_BYTES} bytes in {count} batches, "
        f"{zstd_ratio(batches):.1f} times smaller by zstd; {asked.rounds} rounds"
    )
    timings = race(
        {
            "queue": lambda: append_queue(asked.folder, batches),
            "ipc": lambda: write_ipc(asked.folder, batches),
            "sqlite": lambda: insert_sqlite(asked.folder, batches),
        },
        asked.rounds,
    )
    for name, timing in timings.items():
        print(speed(name, timing, rows))
    ours, ipc, sqlite = timings.values()
    report(
        {
            "append_vs_ipc": ipc.best / ours.best,
            "append_vs_ipc_median": ipc.median / ours.median,
            "append_vs_sqlite": sqlite.best / ours.best,
            "append_vs_sqlite_median": sqlite.median / ours.median,
            "append_records_per_s": rows / ours.best,
            "append_mb_per_s": rows * TUPLE_BYTES / ours.best / 1e6,
        }
    )


if __name__ == "__main__":
    with options(__doc__) as asked:
        main(asked)
