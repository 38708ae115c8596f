"""Run by connectors/setup/test_configure.py: `configure` where a JVM runs already, then one query.

Arguments: `stopped` or `active` (how an earlier session of this process was left), `registered` (it
is active and has queues), or `submitted`.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cec_store.connectors import spark as cec_spark


def builder() -> Any:
    made = SparkSession.Builder().master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
    }.items():
        made = made.config(name, value)
    return made


def write_and_read(session: Any) -> None:
    cec_spark.register(session)
    with tempfile.TemporaryDirectory() as folder:
        session.range(5).write.format("cec").mode("append").save(f"{folder}/q")
        rows = session.read.format("cec").load(f"{folder}/q")
        assert rows.count() == 5
        plan = rows._jdf.queryExecution().executedPlan().toString()
        assert "BatchScan cec" in plan, plan


def main(earlier: str) -> None:
    if earlier != "submitted":
        session = builder().getOrCreate()
        assert session.range(3).count() == 3
        if earlier == "registered":
            write_and_read(session)
        if earlier == "stopped":
            session.stop()
    session = cec_spark.configure(builder(), extent_factor=3).getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "in")
        rows.mkdir()
        (rows / "a.txt").write_text("a\nb\na\n", encoding="utf-8")
        counts = session.readStream.text(str(rows)).groupBy("value").count().writeStream
        query = (
            counts.format("noop").outputMode("update").option("checkpointLocation", f"{folder}/ck")
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        metrics = query.recentProgress[0]["stateOperators"][0]["customMetrics"]
        segments = len(list(Path(folder, "ck").rglob("*.seg")))
    session.stop()
    print(json.dumps({"windows": metrics.get("cecOpenWindows"), "segments": segments}))


if __name__ == "__main__":
    main(sys.argv[1])
