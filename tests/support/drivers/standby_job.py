"""A Spark driver with a lease on its query's checkpoint: `standby_job ORDER`, one JSON object.

`folder`; `role`: "primary", "standby", "either", for one below `cec-store standby`, or "shadow", an
active standby; `checkpoint`, its name; `input`, the queue whose values it reads, if it does not
make them; `primary`, the name of the checkpoint that a shadow follows; `rows` a batch; `every_ms`;
`is_timed`, to count by windows of a second behind a watermark; `misses`, of signs of life;
`log_level`, of Spark; `place`, a URL, where the checkpoint and the queue are if not in `folder`,
and the `storage_options` that it needs. Says what it did on stdout, one JSON object a line, and
goes on until it is killed or its query fails.

Batch b brings the values [b × rows, (b + 1) × rows), however often it is begun, and one output row
for each key among them: how often the key came, the sum of its values, and b. All rows of a batch
have one time, a second after those of the batch before: by windows each batch counts anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cec_store.connectors import spark as cec_spark
from support.drivers.killed_job import CONF

KEYS = 1_009
START_MS = 1_700_000_000_000


def expected(rows: int, batches: int, is_timed: bool = False) -> pa.Table:
    """Computed without Spark: all output of so many batches, by batch and key."""
    n, total = np.zeros(KEYS, np.int64), np.zeros(KEYS, np.int64)
    tables = []
    for batch in range(batches):
        values = np.arange(batch * rows, (batch + 1) * rows)
        if is_timed:
            n[:], total[:] = 0, 0
        keys = values * 7919 % KEYS
        np.add.at(n, keys, 1)
        np.add.at(total, keys, values)
        k = np.unique(keys)
        tables.append(
            pa.table({"k": k, "n": n[k], "total": total[k], "batch": np.full(len(k), batch)})
        )
    return pa.concat_tables(tables)


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


class Job:
    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.folder = Path(order["folder"])
        place = order.get("place", order["folder"])
        self.checkpoint = f"{place}/{order.get('checkpoint', 'checkpoint')}"
        self.queue = f"{place}/queue"
        self.storage_options = order.get("storage_options")
        builder = SparkSession.builder.master("local[2]")
        for name, value in CONF.items():
            builder = builder.config(name, value)
        self.spark = cec_spark.configure(builder).getOrCreate()
        self.spark.sparkContext.setLogLevel(order.get("log_level", "OFF"))

    def start(self) -> Any:
        rows = self.order["rows"]
        source, keys = self.source(rows), [(f.col("value") * 7919 % KEYS).alias("k")]
        if self.order.get("is_timed"):
            source = source.withWatermark("timestamp", "10 seconds")
            keys.append(f.window("timestamp", "1 second"))
        counted = source.groupBy(*keys).agg(
            f.count("*").alias("n"),
            f.sum("value").alias("total"),
            f.max(f.expr(f"value div {rows}")).alias("batch"),
        )
        writer = counted.drop("window").writeStream.format("cec").outputMode("update")
        writer = writer.option("checkpointLocation", self.checkpoint)
        writer = writer.trigger(processingTime=f"{self.order['every_ms']} milliseconds")
        return writer.start(self.queue)

    def source(self, rows: int) -> Any:
        if "input" in self.order:
            source = self.spark.readStream.format("cec").option("maxOffsetsPerTrigger", rows)
            source = source.option("startingOffsets", "earliest")
            if "primary" in self.order:
                source = source.option("followCheckpoint", str(self.folder / self.order["primary"]))
            return source.load(self.order["input"])
        source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        source = source.option("startTimestamp", START_MS).option("advanceMillisPerBatch", 1000)
        return source.load()

    def run(self) -> None:
        misses = self.order["misses"]
        if self.order["role"] == "shadow":
            primary = str(self.folder / self.order["primary"])
            follower = cec_spark.follow(self.spark, primary, self.checkpoint, misses=misses)
            query = self.start()
            say(following=follower.lease.number)
            Thread(target=lambda: say(took_over=follower.wait()), daemon=True).start()
            self.await_end(query)
            return
        if self.order["role"] == "standby":
            found = cec_spark.standby(
                self.spark,
                self.checkpoint,
                self.start,
                on_warm=lambda: say(warm=True),
                misses=misses,
                storage_options=self.storage_options,
            )
            query, lease = found.started, found.lease
        else:
            lease = cec_spark.keep_alive(
                self.spark, self.checkpoint, misses=misses, storage_options=self.storage_options
            )
            query = self.start()
        say(started=lease.number)
        self.await_end(query)

    def await_end(self, query: Any) -> None:
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            say(failed=str(error))


if __name__ == "__main__":
    Job(json.loads(sys.argv[1])).run()
