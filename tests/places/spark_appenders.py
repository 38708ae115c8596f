"""A Spark driver whose threads append to one queue at once: `spark_appenders ORDER`, as JSON.

`url` of the queue, `conf` that Spark needs for it, `cache`: a folder for what it learns of the
server, `first`: the number of the first appender, `threads` and `turns`. Each turn appends one row.
Prints one JSON object: `acknowledged` rows, `errors`, and `refused`, the text where the first row
was refused because the store is no good.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession

from cec_store.connectors import spark as cec_spark
from support.drivers.jvm_queue_job import JVM
from support.drivers.queue_job import CONF, builder_with, say


def append(spark: SparkSession, url: str, number: int) -> str:
    """What was refused; empty where it was written."""
    rows = spark.range(number, number + 1, 1, 1).toDF("n")
    try:
        rows.write.format(JVM).mode("append").save(url)
    except Exception as error:
        return str(error)[:2000]
    return ""


def main() -> None:
    order: dict[str, Any] = json.loads(sys.argv[1])
    url, turns, first = order["url"], order["turns"], order["first"] * order["turns"]
    builder = cec_spark.configure(builder_with({**CONF, **order["conf"]}))
    # From here on, so that the jar is taken from the user's cache: the server is proven anew.
    os.environ["XDG_CACHE_HOME"] = order["cache"]
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    acknowledged, errors = [], []
    refused = append(spark, url, first)
    if "let 8 of 8" in refused or "writers make one object" in refused:
        say(acknowledged=[], errors=[], refused=refused)
        return

    def tell(number: int, error: str) -> None:
        if error:
            errors.append(error)
        else:
            acknowledged.append(number)

    def take_turns(thread: int) -> None:
        for turn in range(turns):
            number = first + thread * turns + turn
            if number != first:
                tell(number, append(spark, url, number))

    tell(first, refused)
    with ThreadPoolExecutor(order["threads"]) as pool:
        list(pool.map(take_turns, range(order["threads"])))
    say(acknowledged=acknowledged, errors=errors, refused="")


if __name__ == "__main__":
    main()
