#!/usr/bin/env bash
# Spark 4.3.0: `spark.sql.streaming.stateStore.coordinatorReportSnapshotUploadLag=false`, which turns a report off. A guess: the
# report is off and no more, or the session refuses the value.
#
# Seen: the query starts, and its first task with state fails, with the default store (HDFS) too, whose snapshots are never reported: since
# 4.2 `forceSnapshotUploadOnLag` is true and asks for the report. With both at false it runs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyspark==4.3.0
"$folder/venv/bin/python" - <<'PYTHON'
import os
import tempfile
import pyspark
from pyspark.sql import SparkSession

session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    .config("spark.log.level", "OFF").getOrCreate()
)
session.sparkContext.setLogLevel("OFF")
prefix = "spark.sql.streaming.stateStore"
folder = tempfile.mkdtemp()
with open(os.path.join(folder, "words.txt"), "w") as file:
    file.write("a\n")


def failure():
    words = session.readStream.text(folder).groupBy("value").count()
    writer = words.writeStream.outputMode("update").format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", tempfile.mkdtemp()).start()
    try:
        query.awaitTermination()
    except Exception as error:
        return str(error)
    return None


session.conf.set(f"{prefix}.coordinatorReportSnapshotUploadLag", "false")
failed = failure()
session.conf.set(f"{prefix}.forceSnapshotUploadOnLag", "false")
ran = failure()
session.stop()
print(pyspark.__version__, failed and failed[:200])
assert "Job aborted due to stage failure" in failed
assert ran is None
PYTHON
