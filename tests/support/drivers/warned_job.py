"""Run by connectors/provider/test_unmet_target.py: one batch, with a recovery time.

Arguments: a folder with `in/`, and the recovery time in seconds. The executor is a process of its
own, and logs to `executor.log` in the folder.
"""

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cec_store.connectors import spark as cec_spark

LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n
"""


def main(folder: Path, recovery_time_s: float) -> None:
    properties = folder / "log4j2.properties"
    properties.write_text(LOG4J.format(folder / "executor.log"), encoding="utf-8")
    builder: Any = SparkSession.Builder().master("local-cluster[1,1,1024]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "700m",
        "spark.executor.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{properties}",
    }.items():
        builder = builder.config(name, value)
    session = cec_spark.configure(builder, recovery_time_s=recovery_time_s).getOrCreate()
    counts = session.readStream.text(str(folder / "in")).groupBy("value").count()
    writer = counts.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
