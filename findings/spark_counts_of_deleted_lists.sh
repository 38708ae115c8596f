#!/usr/bin/env bash
# Spark 4.3.0: a list state of `transformWithState` is taken away by `deleteIfExists`, and a later run of the query declares one of that
# name again. A guess: it begins anew, in what it says as in what it has.
#
# Seen: it is empty, but the count that Spark keeps of each key's values, in a column family of its own, is still that of the old list.
# New values are added to it, and `clear` reports as many rows removed: five where the list had two. Then both agree again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    pyspark==4.3.0 pandas==3.1.1 pyarrow==26.0.1 protobuf==6.33.6
export PYSPARK_PYTHON="$folder/venv/bin/python"
"$folder/venv/bin/python" - <<'PYTHON'
import pyspark
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.streaming.stateStore.providerClass", provider).config("spark.log.level", "OFF").getOrCreate()
)


class Lists(StatefulProcessor):
    def __init__(self, does):
        self.does = does

    def init(self, handle):
        self.other = handle.getValueState("other", "n INT")
        if self.does == "delete":
            handle.deleteIfExists("list")
        else:
            self.list = handle.getListState("list", "id BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        values = [(row.id,) for row in rows]
        if self.does == "delete":
            return
        for value in values:
            self.list.appendValue(value)
        size = len(list(self.list.get()))
        if self.does == "clear":
            self.list.clear()
        yield Row(size=size)

    def close(self):
        pass


def run(does, count):
    """Sizes that the list had, and how many rows Spark says were removed."""
    session.range(0, count, 1, 1).write.mode("append").parquet("rows")
    rows = session.readStream.schema("id BIGINT").parquet("rows").selectExpr("id", "'a' AS name")
    stored = rows.groupBy("name").transformWithState(Lists(does), "size INT", "update", "none")
    sizes = []
    sink = stored.writeStream.outputMode("update").trigger(availableNow=True).option("checkpointLocation", "checkpoint")
    query = sink.foreachBatch(lambda batch, number: sizes.extend(row.size for row in batch.collect())).start()
    query.awaitTermination()
    return sizes, query.lastProgress.stateOperators[0].numRowsRemoved


seen = {
    "three values": run("append", 3), "taken away": run("delete", 1), "declared again": run("append", 1),
    "cleared": run("clear", 1), "and once more": (run("append", 1), run("clear", 1)),
}
session.stop()
print(pyspark.__version__, seen)
assert seen == {
    "three values": ([3], 0), "taken away": ([], 0), "declared again": ([1], 0),
    "cleared": ([2], 5), "and once more": (([1], 0), ([2], 2)),
}
PYTHON
