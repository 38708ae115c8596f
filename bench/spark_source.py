"""The source against Python data sources in memory, of Arrow batches and of rows, and Parquet's.

Ten columns of bids, 2 partitions on 2 cores, batches of 1,000,000 rows into a sink that drops them;
of 250,000 where rows come one by one. Rates are rows over the median time of a batch, from trigger
to end; medians of the rounds.

Then the time from a query's start to the end of its first batch, of one frame, on a queue of 2 GB:
beginning with its last percent, by a timestamp, and with its first row.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from first_rows import LongBids, start_at_99pct
from memory_source import MemoryRows, MemorySource
from pyspark.sql import SparkSession
from rounds import Options, options, race, report
from spark_streams import PARTITIONS, WARM_BATCHES, batch_s, bids, session

from cec_store.format.schema import RecordSchema
from cec_store.partitioned.committer import Committer
from cec_store.storage.local import LocalFolder

FRAME_ROWS = 62_500
ROW_BATCHES = 4
"""Arrow batches' worth of rows in a batch of single rows."""


def write_queue(path: Path, tables: Iterable[pa.Table], per_batch: int) -> None:
    """As the sink would: each batch half to one partition, half to the other."""
    tables = iter(tables)
    first_one = next(tables)
    schema = RecordSchema(first_one.schema, timestamp_column="at")
    committer = Committer(LocalFolder(path), schema)
    parts = (
        (table, first)
        for table in chain([first_one], tables)
        for first in range(0, table.num_rows, per_batch)
    )
    for number, (table, first) in enumerate(parts):
        staged = []
        for part in range(PARTITIONS):
            half = per_batch // PARTITIONS
            stager = committer.stager("bench", number, part)
            for batch in table.slice(first + part * half, half).to_batches(FRAME_ROWS):
                stager.append(batch)
            piece = stager.finish()
            assert piece is not None
            staged.append(piece)
        committer.commit("bench", number, staged)
    committer.close()


def write_inputs(folder: Path, rows: int, batches: int) -> None:
    """The same rows thrice: a queue, an Arrow file, a Parquet file for each task."""
    table = bids(rows * batches, seed=7)
    write_queue(folder / "queue", [table], rows)
    with pa.ipc.new_file(str(folder / "bids.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=FRAME_ROWS)
    (folder / "parquet").mkdir()
    half = rows // PARTITIONS
    for number in range(batches * PARTITIONS):
        path = folder / "parquet" / f"{number:04}.parquet"
        pyarrow.parquet.write_table(table.slice(number * half, half), path)


def reader(spark: SparkSession, name: str, folder: Path, rows: int) -> Any:
    stream = spark.readStream
    if name == "cec":
        stream = stream.format("cec").option("startingOffsets", "earliest")
        return stream.option("maxOffsetsPerTrigger", rows).load(str(folder / "queue"))
    if name in ("limit", "rows"):
        stream = stream.format("memory-arrow" if name == "limit" else "memory-rows")
        stream = stream.option("batchesPerTrigger", rows // FRAME_ROWS)
        return stream.load(str(folder / "bids.arrow"))
    schema = spark.read.parquet(str(folder / "parquet")).schema
    stream = stream.schema(schema).option("maxFilesPerTrigger", PARTITIONS)
    return stream.parquet(str(folder / "parquet"))


def starter(spark: SparkSession, name: str, folder: Path, rows: int) -> Callable[[], Any]:
    checkpoint = folder / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    stream = reader(spark, name, folder, rows).writeStream.format("noop")
    return lambda: stream.option("checkpointLocation", str(checkpoint)).start()


def main(asked: Options) -> None:
    rows, batches = asked.size(16, 8) * FRAME_ROWS, asked.size(10, 5)
    write_inputs(asked.folder, rows, WARM_BATCHES + batches)
    with session() as spark:
        spark.dataSource.register(MemorySource)
        spark.dataSource.register(MemoryRows)
        taken = dict.fromkeys(("cec", "limit", "parquet"), rows)
        taken["rows"] = ROW_BATCHES * FRAME_ROWS

        def turn(name: str) -> float:
            start = starter(spark, name, asked.folder, taken[name])
            return batch_s(start, batches if name != "rows" else 3, taken[name])

        timings = race({name: partial(turn, name) for name in taken}, asked.rounds)
        source, path = LongBids(asked.size(72, 4), rows), asked.folder / "long" / "queue"
        write_queue(path, source.tables(), rows)
        late_start = start_at_99pct(spark, path, source, FRAME_ROWS)
    best = {name: taken[name] / timing.median for name, timing in timings.items()}
    for name, rate in best.items():
        print(f"{name:<8} {rate:>12,.0f} rows/s")
    report(
        {
            "source_vs_limit": best["cec"] / best["limit"],
            "source_vs_parquet": best["cec"] / best["parquet"],
            "source_vs_rows": best["cec"] / best["rows"],
            "start_at_99pct": late_start,
            "source_rows_per_s": best["cec"],
        }
    )


if __name__ == "__main__":
    with options(__doc__, turns=(3, 1), takes="under five minutes") as asked:
        main(asked)
