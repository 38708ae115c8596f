#!/usr/bin/env bash
# Spark 4.3.0: `update` of a state in `transformWithStateInPandas`, with values of another Python type than the state's schema names. A
# guess: they are converted where nothing is lost, 0 to 0.0, as a frame that the function yields is; or the update raises.
#
# Seen: neither. An int in a DOUBLE, a float in an INT or BIGINT and a Decimal in a DOUBLE are stored as null; an int beyond 32 bits
# wraps in an INT. Nothing raises, and `exists()` is true. A sum that begins with 0 and not 0.0 reads null from its own state.
# Value, list and map states are alike; a Row made by names is stored by position.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    pyspark==4.3.0 pandas==3.1.1 pyarrow==26.0.1 protobuf==6.33.6
export PYSPARK_PYTHON="$folder/venv/bin/python"
"$folder/venv/bin/python" - <<'PYTHON'
import ast
import decimal
import pandas
import pyspark
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.streaming.stateStore.providerClass", provider).config("spark.log.level", "OFF").getOrCreate()
)


class Values(StatefulProcessor):
    def init(self, handle):
        self.value = handle.getValueState("value", "x DOUBLE, n INT, b BIGINT")
        self.list = handle.getListState("list", "x DOUBLE")
        self.map = handle.getMapState("map", "k STRING", "x DOUBLE")

    def back(self, value):
        self.value.update(value)
        return tuple(self.value.get())

    def handleInputRows(self, key, rows, timerValues):
        for _ in rows:
            pass
        seen = {
            "as declared": self.back((0.0, 1, 1)),
            "other types": self.back((0, 1.0, 1.0)),
            "exists": self.value.exists(),
            "Decimal": self.back((decimal.Decimal("1.5"), 1, 1))[0],
            "2^31": self.back((0.0, 2**31, 1))[1],
            "Row": self.back(Row(n=1, b=2, x=0.5)),
        }
        self.list.put([(1.5,), (2,)])
        seen["list"] = [row[0] for row in self.list.get()]
        self.map.updateValue(("k",), (1,))
        seen["map"] = self.map.getValue(("k",))[0]
        yield pandas.DataFrame({"seen": [repr(seen)]})

    def close(self):
        pass


session.range(1).write.parquet("rows")
rows = session.readStream.schema("id BIGINT").parquet("rows")
stored = rows.groupBy("id").transformWithStateInPandas(Values(), "seen STRING", "append", "none")
sink = stored.writeStream.format("memory").queryName("stored").trigger(availableNow=True)
sink.option("checkpointLocation", "checkpoint").start().awaitTermination()
(row,) = session.table("stored").collect()
session.stop()
seen = ast.literal_eval(row.seen)
print(pyspark.__version__, seen)
assert seen == {
    "as declared": (0.0, 1, 1), "other types": (None, None, None), "exists": True, "Decimal": None, "2^31": -(2**31),
    "Row": (None, 2, None), "list": [1.5, None], "map": None,
}
PYTHON
