"""One Spark session for each process that runs tests, with our jar and the tests' own."""

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.environment import publish
from cec_store.connectors.spark.setup.session import apply
from cec_store.connectors.spark.setup.settings import EXTENSIONS
from support.paths import SCALA
from support.spark import planted

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CEC = "org.apache.spark.sql.cecstore.CecStateStoreProvider"
GROUPS = SCALA / "groups"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    # One thread does it for the whole process, as often as the first query says.
    "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
    # With queries this short, what Spark compiles is hardly ever run again.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.cache.maxEntries": "2000",
}


@cache
def groups_jar() -> Path:
    """tests/support/scala/groups, compiled once for each state of its text, as the provider is."""
    made = compiler.jar(sources=GROUPS, carried=GROUPS / "never")
    # Under a name of its own: a session takes one jar of a name.
    return publish(made.parent / "cec-store-test-groups.jar", made.read_bytes())


def start_session(master: str, **settings: str) -> Any:
    # Workers run the interpreter of the tests, whatever `python3` is on this machine. They find
    # what tests register with Spark by the PYTHONPATH that tests/conftest.py sets.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        # Said by an import, about what is not used here.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas >= 3")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName("cec-store tests")
        named = {**SETTINGS, "spark.jars": str(groups_jar()), **settings}
        for name, value in named.items():
            builder = builder.config(name, value)
        conf = cec_spark.conf()
        if planted.is_any():
            conf["spark.jars"] = str(planted.jar())
            options = [os.environ.get("SPARK_SUBMIT_OPTS", ""), *planted.java_options()]
            os.environ["SPARK_SUBMIT_OPTS"] = " ".join(options)
        session = apply(builder, conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if master.startswith("local["):
        # An executor of its own would look for it before it has the jar.
        jvm: Any = session.sparkContext._jvm
        jvm.cecstore.tests.LocalFiles.install(session.sparkContext._jsc.hadoopConfiguration())
    return session


@contextmanager
def without_extension(session: Any) -> Iterator[Any]:
    """Give a session of the same context which has begun without extensions."""
    from pyspark.sql import SparkSession

    context = session.sparkContext
    conf = context._jsc.sc().conf()
    extensions = conf.get(EXTENSIONS)
    conf.remove(EXTENSIONS)
    try:
        begin = getattr(session._jvm, session._jsparkSession.getClass().getName())
        yield SparkSession(context, begin(context._jsc.sc(), session._jvm.java.util.HashMap()))
    finally:
        conf.set(EXTENSIONS, extensions)


def put_back(session: Any, before: Mapping[str, str]) -> None:
    """What is set for queries, as it was: some tests configure a session that others share."""
    for name, value in dict(session.conf.getAll).items():
        if value == before.get(name) or not name.startswith("spark.sql."):
            continue
        if name in before:
            session.conf.set(name, before[name])
        else:
            session.conf.unset(name)


def stages_of(session: Any) -> list[Any]:
    """Those that Spark still knows, as its status store has them."""
    none = session.sparkContext._gateway.new_array(session._jvm.double, 0)
    lists = session._jvm.java.util.ArrayList
    store = session.sparkContext._jsc.sc().statusStore()
    found = store.stageList(lists(), False, False, none, lists())
    return [found.apply(each) for each in range(found.size())]


def stop_session(session: Any, timeout_s: float = 60) -> None:
    """Ends the JVM as well, and waits: nothing is left for the garbage collector to complain of."""
    from pyspark import SparkContext

    session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout_s)
    SparkContext._gateway = SparkContext._jvm = None
