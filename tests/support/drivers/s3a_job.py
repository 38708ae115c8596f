"""A Spark driver that writes to a queue in S3 by `s3a://`: `s3a_job ORDER`, one JSON object.

`address` of the server, `jars` that Spark lacks, `folder` for checkpoints. Says on stdout what came
of each step, one JSON object a line.
"""

import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

from cec_store.connectors import spark as cec_spark
from support.drivers.jvm_queue_job import JVM
from support.drivers.queue_job import CONF, say

URL = "s3a://bucket/q"
PLAIN = "s3a://bucket/plain"
"""A queue without partitions, which Python has made there."""


def session(order: dict[str, Any]) -> SparkSession:
    conf = {
        **CONF,
        "spark.jars": ",".join(order["jars"]),
        "spark.hadoop.fs.s3a.endpoint": order["address"],
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.bucket.probe": "2",
        "spark.hadoop.fs.s3a.attempt.maximum": "3",
        "spark.hadoop.fs.s3a.access.key": "id",
        "spark.hadoop.fs.s3a.secret.key": "secret",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    made: SparkSession = cec_spark.configure(builder).getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def append(spark: SparkSession, url: str, first: int, **options: object) -> str:
    """What was refused; empty where it was written."""
    rows = spark.range(first, first + 100, 1, 2).toDF("n")
    try:
        rows.write.format(JVM).options(**options).mode("append").save(url)
    except Exception as error:
        return str(error)[:2000]
    return ""


def main() -> None:
    order = json.loads(sys.argv[1])
    spark = session(order)
    for first in (0, 100):
        say(step="batch", refused=append(spark, URL, first))
    again = [append(spark, URL, 200, txnAppId="a", txnVersion=1) for _ in range(2)]
    say(step="twice", refused="".join(again))
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    query = (
        rows.selectExpr("value + 1000 as n").writeStream.format(JVM)
        .option("checkpointLocation", f"{order['folder']}/checkpoint").start(URL)
    )  # fmt: skip
    while len(query.recentProgress) < 5 and query.isActive:
        time.sleep(0.1)
    query.stop()
    say(step="stream", refused=str(query.exception() or ""))
    for url in (URL, PLAIN):
        say(step=url, refused="", count=spark.read.format(JVM).load(url).count())
    say(step="no bucket", refused=append(spark, "s3a://other/q", 0))
    say(done=True)


if __name__ == "__main__":
    main()
