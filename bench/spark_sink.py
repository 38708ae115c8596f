"""The sink against Spark's own Parquet sink, and against a Python sink that drops its batches.

Ten columns of bids that the JVM makes up, 2 partitions on 2 cores, batches of 1,000,000 rows. Rates
are rows over the median time of a batch, from trigger to end; medians of the rounds. Ours syncs
each batch to the disk; Parquet's files are not synced.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from memory_source import DroppingSink
from pyspark.sql import SparkSession
from rounds import Options, options, race, report
from spark_streams import batch_s, generated_bids, session


def writer(spark: SparkSession, name: str, folder: Path, rows: int) -> Any:
    checkpoint = folder / f"{name}-checkpoint"
    stream = generated_bids(spark, rows).writeStream.option("checkpointLocation", str(checkpoint))
    formats = {"cec": "cec", "parquet": "parquet", "limit": "dropped"}
    stream = stream.format(formats[name])
    if name == "cec":
        stream = stream.option("timestampColumn", "at")
    return lambda: stream.start(str(folder / name))


def main(asked: Options) -> None:
    rows, batches = asked.size(1_000_000, 300_000), asked.size(10, 5)
    bytes_per_row: dict[str, float] = {}
    with session() as spark:
        spark.dataSource.register(DroppingSink)

        def turn(name: str) -> float:
            seconds = batch_s(writer(spark, name, asked.folder, rows), batches, rows)
            files = [f for f in (asked.folder / name).rglob("*") if f.is_file()]
            if files:
                written = spark.read.format("cec" if name == "cec" else "parquet")
                count = written.load(str(asked.folder / name)).count()
                bytes_per_row[name] = sum(f.stat().st_size for f in files) / count
            for folder in asked.folder.iterdir():
                shutil.rmtree(folder)
            return seconds

        names = ("cec", "parquet", "limit")
        timings = race({name: partial(turn, name) for name in names}, asked.rounds)
    best = {name: rows / timing.median for name, timing in timings.items()}
    for name, rate in best.items():
        size = f", {bytes_per_row[name]:.1f} bytes a row" if name in bytes_per_row else ""
        print(f"{name:<8} {rate:>12,.0f} rows/s{size}")
    report(
        {
            "sink_vs_parquet": best["cec"] / best["parquet"],
            "sink_vs_limit": best["cec"] / best["limit"],
            "sink_rows_per_s": best["cec"],
        }
    )


if __name__ == "__main__":
    with options(__doc__, turns=(3, 1), takes="under five minutes") as asked:
        main(asked)
