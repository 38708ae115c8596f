#!/usr/bin/env bash
# Spark 4.3.0, Hadoop 3.5's client: a streaming query of one count with a file source, in local mode, without any setting of Hadoop's. A
# guess: what a batch sends is its plan and its tasks; settings that nobody has made are at executors already.
#
# Seen: each batch broadcasts all of Hadoop's settings anew, once for its source and twice for its one stateful operator (that which
# restores the state and that which saves it): 1,100 settings, 111 kB, 41 kB compressed, of which 721 are defaults of YARN and MapReduce.
# Hadoop writes for each of them which file it comes from, each of these texts in a zlib stream of its own: six milliseconds a time, which
# is 18 of a batch whose work takes none. With the defaults of YARN and MapReduce unset, a third of it: 13 kB, two milliseconds. Whatever
# the state store, small batches pay for it; a query with ten stateful operators pays twenty times.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyspark==4.3.0
FOLDER="$folder" "$folder/venv/bin/python" - <<'PYTHON'
import json
import os
import time
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

folder = Path(os.environ["FOLDER"])
BATCHES = 4
for part in ("in", "events"):
    (folder / part).mkdir()
for number in range(BATCHES):
    (folder / "in" / f"{number}.json").write_text("".join(json.dumps({"key": key}) + "\n" for key in range(5)))
session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    .config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", (folder / "events").as_uri())
    .config("spark.eventLog.logBlockUpdates.enabled", "true").config("spark.eventLog.compress", "false")
    .config("spark.eventLog.rolling.enabled", "false").config("spark.log.level", "OFF").getOrCreate()
)
hadoop = session.sparkContext._jsc.hadoopConfiguration()
entries, names = hadoop.iterator(), set()
while entries.hasNext():
    names.add(entries.next().getKey())
unused = {name for name in names if name.startswith(("yarn.", "mapreduce."))}


def run(name):
    """A query of so many batches; returns the sizes of what it has broadcast."""
    before = sent()
    rows = session.readStream.schema("key LONG").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    query = rows.groupBy("key").count().writeStream.outputMode("update").format("noop").trigger(availableNow=True)
    query = query.option("checkpointLocation", str(folder / name)).start()
    query.awaitTermination()
    assert len([batch for batch in query.recentProgress if batch["numInputRows"]]) == BATCHES
    time.sleep(3)  # the event log is written behind
    return sorted(size for block, size in sent().items() if block not in before)


def sent():
    [log] = (folder / "events").iterdir()
    sizes = {}
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] != "SparkListenerBlockUpdated":
            continue
        info = event["Block Updated Info"]
        if info["Block ID"].startswith("broadcast_") and info["Storage Level"]["Use Memory"]:
            sizes[info["Block ID"]] = info["Memory Size"]
    return {block: size for block, size in sizes.items() if block.endswith("piece0")}


def serialized():
    """Milliseconds and bytes, once the JVM is warm."""
    jvm = session._jvm
    settings = jvm.org.apache.spark.util.SerializableConfiguration(hadoop)
    serializer = jvm.org.apache.spark.serializer.JavaSerializer(session.sparkContext._jsc.sc().conf()).newInstance()
    tag = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").apply(settings.getClass())
    took = []
    for _ in range(60):
        began = time.perf_counter()
        size = serializer.serialize(settings, tag).limit()
        took.append(time.perf_counter() - began)
    return round(1e3 * sorted(took[20:])[20], 1), size


all_ms, all_bytes = serialized()
with_all = [size for size in run("all") if size > 35_000]
for name in unused:
    hadoop.unset(name)
few_ms, few_bytes = serialized()
with_few = [size for size in run("few") if 11_000 < size < 14_500]
session.stop()
print(f"Spark {pyspark.__version__}: {len(names)} settings, {all_bytes} bytes in {all_ms} ms; {len(with_all)} broadcasts of {with_all[0]} bytes")
print(f"in {BATCHES} batches; without {len(unused)} of YARN and MapReduce {few_bytes} bytes in {few_ms} ms, {len(with_few)} of {with_few[0]}")
assert len(with_all) == len(with_few) == 3 * BATCHES
assert all_bytes > 2.5 * few_bytes and all_ms > 2 * few_ms
PYTHON
