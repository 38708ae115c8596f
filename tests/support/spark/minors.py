"""What the installed Spark has. Tests of what it cannot have are left out, by their files."""

from importlib.util import find_spec

from cec_store.connectors.spark.setup import sides
from cec_store.connectors.spark.setup.compiler import find_spark

_TAKEN = sides.taken(find_spark().jars)
HAS_INSTANCE_METRICS = "sparks/instance_metrics/present" in _TAKEN
HAS_MOVING = "moving" in _TAKEN
HAS_PYTHON_SOURCES = find_spec("pyspark.sql.streaming.datasource") is not None
