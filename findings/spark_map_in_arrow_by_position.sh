#!/usr/bin/env bash
# Spark 4.3.0: `mapInArrow(function, "a BIGINT, b BIGINT")`, where the function yields batches with columns b and a, in that order. A guess:
# columns are found by name, as in `mapInPandas` and in `applyInArrow`, or the batch is refused.
#
# Seen: they are taken by position, whatever their names, so a and b are exchanged without an error; a column of another name is taken
# too. A batch that `pyarrow.compute` or a join made, with its columns in another order, is enough.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyspark==4.3.0 pandas==2.3.3 pyarrow==26.0.1
export PYSPARK_PYTHON="$folder/venv/bin/python"
"$folder/venv/bin/python" - <<'PYTHON'
import pyspark
from pyspark.sql import SparkSession

session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.shuffle.partitions", "1").config("spark.log.level", "OFF").getOrCreate()
)
rows = session.createDataFrame([(1, 2)], "a BIGINT, b BIGINT")
seen = {
    "mapInArrow": rows.mapInArrow(lambda batches: (batch.select(["b", "a"]) for batch in batches), rows.schema),
    "other names": rows.mapInArrow(lambda batches: (batch.rename_columns(["x", "y"]) for batch in batches), rows.schema),
    "mapInPandas": rows.mapInPandas(lambda frames: (frame[["b", "a"]] for frame in frames), rows.schema),
    "applyInArrow": rows.groupBy("a").applyInArrow(lambda table: table.select(["b", "a"]), rows.schema),
}
seen = {name: tuple(frame.collect()[0]) for name, frame in seen.items()}
session.stop()
print(pyspark.__version__, seen)
assert seen == {"mapInArrow": (2, 1), "other names": (1, 2), "mapInPandas": (1, 2), "applyInArrow": (1, 2)}
PYTHON
