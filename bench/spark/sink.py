"""The sink in the JVM against Spark's own Parquet sink with zstd, and against the sink in Python.

Ten columns of bids that the JVM makes up, 2 partitions on 2 cores, batches of 1,000,000 rows. Rates
are rows over the median time of a batch, from trigger to end; medians of the rounds. Ours sync
each batch to the disk; Parquet's files are not synced.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import cec_store
from bench.harness.rounds import Options, options, race, report
from bench.spark.streams import batch_s, generated_bids, session

TARGETS = {
    "sink_vs_parquet": "at least 1.6",
    "sink_bytes_vs_parquet": "at most 1.1",
}
FORMATS = {"jvm": "cec", "python": "cec_python", "parquet": "parquet"}


def writer(spark: SparkSession, name: str, folder: Path, rows: int) -> Any:
    checkpoint = folder / f"{name}-checkpoint"
    stream = generated_bids(spark, rows).writeStream.option("checkpointLocation", str(checkpoint))
    stream = stream.format(FORMATS[name])
    if name == "parquet":
        stream = stream.option("compression", "zstd")
    else:
        stream = stream.option("timestampColumn", "at")
    return lambda: stream.start(str(folder / name))


def rows_of(spark: SparkSession, name: str, path: Path) -> int:
    if name == "parquet":
        return spark.read.parquet(str(path)).count()
    with cec_store.read_queue(path) as batches:
        return sum(batch.num_rows for batch in batches)


def main(asked: Options) -> None:
    rows, batches = asked.size(1_000_000, 300_000), asked.size(10, 5)
    bytes_per_row: dict[str, float] = {}
    with session() as spark:

        def turn(name: str) -> float:
            seconds = batch_s(writer(spark, name, asked.folder, rows), batches, rows)
            # Tasks of the batch that the stop cut short may still be moving files in the making.
            files = [
                file
                for file in (asked.folder / name).rglob("*")
                if file.suffix != ".tmp" and file.is_file()
            ]
            count = rows_of(spark, name, asked.folder / name)
            bytes_per_row[name] = sum(file.stat().st_size for file in files) / count
            for folder in asked.folder.iterdir():
                shutil.rmtree(folder)
            return seconds

        timings = race({name: partial(turn, name) for name in FORMATS}, asked.rounds)
    best = {name: rows / timing.median for name, timing in timings.items()}
    for name, rate in best.items():
        print(f"{name:<8} {rate:>12,.0f} rows/s, {bytes_per_row[name]:.1f} bytes a row")
    report(
        {
            "sink_vs_parquet": best["jvm"] / best["parquet"],
            "sink_bytes_vs_parquet": bytes_per_row["jvm"] / bytes_per_row["parquet"],
            "sink_vs_python": best["jvm"] / best["python"],
            "sink_rows_per_s": best["jvm"],
        }
    )


if __name__ == "__main__":
    with options(__doc__, turns=(3, 1), takes="under five minutes") as asked:
        main(asked)
