"""The sink against Spark's own Parquet sink, and against a Python sink that drops its batches.

Ten columns of bids that the JVM makes up, 2 partitions on 2 cores, batches of 1,000,000 rows. Rates
are rows over the median time of a batch, from trigger to end; medians of the rounds. Ours syncs
each batch to the disk; Parquet's files are not synced.
"""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path
from typing import Any

from memory_source import DroppingSink
from pyspark.sql import SparkSession
from rounds import Options, options, report
from spark_streams import generated_bids, rows_per_s, session


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
    rates: dict[str, list[float]] = {"cec": [], "parquet": [], "limit": []}
    bytes_per_row: dict[str, float] = {}
    with session() as spark:
        spark.dataSource.register(DroppingSink)
        for number in range(asked.rounds):
            names = list(rates)
            for name in names[number % 3 :] + names[: number % 3]:
                folder = asked.folder / str(number)
                rates[name].append(rows_per_s(writer(spark, name, folder, rows), batches, rows))
                files = [f for f in (folder / name).rglob("*") if f.is_file()]
                written = spark.read.format("cec" if name == "cec" else "parquet")
                if files:
                    count = written.load(str(folder / name)).count()
                    bytes_per_row[name] = sum(f.stat().st_size for f in files) / count
                shutil.rmtree(folder, ignore_errors=True)
    best = {name: statistics.median(found) for name, found in rates.items()}
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
