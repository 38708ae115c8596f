"""Run by connectors/queues/test_sql.py: a client of Spark Connect and its server, over queues.

Arguments: a folder; `jar` where the server has our jar, `none` where it has not.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cec_store.connectors import spark as cec_spark

CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


def condition_of(act: Callable[[], object]) -> str | None:
    """Return the condition of the error that it raises."""
    try:
        act()
    except PySparkException as error:
        return error.getCondition()
    return None


def main(folder: str, server: str) -> None:
    builder: Any = SparkSession.builder.remote("local[2]")
    for name, value in {**CONF, "spark.sql.warehouse.dir": f"{folder}/warehouse"}.items():
        builder = builder.config(name, value)
    if server == "jar":
        builder = builder.config("spark.jars", str(cec_spark.jar()))
    session = builder.getOrCreate()
    cec_spark.register(session)
    queue = f"{folder}/q"
    session.range(0, 100, 1, 2).write.format("cec").mode("append").save(queue)
    found = {"rows": session.read.format("cec").load(queue).count()}
    found["python"] = session.read.format("cec_python").load(queue).count()
    if server == "jar":
        session.sql(f"CREATE TABLE t USING cec LOCATION '{queue}'")
        session.sql("INSERT INTO t SELECT id FROM range(100, 150)")
        found["table"] = session.table("t").count()
        missing = session.read.format("cec").load(f"{folder}/none")
        write = session.range(1).toDF("m").write.format("cec").mode("append")
        unknown = session.read.format("cec").option("from", "1").load(queue)
        found["conditions"] = [
            condition_of(lambda: missing.schema),
            condition_of(lambda: write.save(queue)),
            condition_of(lambda: unknown.schema),
        ]
    stream = session.readStream.format("cec").option("startingOffsets", "earliest").load(queue)
    writer = stream.writeStream.format("cec").option("checkpointLocation", f"{folder}/c")
    query = writer.trigger(availableNow=True).start(f"{folder}/copy")
    query.awaitTermination(120)
    found["copied"] = session.read.format("cec").load(f"{folder}/copy").count()
    print(json.dumps({"kind": type(session).__module__, **found}))
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
