"""A Spark driver whose query writes to a queue: `queue_job ORDER`, one JSON object.

`folder`; `rounds`: faults to plan one after the other, each with a batch or more of new input, the
query started again after each failure; `seed`; `then`: "stop", or "run" to go on with new input
until the process is killed. Says what it did on stdout, one JSON object a line.
"""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cec_store.connectors import spark as cec_spark

ROWS_PER_FILE = 200
CALLS = {"write": 2, "commit": 12}
"""Of a process in a round, about: a task has one object, a committer first looks at the queue."""
MASTER = "local[2,4]"
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.files.maxPartitionBytes": "2000",  # a task for each file
    "spark.sql.files.openCostInBytes": "2000",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


def builder_with(conf: dict[str, str]) -> SparkSession.Builder:
    builder = SparkSession.builder.master(MASTER)
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


class Job:
    def __init__(self, order: dict[str, Any]) -> None:
        self.folder = Path(order["folder"])
        self.random = random.Random(order["seed"])
        self.input = self.folder / "in"
        self.input.mkdir(exist_ok=True)
        self.spark = self.session(order)
        self.spark.sparkContext.setLogLevel("OFF")

    def session(self, order: dict[str, Any]) -> SparkSession:
        # A Spark before 4.2 lacks what it needs; jobs that build on this one do without.
        from support.stores.dying_sink import DyingSource

        spark = builder_with(CONF).getOrCreate()
        cec_spark.register(spark)
        spark.dataSource.register(DyingSource)
        return spark

    def add_files(self, count: int) -> None:
        for _ in range(count):
            number = len(list(self.input.glob("*.json")))
            lines = [json.dumps({"file": number, "row": row}) for row in range(ROWS_PER_FILE)]
            unfinished = self.folder / "unfinished"
            unfinished.write_text("\n".join(lines))
            unfinished.rename(self.input / f"{number:05}.json")

    def start(self) -> Any:
        rows = self.spark.readStream.schema("file INT, row INT").option("maxFilesPerTrigger", 2)
        writer = rows.json(str(self.input)).writeStream.format("dying")
        writer = writer.option("plan", str(self.folder / "plan"))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        return writer.start(str(self.folder / "queue"))

    def finish(self) -> int:
        """Take all the input there is; returns how often the query had to be started again."""
        restarts = 0
        while True:
            query = self.start()
            try:
                query.processAllAvailable()
                query.stop()
                return restarts
            except Exception:
                restarts += 1
                query.stop()
                if restarts > 10:
                    raise

    def fault(self) -> None:
        phase = self.random.choice(["write", "commit"])
        plan = {
            "phase": phase,
            "at": self.random.randrange(CALLS[phase]),
            "how": self.random.choice(["raise", "lost", "kill", "kill after"]),
            "token": self.random.random(),
        }
        path = self.folder / "plan"
        path.write_text(json.dumps(plan))
        self.add_files(2)
        restarts = self.finish()
        struck = not path.exists()
        path.unlink(missing_ok=True)
        say(**plan, restarts=restarts, struck=struck)

    def run(self, order: dict[str, Any]) -> None:
        for _ in range(order["rounds"]):
            self.fault()
        while order["then"] == "run":
            self.add_files(2)
            self.finish()
            say(files=len(list(self.input.glob("*.json"))))
            time.sleep(self.random.random() * 0.1)
        self.finish()
        say(done=True)


def main(job: type[Job]) -> None:
    order = json.loads(sys.argv[1])
    job(order).run(order)


if __name__ == "__main__":
    main(Job)
