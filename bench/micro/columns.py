"""Ten columns written and read, all and two of them: compressed apart, as a whole, and in Parquet.

Bids with a channel, an address and a text besides: six columns of numbers and times, four of
strings, of which one never repeats. Queues are written through `open_queue` and read through
`read_queue`, Parquet with zstd through pyarrow, in row groups as large as a frame; whoever writes
ends with a sync. Files are in the page cache for all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness.bids import START_US
from bench.harness.rounds import Timing, options, race, report, stopwatch
from cec_store import QueueOptions, open_queue, read_queue

TARGETS = {
    "two_of_ten_read_ratio": "at most 0.35",
    "bytes_vs_body": "at most 0.8",
    "write_ratio": "at most 1.1",
    "bytes_vs_parquet_zstd": "at most 1.1",
    "write_vs_parquet_zstd": "at least 1",
    "read_ratio": "at most 1.1",
    "read_vs_parquet_zstd": "at least 1",
    "read_two_vs_parquet_zstd": "at least 0.8",
}
ROWS, ROWS_QUICK = 2_000_000, 400_000
FRAME_ROWS = 65_536
TWO = ["price", "channel"]
KINDS = ("columns", "body")
PARQUET = "parquet"


def rows_of(count: int) -> pa.Table:
    random = np.random.default_rng(17)
    channels = np.array([f"channel-{i}" for i in range(40)])
    addresses = np.array([f"https://www.nexmark.example/item.htm?query={i}" for i in range(2_000)])
    letters = random.integers(ord("a"), ord("z") + 1, (count, 12), dtype=np.uint8)
    ends = np.arange(count + 1, dtype=np.int32) * 12
    carriers = np.array(["AA", "UA", "DL", "B6"])
    times = START_US + np.cumsum(random.integers(0, 40, count))
    return pa.table(
        {
            "auction": random.zipf(1.3, count) % 100_000 + 1_000,
            "bidder": random.integers(0, 50_000, count),
            "price": (10 ** (6 * random.random(count)) * 100).astype(np.int64),
            "time": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "delay": random.normal(0, 20, count).round(1),
            "is_late": random.random(count) < 0.2,
            "channel": channels[random.integers(0, len(channels), count)],
            "url": addresses[random.integers(0, len(addresses), count)],
            "carrier": carriers[random.integers(0, len(carriers), count)],
            "extra": pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(letters)),
        }
    )


def write(path: Path, rows: pa.Table, compression: str) -> float:
    """Seconds to write a queue of this name, which nothing is in yet."""
    asked = QueueOptions(compression=compression, sync="none")
    with (
        stopwatch() as taken,
        open_queue(path, "x", schema=rows.schema, timestamp_column="time", options=asked) as queue,
    ):
        for batch in rows.to_batches(max_chunksize=FRAME_ROWS):
            queue.append(batch)
    return taken[0]


def write_parquet(path: Path, rows: pa.Table) -> float:
    path.mkdir()
    with stopwatch() as taken, open(path / "rows.parquet", "wb") as file:
        pq.write_table(rows, file, compression="zstd", row_group_size=FRAME_ROWS)
        file.flush()
        os.fsync(file.fileno())
    return taken[0]


def read(path: Path, columns: Sequence[str] | None = None) -> float:
    with stopwatch() as taken:
        table = read_queue(path, columns=columns).read_all()
    assert table.num_rows
    return taken[0]


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> float:
    with stopwatch() as taken:
        table = pq.read_table(path / "rows.parquet", columns=columns)
    assert table.num_rows
    return taken[0]


def bytes_of(path: Path) -> int:
    return sum(
        file.stat().st_size for file in path.iterdir() if file.suffix in (".seg", ".parquet")
    )


def show(what: str, timings: dict[str, Timing], rows: int) -> None:
    for name, timing in timings.items():
        best, median = timing.best * 1e3, timing.median * 1e3
        print(
            f"  {what} {name:8} best {best:8,.0f} ms, median {median:8,.0f} ms, "
            f"{rows / best / 1e3:6.2f} M rows/s"
        )


def main() -> None:
    with options(__doc__) as asked:
        rows = rows_of(asked.size(ROWS, ROWS_QUICK))
        made: list[Path] = []

        def writing(name: str) -> float:
            made.append(asked.folder / f"{name}-{len(made)}")
            return write_parquet(made[-1], rows) if name == PARQUET else write(made[-1], rows, name)

        names = (*KINDS, PARQUET)
        written = race({name: partial(writing, name) for name in names}, asked.rounds)
        paths = {name: next(p for p in made if p.name.startswith(name)) for name in names}
        sizes = {name: bytes_of(path) for name, path in paths.items()}
        for name in KINDS:
            assert read_queue(paths[name]).read_all().equals(rows)
            assert read_queue(paths[name], columns=TWO).read_all().equals(rows.select(TWO))
        readers = {name: read_parquet if name == PARQUET else read for name in names}
        everything, two = (
            race({n: partial(readers[n], paths[n], columns) for n in names}, asked.rounds)
            for columns in (None, TWO)
        )
        a_row = [f"{name} {size / rows.num_rows:.1f}" for name, size in sizes.items()]
        print(f"{rows.num_rows:,} rows of ten columns; bytes a row: {', '.join(a_row)}")
        show("write   ", written, rows.num_rows)
        show("read ten", everything, rows.num_rows)
        show("read two", two, rows.num_rows)
        report(
            {
                "two_of_ten_read_ratio": two["columns"].best / everything["columns"].best,
                "bytes_vs_body": sizes["columns"] / sizes["body"],
                "bytes_vs_parquet_zstd": sizes["columns"] / sizes[PARQUET],
                "write_ratio": written["columns"].best / written["body"].best,
                "write_vs_parquet_zstd": written[PARQUET].best / written["columns"].best,
                "read_ratio": everything["columns"].best / everything["body"].best,
                "read_vs_parquet_zstd": everything[PARQUET].best / everything["columns"].best,
                "read_two_vs_parquet_zstd": two[PARQUET].best / two["columns"].best,
            }
        )


if __name__ == "__main__":
    main()
