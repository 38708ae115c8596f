"""Two stateful queries and two queues: what the first counts, the second ranks."""

import tempfile

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cec_store import read_queue
from cec_store.connectors import spark as cec


def run(rows: DataFrame, name: str, folder: str) -> None:
    # Rows that have changed are appended; each batch once, however often Spark runs it.
    writer = rows.writeStream.format("cec").outputMode("update")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint-{name}")
    writer.trigger(availableNow=True).start(f"{folder}/{name}").awaitTermination()


def main() -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    session = cec.configure(builder, recovery_time_s=2).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    cec.register(session)
    with tempfile.TemporaryDirectory() as folder:
        for day in range(3):  # each of the queries can be killed and goes on where it was
            bids = session.range(1000 * day, 1000 * (day + 1))
            bids = bids.select((f.col("id") % 50).alias("item"), f.col("id").alias("price"))
            bids.write.mode("append").parquet(f"{folder}/bids")

            incoming = session.readStream.schema(bids.schema).parquet(f"{folder}/bids")
            totals = incoming.groupBy("item").agg(f.sum("price").alias("total"))
            run(totals, "totals", folder)

            totals = session.readStream.format("cec").option("startingOffsets", "earliest")
            highest = totals.load(f"{folder}/totals").groupBy().agg(f.max("total").alias("total"))
            run(highest, "highest", folder)
        history = read_queue(f"{folder}/highest").read_all()
    print("highest total, day by day:", history.column("total").to_pylist())
    session.stop()


if __name__ == "__main__":
    main()
