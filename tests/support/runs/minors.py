"""What the installed Spark has. Tests of what it cannot have are left out, by their files."""

from importlib.util import find_spec

import pytest
from pyspark.sql import GroupedData

from cec_store.connectors.spark.setup import sides
from cec_store.connectors.spark.setup.compiler import find_spark
from support.paths import TESTS

_TAKEN = sides.taken(find_spark().jars)
HAS_INSTANCE_METRICS = "sparks/instance_metrics/present" in _TAKEN
# It came with the release that counts the commits of a batch.
HAS_JOIN_FORMAT_3 = "sparks/store_settings/with_validation" in _TAKEN
# The programs of tests/support/scala call what the newest Spark has.
HAS_PROGRAMS = "sparks/reusable_iterators/present" in _TAKEN
HAS_TIMES = "sparks/times_of_day/present" in _TAKEN
HAS_NANOS = "sparks/nano_timestamps/present" in _TAKEN
# Spark 4.0 asks a limit for the checkpoint ids of all partitions, also of those that it has not.
FAIL_IN_V2 = [] if HAS_JOIN_FORMAT_3 else ["limit"]
# Spark 4.0's RocksDB takes the unique id in the name of a file of format V2 for a part of a number.
READS_ROCKSDB_IN_V2 = HAS_JOIN_FORMAT_3
HAS_MOVING = "moving" in _TAKEN
HAS_PYTHON_SOURCES = find_spec("pyspark.sql.streaming.datasource") is not None
needs_python_sources = pytest.mark.skipif(
    not HAS_PYTHON_SOURCES, reason="queues in Python need Spark 4.2 or newer"
)
"""For tests in files of which the others go without."""
needs_times = pytest.mark.skipif(not HAS_TIMES, reason="Spark has times of day from 4.1 on")
needs_nanos = pytest.mark.skipif(
    not HAS_NANOS, reason="Spark has timestamps and times of nanoseconds from 4.3 on"
)
needs_newest = pytest.mark.skipif(not HAS_PROGRAMS, reason="Spark has this from 4.3 on")
needs_transform_in_rows = pytest.mark.skipif(
    not hasattr(GroupedData, "transformWithState"), reason="Python has it in rows from 4.1 on"
)
_OF_PROGRAMS = (
    *(
        f"connectors/provider/test_{name}.py"
        for name in (
            "calls", "damage", "due_rows", "feed", "folders", "races", "reads", "replica_orders",
            "replicas", "rules", "sizes", "vectors", "what_if",
        )
    ),
    "connectors/queues/test_jvm_logs.py",
)  # fmt: skip
_OF_PYTHON_SOURCES = (
    "connectors/queues/test_python_side.py",
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
        *([] if HAS_PROGRAMS else _OF_PROGRAMS),
        *([] if HAS_PYTHON_SOURCES else _OF_PYTHON_SOURCES),
    ]
