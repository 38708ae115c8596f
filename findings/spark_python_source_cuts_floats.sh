#!/usr/bin/env bash
# Spark 4.3.0: a data source in Python whose `read` yields rows with values of other types than its schema has. A guess: each of them
# raises, as 2^31, True and "12" do for an INT.
#
# Seen: a float in an INT is cut (1.9 is 1, -1.9 is -1), a double beyond a FLOAT is infinity, a time of day in a DATE is dropped, bytes
# in a STRING are their Python text, b'x', and a Decimal is rounded to the scale. Whether a load fails depends on its rows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyspark==4.3.0 pandas==2.3.3 pyarrow==26.0.1
export PYSPARK_PYTHON="$folder/venv/bin/python"
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import decimal
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

session = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    .config("spark.log.level", "OFF").getOrCreate()
)


class Values(DataSource):
    @classmethod
    def name(cls):
        return "values"

    def schema(self):
        return "c " + self.options["type"]

    def reader(self, schema):
        return Reader(self.options["values"])


class Reader(DataSourceReader):
    def __init__(self, values):
        self.values = values

    def read(self, partition):
        for value in eval(self.values, {"datetime": datetime, "Decimal": decimal.Decimal}):
            yield (value,)


def load(kind, values):
    rows = session.read.format("values").option("type", kind).option("values", values).load()
    try:
        return [row[0] for row in rows.collect()]
    except Exception as error:
        return type(error).__name__


session.dataSource.register(Values)
seen = {
    kind: load(kind, values)
    for kind, values in {
        "INT": "[1.9, -1.9]", "FLOAT": "[1e300]", "DATE": "[datetime.datetime(2020, 1, 1, 23)]", "STRING": "[b'x']",
        "DECIMAL(5, 2)": "[Decimal('1.555')]",
    }.items()
}
refused = [load("INT", value) for value in ("[2**31]", "[True]", "['12']")]
session.stop()
print(pyspark.__version__, seen, refused)
assert seen == {
    "INT": [1, -1], "FLOAT": [float("inf")], "DATE": [datetime.date(2020, 1, 1)], "STRING": ["b'x'"],
    "DECIMAL(5, 2)": [decimal.Decimal("1.56")],
}
assert refused == ["PythonException"] * 3
PYTHON
