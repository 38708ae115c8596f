"""Two stateful queries, the second on the queue of the first: `chain_job ORDER`.

The first drops duplicates of events, the second counts what is left by item; each keeps its state
in our logs and writes to a queue. `folder`, `seed`; `then`: "run" to take new input until the
process is killed, "stop" to take what there is and end.
"""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cec_store.connectors import spark as cec

CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
}
ITEMS = 13


def events_of(file: int) -> list[dict[str, int]]:
    """A third of each file's events was there before."""
    generator = random.Random(file)
    fresh = [{"event": 100 * file + n, "item": generator.randrange(ITEMS)} for n in range(100)]
    before = events_of(file - 1)[:50] if file % 2 else []
    return before + fresh


class Job:
    def __init__(self, order: dict[str, Any]) -> None:
        self.folder = Path(order["folder"])
        self.input = self.folder / "in"
        self.input.mkdir(exist_ok=True)
        builder = SparkSession.builder.master("local[2]")
        for name, value in CONF.items():
            builder = builder.config(name, value)
        self.spark = cec.configure(builder).getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        cec.register(self.spark)

    def add_file(self) -> int:
        number = len(list(self.input.glob("*.json")))
        unfinished = self.folder / "unfinished"
        unfinished.write_text("\n".join(map(json.dumps, events_of(number))))
        unfinished.rename(self.input / f"{number:05}.json")
        return number

    def append(self, rows: Any) -> Any:
        writer = rows.writeStream.format("cec").option("retention", "consumers")
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint-distinct"))
        return writer.start(str(self.folder / "distinct"))

    def update(self, rows: Any) -> Any:
        """By `foreachBatch`, as many a query has it."""

        def append(changed: Any, batch: int) -> None:
            writer = changed.write.format("cec").mode("append")
            writer = writer.option("txnAppId", "counts").option("txnVersion", batch)
            writer.save(str(self.folder / "counts"))

        writer = rows.writeStream.outputMode("update").foreachBatch(append)
        return writer.option("checkpointLocation", str(self.folder / "checkpoint-counts")).start()

    def start(self) -> list[Any]:
        events = self.spark.readStream.schema("event LONG, item INT").option(
            "maxFilesPerTrigger", 1
        )
        distinct = events.json(str(self.input)).dropDuplicates(["event"])
        first = self.append(distinct)
        while not (self.folder / "distinct" / "log").exists():
            first.processAllAvailable()
        source = self.spark.readStream.format("cec").option("startingOffsets", "earliest")
        source = source.option("consumer", "counts").option("maxOffsetsPerTrigger", 150)
        counts = (
            source.load(str(self.folder / "distinct"))
            .groupBy("item")
            .agg(f.count("*").alias("events"), f.sum("event").alias("total"))
        )
        return [first, self.update(counts)]


def main() -> None:
    order = json.loads(sys.argv[1])
    job = Job(order)
    if not list(job.input.glob("*.json")):
        job.add_file()
    queries = job.start()
    while order["then"] == "run":
        print(json.dumps({"file": job.add_file()}), flush=True)
        time.sleep(0.3)
    for _ in range(2):
        for query in queries:
            query.processAllAvailable()
    for query in queries:
        query.stop()
    print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main()
