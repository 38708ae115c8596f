"""A query writes to a queue; a new aggregation reads it again from the middle."""

import tempfile
from datetime import datetime, timezone

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cec_store.connectors import spark as cec

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def main() -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    session = cec.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    cec.register(session)
    with tempfile.TemporaryDirectory() as folder:
        # One order a second, from an hour before noon on.
        start = NOON.timestamp() - 3600
        orders = session.range(7200).select(
            (f.col("id") % 5).alias("customer"),
            f.timestamp_seconds(f.lit(start) + f.col("id")).alias("at"),
        )
        write = orders.write.format("cec").option("timestampColumn", "at").mode("append")
        write.save(f"{folder}/orders")

        since_noon = (
            session.readStream.format("cec")
            .option("startingTimestamp", str(int(NOON.timestamp() * 1000)))
            # A partition may have no row that late; without this it is an error, as with Kafka.
            .option("startingOffsetsByTimestampStrategy", "latest")
            .load(f"{folder}/orders")
            .groupBy("customer")
            .count()
        )
        query = (
            since_noon.writeStream.format("memory")
            .queryName("counts")
            .outputMode("complete")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = session.table("counts").orderBy("customer").collect()
    print("orders since noon:", {row.customer: row["count"] for row in rows})
    session.stop()


if __name__ == "__main__":
    main()
