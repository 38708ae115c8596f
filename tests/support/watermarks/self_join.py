"""A query whose batches are a stream-stream join that is joined with itself. Prints their keys."""

import os
import sys
from pathlib import Path
from typing import Any

HOUR_US = 3_600_000_000
_OLDEST_S = 1_700_000_000


def write_inputs(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    for side in "lr":
        (folder / side).mkdir()
    for n in range(4):
        for side, keys in (("l", [3 * n, 3 * n + 1]), ("r", [1000 + n])):
            rows = {"k": keys, "ts": [n * HOUR_US + key for key in keys]}
            file = folder / side / f"{n}.parquet"
            pq.write_table(pa.table(rows, schema=schema), file)
            # Spark reads files by their times, and those of one millisecond in any order.
            os.utime(file, (_OLDEST_S + n, _OLDEST_S + n))


def run(session: Any, folder: Path) -> list[list[int]]:
    from pyspark.sql import functions as F  # noqa: N812

    def read(side: str) -> Any:
        rows = session.readStream.schema("k long, ts timestamp").option("maxFilesPerTrigger", 1)
        rows = rows.parquet(str(folder / side)).toDF(f"{side}k", f"{side}ts")
        return rows.withWatermark(f"{side}ts", "0 seconds")

    found: list[list[int]] = []

    def take(batch: Any, number: int) -> None:
        others = batch.select(F.col("lk").alias("other")).hint("shuffle_hash")
        keys = batch.select("lk", "lts").join(others, F.col("lk") == F.col("other"))
        found.append(sorted(row.lk for row in keys.collect()))

    near = F.expr("lk = rk AND rts >= lts AND rts <= lts + INTERVAL 30 MINUTES")
    writer = read("l").join(read("r"), near, "leftOuter").writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(folder / "c")).trigger(availableNow=True)
    writer.start().awaitTermination()
    return found


def main(folder: Path, store: str) -> None:
    from pyspark.sql import SparkSession

    from cec_store.connectors import spark

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "1")
    builder = builder.config("spark.sql.autoBroadcastJoinThreshold", "-1")
    if store == "cec":
        builder = spark.configure(builder)
    write_inputs(folder)
    print("FOUND", run(builder.getOrCreate(), folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
