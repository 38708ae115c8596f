#!/usr/bin/env bash
# Spark 4.3.0 streaming: `numInputRows` of a batch's progress, documented as the rows that were processed in a trigger. A guess: it is the
# number of rows between the batch's offsets, so that its sum is the number of rows that the source had.
#
# Seen: it counts what tasks read. With two actions in `foreachBatch`, or a union of the stream with itself, each row counts twice; with no
# action it is 0, and with `limit(1)` 1, while the offsets move over all rows. Rates and alarms made of it are off likewise.
# `observe` counts each row once with two actions, and also 0 with none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cd "$folder"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyspark==4.3.0
"$folder/venv/bin/python" - <<'PYTHON'
import json
import os
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.functions import count

session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    .config("spark.log.level", "OFF").getOrCreate()
)
os.mkdir("in")
for number in range(2):
    with open(f"in/{number}.json", "w") as file:
        file.writelines(json.dumps({"k": key}) + "\n" for key in range(3))


def stream():
    return session.readStream.schema("k INT").option("maxFilesPerTrigger", 1).json("in")


def progress(writer, name):
    query = writer.option("checkpointLocation", f"checkpoint-{name}").trigger(availableNow=True).start()
    query.awaitTermination()
    return [(batch.numInputRows, *(row[0] for row in batch.observedMetrics.values())) for batch in query.recentProgress]


def in_each_batch(actions):
    def run(rows, batch_id):
        for _ in range(actions):
            rows.collect()
    return stream().observe("seen", count("*").alias("rows")).writeStream.foreachBatch(run)


def to_memory(rows, name):
    return rows.writeStream.format("memory").queryName(name)


seen = {f"{actions} actions": progress(in_each_batch(actions), actions) for actions in range(3)}
seen["union"] = progress(to_memory(stream().union(stream()), "union"), "union")
seen["itself"] = progress(to_memory((rows := stream()).union(rows), "itself"), "itself")
seen["limit"] = progress(to_memory(stream().limit(1), "limit"), "limit")
limited = session.table("limit").count()
session.stop()
print(pyspark.__version__, seen, limited)
assert seen["0 actions"] == [(0, 0)] * 2
assert seen["1 actions"] == [(3, 3)] * 2
assert seen["2 actions"] == [(6, 3)] * 2
assert seen["itself"] == [(6,)] * 2
assert seen["limit"] == [(1,)] * 2 and limited == 1
PYTHON
