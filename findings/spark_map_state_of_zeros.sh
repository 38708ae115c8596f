#!/usr/bin/env bash
# Spark 4.3.0: the keys of a MapState in `transformWithStateInPandas`. A guess: keys that are equal to Spark are one entry; `groupBy` and
# joins take 0.0 and -0.0 for one, as a dict of Python does.
#
# Seen: they are two entries, and a value stored under one is not found under the other, so state by key depends on the sign of a zero,
# which `groupBy` takes away. NaN, which equals itself in Spark, is one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    pyspark==4.3.0 pandas==3.1.1 pyarrow==26.0.1 protobuf==6.33.6
export PYSPARK_PYTHON="$folder/venv/bin/python"
"$folder/venv/bin/python" - <<'PYTHON'
import pandas
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor

provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.streaming.stateStore.providerClass", provider).config("spark.log.level", "OFF").getOrCreate()
)


class Counts(StatefulProcessor):
    def init(self, handle):
        self.counts = handle.getMapState("counts", "x DOUBLE", "n BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        for frame in rows:
            for x in frame["x"]:
                before = self.counts.getValue((x,))[0] if self.counts.containsKey((x,)) else 0
                self.counts.updateValue((x,), (before + 1,))
        seen = sorted((repr(float(x)), n) for (x,), (n,) in self.counts.iterator())
        yield pandas.DataFrame({"seen": [str(seen)]})

    def close(self):
        pass


values = [0.0, -0.0, 0.0, float("nan"), float("nan")]
batch = session.createDataFrame([(x,) for x in values], "x DOUBLE")
groups = sorted((repr(row[0]), row[1]) for row in batch.groupBy("x").count().collect())
batch.write.parquet("rows")
rows = session.readStream.schema("x DOUBLE").parquet("rows").selectExpr("1 AS one", "x")
counted = rows.groupBy("one").transformWithStateInPandas(Counts(), "seen STRING", "append", "none")
sink = counted.writeStream.format("memory").queryName("counted").trigger(availableNow=True)
sink.option("checkpointLocation", "checkpoint").start().awaitTermination()
(row,) = session.table("counted").collect()
session.stop()
print(pyspark.__version__, groups, row.seen, sep="\n")
assert groups == [("0.0", 3), ("nan", 2)]
assert row.seen == "[('-0.0', 1), ('0.0', 2), ('nan', 2)]"
PYTHON
