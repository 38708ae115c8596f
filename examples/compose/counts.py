"""Counts of orders by window: state in cec-store, output in a queue, figures for Prometheus."""

import argparse
import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cec_store.connectors import spark as cec


def session(queue: str) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    if queue.startswith("s3a:"):
        # Hadoop's client of S3, of the release of Hadoop that Spark 4.3 has. It takes the key from
        # AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
        builder = builder.config("spark.jars.packages", "org.apache.hadoop:hadoop-aws:3.5.0")
        endpoint = {
            "endpoint": os.environ["AWS_ENDPOINT_URL"],
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
        }
        for name, value in endpoint.items():
            builder = builder.config(f"spark.hadoop.fs.s3a.{name}", value)
    return cec.configure(builder, recovery_time_s=2).getOrCreate()


def counts(spark: SparkSession) -> DataFrame:
    orders = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    timed = orders.withColumn("item", f.col("value") % 50).withWatermark("timestamp", "10 seconds")
    return timed.groupBy(f.window("timestamp", "10 seconds"), "item").count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--host", default="127.0.0.1", help="address of /metrics")
    parser.add_argument("--port", type=int, default=9108, help="its port")
    asked = parser.parse_args()
    spark = session(asked.queue)
    spark.sparkContext.setLogLevel("WARN")
    cec.prometheus(spark, asked.port, asked.host)
    rows = counts(spark).select("window.start", "window.end", "item", "count")
    writer = rows.writeStream.queryName("counts").format("cec").outputMode("append")
    writer = writer.option("checkpointLocation", asked.checkpoint)
    writer.trigger(processingTime="2 seconds").start(asked.queue).awaitTermination()


if __name__ == "__main__":
    main()
