"""As `queue_job`, with the sink in the JVM: the queue is in an object store that fails as planned.

`order["queue"]` is its URL: by default one of `planned:` (`PlannedObjects`, in front of local
files); `order["conf"]` are settings that Spark needs for it. What fails elsewhere is planned by
whoever started this.
"""

from typing import Any

from pyspark.sql import SparkSession

from cec_store.connectors import spark as cec_spark
from support.drivers.queue_job import CONF, Job, builder_with, main, say
from support.spark.session import groups_jar

JVM = "cec"
CALLS = {"create": 7, "read": 4, "list": 3, "delete": 3}
"""Of each kind, how many a round of faults may let pass before one strikes."""


class JvmJob(Job):
    def session(self, order: dict[str, Any]) -> SparkSession:
        self.queue = order.get("queue", f"planned://{self.folder}/queue")
        conf = dict(order.get("conf", {}))
        named = {
            **CONF,
            **conf,
            "spark.jars": ",".join(filter(None, [str(groups_jar()), conf.get("spark.jars")])),
            "spark.hadoop.fs.planned.impl": "cecstore.tests.PlannedObjects",
            "spark.hadoop.fs.planned.plan": str(self.folder / "plan"),
        }
        return cec_spark.configure(builder_with(named)).getOrCreate()

    def start(self) -> Any:
        rows = self.spark.readStream.schema("file INT, row INT").option("maxFilesPerTrigger", 2)
        writer = rows.json(str(self.input)).writeStream.format(JVM).option("segmentBytes", 4096)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        return writer.start(self.queue)

    def fault(self) -> None:
        if not self.queue.startswith("planned:"):
            self.add_files(2)
            say(restarts=self.finish())
            return
        call = self.random.choice(["create"] * 4 + ["read", "list", "delete"])
        plan = {
            "call": call,
            "at": self.random.randrange(CALLS[call]),
            "how": self.random.choice(["raise", "lost", "raise", "lost", "kill", "kill-after"]),
        }
        path = self.folder / "plan"
        path.write_text(f"{plan['call']} {plan['at']} {plan['how']} {self.random.random()}")
        self.add_files(2)
        restarts = self.finish()
        struck = not path.exists()
        path.unlink(missing_ok=True)
        say(**plan, restarts=restarts, struck=struck)


if __name__ == "__main__":
    main(JvmJob)
