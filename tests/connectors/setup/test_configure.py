"""`configure` where it comes late, and what Spark itself refuses to any provider but its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cec_store import fork, read_state
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.setup.compiler import find_spark
from cec_store.connectors.spark.setup.settings import PREFIX, PROVIDER, PROVIDER_KEY
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.storage.stores.folders import folder_at
from support.drivers import late_job
from support.runs.counts import CRASH_FULL
from support.runs.minors import needs_newest

TIMEOUT_S = 300
# A session that has been stopped leaves the same JVM behind as one that is active.
EARLIER = ["registered", "submitted", *(["active", "stopped"] if CRASH_FULL else [])]


@pytest.mark.crash
@pytest.mark.parametrize("earlier", EARLIER)
def test_jvm_that_runs_already_learns_of_the_provider(earlier: str, tmp_path: Path) -> None:
    command = [sys.executable]
    if earlier == "submitted":
        command = [str(find_spark().jars.parent / "bin" / "spark-submit")]
    done = subprocess.run(
        [*command, late_job.__file__, earlier],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["windows"] == 2
    assert 1 <= found["segments"] <= 2


FOREIGN = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from cec_store.connectors import spark
from cec_store.connectors.spark.setup.settings import BUILT_IN, PROVIDER, PROVIDER_KEY

folder = Path(sys.argv[1])
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = spark.configure(builder.config("spark.sql.shuffle.partitions", "1")).getOrCreate()
(folder / "in").mkdir()
for part in ("a", "b"):
    (folder / "in" / f"{part}.txt").write_text(part)
    for name in ("foreign", "own"):
        is_first = part == "a" and name == "foreign"
        session.conf.set(PROVIDER_KEY, BUILT_IN["hdfs"] if is_first else PROVIDER)
        counts = session.readStream.text(str(folder / "in")).groupBy("value").count()
        writer = counts.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        writer.option("checkpointLocation", str(folder / name)).start().awaitTermination()
session.stop()
"""


def test_a_query_that_goes_on_with_another_provider_is_told_of_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FOREIGN, str(tmp_path)],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    (told,) = [line for line in done.stderr.splitlines() if "cec-store adopt" in line]
    assert "HDFSBackedStateStoreProvider keeps the state of the query in" in told
    assert f"`cec-store adopt file:{tmp_path}/foreign NEW`" in told


def counts(spark: Any, folder: Path) -> Any:
    rows = folder / "in"
    rows.mkdir()
    (rows / "a.txt").write_text("a\nb\n", encoding="utf-8")
    return spark.readStream.text(str(rows)).groupBy("value").count()


def started(writer: Any, folder: Path) -> Any:
    return (
        writer.format("noop").outputMode("update").option("checkpointLocation", str(folder / "ck"))
        .trigger(availableNow=True).start()
    )  # fmt: skip


@pytest.fixture
def with_cec(spark: Any) -> Any:
    before = spark.conf.get(PROVIDER_KEY)
    spark.conf.set(PROVIDER_KEY, PROVIDER)
    yield spark
    spark.conf.set(PROVIDER_KEY, before)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("extentFactor", "1", "extentFactor = 1: a number from 1.25 to 1000 is needed"),
        ("extentfactor", "2", "extentfactor = 2: there is no such setting"),
        ("recoveryTimeMs", "99", "a whole number from 100 to 86400000 is needed"),
        ("replicas", "1", "replicas = 1: the application has to begin with spark.plugins="),
        ("replicaMemoryBytes", "much", "replicaMemoryBytes = much: a size such as 64m is needed"),
        ("replicaWarmUps", "all", "replicaWarmUps = all: a whole number from 0 to 10000 is needed"),
        ("memoryBytes", "half", "memoryBytes = half: a size such as 64m is needed"),
        ("keyDirectories", "maybe", "keyDirectories = maybe: true or false is needed"),
    ],
)
def test_query_with_a_wrong_setting_does_not_start(
    with_cec: Any, tmp_path: Path, name: str, value: str, said: str
) -> None:
    key = PREFIX + name
    with_cec.conf.set(key, value)
    try:
        query = started(counts(with_cec, tmp_path).writeStream, tmp_path)
        with pytest.raises(Exception, match=said):
            query.awaitTermination()
    finally:
        with_cec.conf.unset(key)


@needs_newest
def test_real_time_mode_is_refused_by_spark(with_cec: Any, tmp_path: Path) -> None:
    writer = with_cec.readStream.format("rate").load().writeStream.format("console")
    writer = writer.outputMode("update").option("checkpointLocation", str(tmp_path))
    with pytest.raises(
        Exception, match=r"STREAMING_REAL_TIME_MODE\.SQL_CONFIGURATION_NOT_SUPPORTED"
    ):
        writer.trigger(realTime="5 seconds").start()


def test_offline_repartition_is_refused_by_spark_and_a_fork_goes_on(
    with_cec: Any, tmp_path: Path
) -> None:
    if not hasattr(with_cec, "_streamingCheckpointManager"):
        pytest.skip("Spark has it from 4.2 on")
    rows = counts(with_cec, tmp_path)
    started(rows.writeStream, tmp_path).awaitTermination()
    checkpoint = tmp_path / "ck"
    with pytest.raises(
        Exception, match=r"STATE_REPARTITION_INVALID_CHECKPOINT\.UNSUPPORTED_PROVIDER"
    ):
        with_cec._streamingCheckpointManager.repartition(str(checkpoint), 3)
    faults = verify_place(place_at(folder_at(checkpoint))).faults
    assert [fault.kind for fault in faults] == ["spark-repartition"]
    assert "and refused" in faults[0].what
    (tmp_path / "in" / "b.txt").write_text("b\nc\n", encoding="utf-8")
    with pytest.raises(Exception, match="epartition"):
        started(rows.writeStream, tmp_path).awaitTermination()
    (tmp_path / "forked").mkdir()
    fork(checkpoint, tmp_path / "forked" / "ck", batch=Checkpoint(checkpoint).newest_batch())
    started(rows.writeStream, tmp_path / "forked").awaitTermination()
    forked = place_at(folder_at(tmp_path / "forked" / "ck"))
    assert verify_place(forked).is_sound
    state = read_state(tmp_path / "forked" / "ck").to_pylist()
    counted = {row["key"]["value"]: row["value"]["count"] for row in state}
    assert counted == {"a": 1, "b": 2, "c": 1}
