"""Spark's classes in one file that a JVM maps, instead of loading them out of 300 jars.

The tests start some hundred JVMs that live for seconds, and half of what such a one takes is
loading classes. Made once for each Spark and Java, by a session that does some of what tests do.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.environment import VARIABLES, cache_folder
from cec_store.connectors.spark.setup.java import find_java
from support.paths import TESTS

# Hadoop has no library of its own here, so it starts chmod and readlink for each file that a query
# makes, where the tests' LocalFiles.scala does not stand in for it: some fifty a second. By default
# Java puts a program of its own before each of these.
STARTS_FAST = "-Djdk.lang.Process.launchMechanism=VFORK"
# With queries this short, what the JVM compiles is hardly ever run again. The room for code is what
# a JVM with both compilers has: with one it is a fifth, which a session of many tests fills.
JAVA_OPTIONS = (
    f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC {STARTS_FAST}"
)
# A JVM that cannot use the archive goes on without it; it is not to say so on standard output.
_USED = "-XX:SharedArchiveFile={} -Xshare:auto -Xlog:cds*=off"
_MADE = "-XX:ArchiveClassesAtExit={} -Xlog:cds*=off"
_MAKING_S = 600


def submit_options() -> str:
    """For `SPARK_SUBMIT_OPTS`: what the driver's JVM is told in each process that a test starts."""
    file = archive()
    return f"{JAVA_OPTIONS} {_USED.format(file)}" if file else JAVA_OPTIONS


def class_path(*more: Path) -> str:
    """As Spark's launcher has it, and more behind: then the archive is good for that JVM too."""
    jars = compiler.find_spark().jars
    (first,) = jars.glob("slf4j-api-*.jar")
    return ":".join(map(str, (jars.parent / "conf", first, jars / "*", *more)))


def archive() -> Path | None:
    """The file; made where there is none, and None where this Java cannot make one."""
    spark, java = compiler.find_spark(), find_java()
    of = f"{spark.jars} {spark.version} {java.home} {os.stat(java.home / 'release').st_mtime_ns}"
    folder = cache_folder(VARIABLES) / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"spark-{hashlib.sha256(of.encode()).hexdigest()[:16]}.jsa"
    with open(folder / "archive.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            _make(file)
    return file if file.stat().st_size else None


def variables() -> dict[str, str]:
    """Of a process that is to find this module; benchmarks are started without `PYTHONPATH`."""
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _make(file: Path) -> None:
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder) / "made.jsa"
        told = f"{JAVA_OPTIONS} {_MADE.format(made)}"
        subprocess.run(
            [sys.executable, "-m", "support.spark.archive", folder],
            env={**variables(), "SPARK_SUBMIT_OPTS": told},
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=_MAKING_S,
        )
        if not made.exists():
            made.touch()  # remembered: this Java has nothing to build an archive on
        made.replace(file)


def _do_some_of_what_tests_do(folder: Path) -> None:
    from support.spark import session as spark_session

    session = spark_session.start_session("local[2]")
    rows = session.range(100).selectExpr("id", "id % 7 as word", "timestamp_millis(id) as time")
    rows.write.parquet(str(folder / "in"))
    read = session.readStream.schema(rows.schema).parquet(str(folder / "in"))
    counts = read.groupBy("word").agg({"id": "sum"})
    joined = read.withWatermark("time", "1 second").alias("a")
    joined = joined.join(read.withWatermark("time", "1 second").alias("b"), "word")
    for provider in (spark_session.CEC, spark_session.HDFS):
        session.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
        for name, frame, mode in (("counts", counts, "update"), ("joined", joined, "append")):
            checkpoint = str(folder / f"{name}-{provider}")
            query = frame.writeStream.format("noop").outputMode(mode)
            query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            query.start().awaitTermination()
    rows.join(rows.groupBy("word").count(), "word").toArrow()
    spark_session.stop_session(session, _MAKING_S)  # it writes the archive as it ends


if __name__ == "__main__":
    _do_some_of_what_tests_do(Path(sys.argv[1]))
