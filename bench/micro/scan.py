"""A queue scanned by polars and by DuckDB, beside their own readers of Parquet.

The ten columns of `micro/columns.py`, in a queue compressed by columns, in one of eight partitions,
and in Parquet with zstd. Each engine reads all ten columns, two of them, and two of the last
hundredth of the time, into a table of its own. Files are in the page cache for all. Figures are the
seconds of the engine's reader of Parquet over those of its scan of the queue: above 1 the queue is
quicker.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from bench.harness.rounds import Timing, options, race, report, stopwatch
from bench.micro.columns import FRAME_ROWS, TWO, bytes_of, rows_of, write, write_parquet
from cec_store import QueueScan, open_queue, scan_queue

TARGETS = {
    "scan_vs_parquet_polars": "report",
    "scan_vs_parquet_polars_two_of_ten": "report",
    "scan_vs_parquet_duckdb": "report",
    "scan_vs_parquet_duckdb_two_of_ten": "report",
    "partitions_vs_parquet_polars": "report",
    "partitions_vs_parquet_polars_two_of_ten": "report",
}

ROWS, ROWS_QUICK = 2_000_000, 400_000
PARTITIONS, APPENDS = 8, 4
READS = ("ten", "two", "late")
QUEUES = ("queue", "partitions")


def write_partitions(path: Path, rows: pa.Table) -> None:
    with open_queue(
        path, "x", schema=rows.schema, timestamp_column="time", partitions=PARTITIONS,
        key_columns=["auction"],
    ) as queue:  # fmt: skip
        for start in range(0, rows.num_rows, -(-rows.num_rows // APPENDS)):
            queue.append(rows.slice(start, -(-rows.num_rows // APPENDS)))


def with_polars(rows: pl.LazyFrame, read: str, late: datetime) -> int:
    if read == "late":
        rows = rows.filter(pl.col("time") >= late)
    return (rows if read == "ten" else rows.select(TWO)).collect().height


def with_duckdb(source: Any, read: str, late: datetime) -> int:
    with duckdb.connect() as connection:
        if isinstance(source, QueueScan):
            connection.register("rows", source)
        else:
            connection.execute(f"CREATE VIEW rows AS FROM read_parquet('{source}')")
        columns = "*" if read == "ten" else ", ".join(TWO)
        where, values = ("WHERE time >= ?", [late]) if read == "late" else ("", [])
        text = f"SELECT {columns} FROM rows {where}"
        return int(connection.sql(text, params=values).to_arrow_table().num_rows)


def readers(paths: dict[str, Path], late: datetime) -> dict[str, Callable[[str], int]]:
    """Return by name what reads so many columns, and says how many rows there were."""
    scans = {name: scan_queue(paths[name]) for name in QUEUES}
    file = paths["parquet"] / "rows.parquet"
    made: dict[str, Callable[[str], int]] = {
        "polars parquet": lambda read: with_polars(pl.scan_parquet(file), read, late),
        "duckdb parquet": lambda read: with_duckdb(file, read, late),
        "pyarrow": lambda read: scans["queue"].to_table(columns=columns_of(read)).num_rows,
    }
    for name, scan in scans.items():
        rows = pl.scan_pyarrow_dataset(scan)
        made[f"polars {name}"] = partial(with_polars, rows, late=late)
        made[f"duckdb {name}"] = partial(with_duckdb, scan, late=late)
    return made


def columns_of(read: str) -> list[str] | None:
    return None if read == "ten" else TWO


def timed(reader: Callable[[str], int], read: str, expected: int) -> float:
    with stopwatch() as taken:
        count = reader(read)
    assert count == expected, (count, expected)
    return taken[0]


def show(read: str, timings: dict[str, Timing], rows: int) -> None:
    for name, timing in timings.items():
        best, median = timing.best * 1e3, timing.median * 1e3
        print(
            f"  {read:4} {name:17} best {best:8,.0f} ms, median {median:8,.0f} ms, "
            f"{rows / best / 1e3:6.2f} M rows/s"
        )


def figures(timings: dict[str, dict[str, Timing]]) -> dict[str, float]:
    names = {"ten": "", "two": "_two_of_ten", "late": "_late"}
    return {
        f"{'partitions' if queue == 'partitions' else 'scan'}_vs_parquet_{engine}{names[read]}": (
            timings[read][f"{engine} parquet"].best / timings[read][f"{engine} {queue}"].best
        )
        for queue in QUEUES
        for engine in ("polars", "duckdb")
        for read in READS
    }


def main() -> None:
    with options(__doc__) as asked:
        rows = rows_of(asked.size(ROWS, ROWS_QUICK))
        names = ("queue", "partitions", "parquet")
        paths = {name: asked.folder / name for name in names}
        write(paths["queue"], rows, "columns")
        write_partitions(paths["partitions"], rows)
        write_parquet(paths["parquet"], rows)
        late = rows["time"][int(rows.num_rows * 0.99)].as_py()
        counts = dict.fromkeys(READS, rows.num_rows)
        every = readers(paths, late)
        counts["late"] = every["polars parquet"]("late")
        assert scan_queue(paths["queue"]).to_table().equals(rows)
        timings = {
            read: race(
                {
                    name: partial(timed, every[name], read, counts[read])
                    for name in every
                    if (name, read) != ("pyarrow", "late")
                },
                asked.rounds,
            )
            for read in READS
        }
        sizes = {name: bytes_of(paths[name]) / rows.num_rows for name in ("queue", "parquet")}
        a_row = ", ".join(f"{name} {size:.1f}" for name, size in sizes.items())
        frames = -(-rows.num_rows // FRAME_ROWS)
        print(f"{rows.num_rows:,} rows of ten columns in {frames} frames; bytes a row: {a_row}")
        for read, timing in timings.items():
            show(read, timing, counts[read])
        report(figures(timings))


if __name__ == "__main__":
    main()
