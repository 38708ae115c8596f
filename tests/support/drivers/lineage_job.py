"""Run by connectors/progress/test_lineage.py: a job over queues whose lineage a listener writes.

Arguments: a folder, the listener's jar.
"""

import sys
from typing import Any

from pyspark.sql import SparkSession

from cec_store.connectors import spark as cec_spark

CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
    "spark.openlineage.transport.type": "file",
}


def main(folder: str, listener: str) -> None:
    builder: Any = SparkSession.builder.master("local[1]")
    jars = f"{cec_spark.jar()},{listener}"
    events = {"spark.openlineage.transport.location": f"{folder}/events", "spark.jars": jars}
    warehouse = {"spark.sql.warehouse.dir": f"{folder}/warehouse"}
    for name, value in {**CONF, **events, **warehouse}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.range(9).write.parquet(f"{folder}/in")
    session.read.parquet(f"{folder}/in").write.format("cec").mode("append").save(f"{folder}/q")
    session.sql(f"CREATE TABLE t USING cec LOCATION '{folder}/q'")
    session.table("t").selectExpr("id + 1 AS next").write.parquet(f"{folder}/out")
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
