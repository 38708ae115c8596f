"""What the installed Spark has. Tests of what it cannot have are left out, by their files."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from cec_store.connectors.spark.setup import sides
from cec_store.connectors.spark.setup.compiler import find_spark
from support.paths import SCALA, TESTS

SIDES = SCALA / "sides"
_TAKEN = sides.taken(find_spark().jars)
HAS_INSTANCE_METRICS = "sparks/instance_metrics/present" in _TAKEN
HAS_TIME_KEYS = "sparks/value_encoders/numbered_formats" in _TAKEN
# They came with the same release.
HAS_STORE_SETTINGS = HAS_JOIN_FORMAT_3 = "sparks/store_settings/with_validation" in _TAKEN
HAS_MOVING = "moving" in _TAKEN
HAS_PYTHON_SOURCES = find_spec("pyspark.sql.streaming.datasource") is not None
needs_python_sources = pytest.mark.skipif(
    not HAS_PYTHON_SOURCES, reason="queues in Python need Spark 4.2 or newer"
)
"""For tests in files of which the others go without."""
_OF_PYTHON_SOURCES = (
    "connectors/queues/test_python_sink.py",
    "connectors/queues/test_queue.py",
    "connectors/queues/test_faults.py",
    "connectors/queues/test_relative_paths.py",
    "connectors/setup/test_register.py",
)


def left_out() -> list[str]:
    """Test files, below `tests`, of what the installed Spark lacks."""
    moving = [path.relative_to(TESTS).as_posix() for path in TESTS.glob("connectors/moving/*.py")]
    return [
        *([] if HAS_MOVING else moving),
        *([] if HAS_PYTHON_SOURCES else _OF_PYTHON_SOURCES),
    ]


def programs_sides() -> list[Path]:
    """Folders of Scala that the tests' programs are compiled with."""
    has = {"instance_metrics": HAS_INSTANCE_METRICS, "time_keys": HAS_TIME_KEYS}
    return [SIDES / what / ("present" if there else "absent") for what, there in has.items()]
