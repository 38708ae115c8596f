"""The Spark demo's driver, a process to be killed: ``python -m cec_store.demos.spark_job DIR``.

Two queries over the same files, with three stateful operators. Says each batch that is done on its
standard output, one JSON object a line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cec_store.connectors import spark
from cec_store.demos.flights import DEPARTURE
from cec_store.demos.spark_feed import AIRCRAFT, CHECKPOINT, FEED, FLEETS, OUTPUT

RECOVERY_TIME_S = 1.0
_LOOK_S = 0.05
_CONF = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    # The demo is too short for the JVM's optimising compiler to pay off.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def aircraft(flights: Any) -> Any:
    """Flights and minutes of delay of each aircraft so far: a new row when it has flown again."""
    from pyspark.sql import functions as f

    return flights.groupBy("tailnum").agg(
        f.count("*").alias("flights"), f.sum("dep_delay").alias("delay_minutes")
    )


def fleets(flights: Any) -> Any:
    """Count the different aircraft that each carrier flew on a day, when the day is over."""
    from pyspark.sql import functions as f

    day = f.date_trunc("day", DEPARTURE)
    of_a_day = flights.withColumn("day", day).withWatermark("day", "1 day")
    in_the_air = of_a_day.dropDuplicates(["day", "carrier", "tailnum"])
    counted = in_the_air.groupBy(f.window("day", "1 day").alias("w"), "carrier").count()
    return counted.select(
        f.col("w.start").alias("day"), "carrier", f.col("count").alias("aircraft")
    )


def writer(folder: Path) -> Callable[[Any, int], None]:
    """One file a batch: a batch that is done again writes the same file again."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(rows: Any, batch: int) -> None:
        table = rows.toArrow()
        path = folder / f"{batch:05d}.parquet"
        part = path.with_suffix(".part")
        pq.write_table(table, part)
        part.replace(path)

    return write


def _session() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("cec-store demo")
    for name, value in _CONF.items():
        builder = builder.config(name, value)
    return spark.configure(builder, recovery_time_s=RECOVERY_TIME_S).getOrCreate()


def _start(session: Any, folder: Path, name: str, make: Callable[[Any], Any], mode: str) -> Any:
    schema = f"{DEPARTURE} timestamp, tailnum string, carrier string, dep_delay bigint"
    source = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return (
        make(source.parquet(str(folder / FEED)))
        .writeStream.queryName(name)
        .outputMode(mode)
        .foreachBatch(writer(folder / OUTPUT / name))
        .option("checkpointLocation", str(folder / CHECKPOINT / name))
        .trigger(availableNow=True)
        .start()
    )


def _say(query: Any, last: int) -> int:
    """The batches that are done since the last look; the newest of them."""
    for progress in query.recentProgress:
        if progress.batchId > last:
            last = progress.batchId
            metrics = [operator.customMetrics for operator in progress.stateOperators]
            event = {
                "query": query.name,
                "batch": last,
                "load_ms": sum(metric.get("cecLoadLatencyMs", 0) for metric in metrics),
                "loaded_records": sum(metric.get("cecLoadedRecords", 0) for metric in metrics),
            }
            print(json.dumps(event), flush=True)
    return last


def _work(folder: Path) -> None:
    session = _session()
    queries = [
        _start(session, folder, AIRCRAFT, aircraft, "update"),
        _start(session, folder, FLEETS, fleets, "append"),
    ]
    last = [-1 for _ in queries]
    while any(query.isActive for query in queries):
        time.sleep(_LOOK_S)
        last = [_say(query, batch) for query, batch in zip(queries, last, strict=True)]
    for query, batch in zip(queries, last, strict=True):
        query.awaitTermination()  # raises what it died of
        _say(query, batch)
    session.stop()


if __name__ == "__main__":
    _work(Path(sys.argv[1]))
