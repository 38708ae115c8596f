#!/usr/bin/env bash
# Spark 4.3.0 streaming: rows whose event time is null. A guess: a left outer join and a count by the time give what they give for the
# same rows in a batch, as they do for a key that is null; or such rows are dropped, and counted as dropped.
#
# Seen: the join never emits the row of the left side, nor the count its group: what is null is never below the watermark. Both stay in
# the state for ever, and `numRowsDroppedByWatermark` is 0. `dropDuplicates` emits the row, and keeps it in its state for ever too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyspark==4.3.0
"$folder/venv/bin/python" - <<'PYTHON'
import json
import os
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.session.timeZone", "UTC").config("spark.log.level", "OFF").getOrCreate()
)
later = [f"2020-01-01T00:0{minute}:59" for minute in range(4)]
lefts = [[("b", "2020-01-01T00:00:00"), (None, "2020-01-01T00:00:00"), ("n", None)], *[[("z", time)] for time in later]]
rights = [[("y", time)] for time in later]


def written(name, batches):
    os.mkdir(name)
    for number, rows in enumerate(batches):
        path = f"{name}/{number}.json"
        with open(path, "w") as file:
            file.writelines(json.dumps({"key": key, "t": time}) + "\n" for key, time in rows)
        os.utime(path, (1_600_000_000 + number,) * 2)


def stream(name, key, time):
    rows = session.readStream.schema("key STRING, t TIMESTAMP").option("maxFilesPerTrigger", 1).json(name)
    return rows.toDF(key, time).withWatermark(time, "10 seconds")


def run(name, rows):
    sink = rows.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    query = sink.option("checkpointLocation", f"checkpoint-{name}").start()
    query.awaitTermination()
    (operator,) = query.lastProgress["stateOperators"]
    return {str(row[0]) for row in session.table(name).collect()}, operator.numRowsTotal, operator.numRowsDroppedByWatermark


written("left", lefts)
written("right", rights)
condition = expr("k = other AND u BETWEEN t AND t + INTERVAL 5 SECONDS")
left, right = session.read.schema("key STRING, t TIMESTAMP").json("left").toDF("k", "t"), session.read.json("right").toDF("other", "u")
in_batch = {str(row[0]) for row in left.join(right, condition, "leftOuter").collect()}
joined = run("joined", stream("left", "k", "t").join(stream("right", "other", "u"), condition, "leftOuter"))
counted = run("counted", stream("left", "k", "t").groupBy("t").count())
distinct = run("distinct", stream("left", "k", "t").dropDuplicates(["t"]).select("t"))
session.stop()
print(pyspark.__version__, in_batch, joined, counted, distinct, sep="\n")
assert in_batch == {"b", "None", "n", "z"}
assert joined[0] == {"b", "None", "z"} and joined[2] == 0
times = {"2020-01-01 00:00:00", *(time.replace("T", " ") for time in later[:3])}
assert counted == (times, 2, 0)
assert len(distinct[0]) == 6 and distinct[1:] == (2, 0)
PYTHON
