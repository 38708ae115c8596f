"""A passive standby: a driver is killed or stopped, another goes on, and the output is the same."""

import random
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cec_store import read_queue, wait_until_warm
from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.takeover.tenure import FENCE, FENCE_KEY, LEASE
from cec_store.errors import LeaseHeld, NotACheckpoint, SparkUnavailable
from cec_store.standby.leases import leases_of
from support.runs.counts import crash_count
from support.runs.suites import Tally
from support.spark.standalone import wait_for
from support.spark.standby_runs import Driver, await_batch, faults_of, newest

TAKEOVERS = crash_count(1, 50)
EVERY_MS = crash_count(100, 400)
NOISE = re.compile(r"ERROR|Exception|^\s+at ", re.MULTILINE)
"""In the log of a driver: an error, or its stack."""


@pytest.mark.crash
@pytest.mark.quick
def test_output_is_that_of_a_run_without_failure(tmp_path: Path, tally: Tally) -> None:
    dice = random.Random(18)
    drivers = [Driver(tmp_path, "primary", every_ms=EVERY_MS)]
    stopped: list[Driver] = []
    try:
        primary = drivers[0]
        assert primary.wait_for("started") == 1
        await_batch(tmp_path, 1)
        for takeover in range(TAKEOVERS):
            standby = Driver(tmp_path, "standby", every_ms=EVERY_MS, log_level="ERROR")
            drivers.append(standby)
            standby.wait_for("warm")
            assert wait_until_warm(tmp_path / "checkpoint", lease=LEASE, timeout_s=30.0)
            await_batch(tmp_path, newest(tmp_path) + 1)
            time.sleep(dice.random() * 0.3)
            kill = [signal.SIGSTOP, signal.SIGKILL][takeover % 2]
            primary.send(kill)
            if kill == signal.SIGSTOP:
                stopped.append(primary)
            assert standby.wait_for("started") == takeover + 2
            if dice.random() < 0.5:  # or it wakes up beside the first batches of the other
                await_batch(tmp_path, newest(tmp_path) + 2)
            if kill == signal.SIGSTOP:
                primary.send(signal.SIGCONT)
                assert "another driver has taken this query over" in primary.wait_for("failed")
            primary.end()
            assert not wait_until_warm(tmp_path / "checkpoint", lease=LEASE, timeout_s=0.5)
            await_batch(tmp_path, newest(tmp_path) + 2)
            # It has taken over, and nobody has stopped it yet.
            said = standby.errors.read_text("utf-8")
            assert NOISE.findall(said) == [], said
            primary = standby
        primary.send(signal.SIGKILL)
    finally:
        for driver in drivers:
            driver.end()
    assert faults_of(tmp_path / "queue") == []
    assert len(stopped) == (TAKEOVERS + 1) // 2
    tally(TAKEOVERS)


def test_an_application_below_the_verb_waits_for_its_turn(tmp_path: Path) -> None:
    primary = Driver(tmp_path, "primary")
    verb = [
        str(Path(sys.executable).with_name("cec-store")),
        "standby",
        str(tmp_path / "checkpoint"),
        "--",
    ]
    drivers = [primary]
    try:
        primary.wait_for("started")
        await_batch(tmp_path, 0)
        drivers.append(standby := Driver(tmp_path, "either", before=verb))
        leases = tmp_path / "checkpoint" / "leases"
        end_s = time.monotonic() + 120
        while not [*leases.glob(".warming-*")]:
            assert time.monotonic() < end_s
            time.sleep(0.02)
        assert standby.events() == []
        primary.send(signal.SIGKILL)
        assert standby.wait_for("started") == 2
        assert [*leases.glob(".warming-*")] == [], "what the small queries wrote is deleted"
        await_batch(tmp_path, newest(tmp_path) + 2)
    finally:
        for driver in drivers:
            driver.end()
    assert faults_of(tmp_path / "queue") == []


# -- the fence, wherever the old driver was stopped ----------------------------------------


@pytest.fixture
def tenures(spark: Any) -> Any:
    return spark._jvm.org.apache.spark.sql.cecstore.standby.Tenures


def file_manager(spark: Any, folder: Path) -> Any:
    jvm = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"file://{folder}")
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    manager = jvm.org.apache.spark.sql.cecstore.standby.FencedFileManager(path, conf)
    manager.mkdirs(path)
    return manager


def begun(spark: Any, manager: Any, folder: Path, name: str) -> Any:
    """A file of the old driver that has all its bytes and not its name."""
    stream = manager.createAtomic(
        spark._jvm.org.apache.hadoop.fs.Path(f"file://{folder}/{name}"), False
    )
    stream.write(bytearray(b"v1"))
    return stream


def message_of(error: Any) -> str:
    return str(error.value.java_exception.toString())


def test_a_file_that_was_begun_before_the_takeover_gets_no_name(
    spark: Any, tenures: Any, tmp_path: Path
) -> None:
    from py4j.protocol import Py4JJavaError

    conf = spark._jsparkSession.sessionState().newHadoopConf()
    offsets = tmp_path / "offsets"
    first = leases_of(tmp_path).hold(LEASE)
    tenures.enter(str(tmp_path), LEASE, 1, conf)
    manager = file_manager(spark, offsets)
    begun(spark, manager, offsets, "0").close()
    waiting = begun(spark, manager, offsets, "1")
    checked = begun(spark, manager, offsets, "2")
    second = leases_of(tmp_path).hold(LEASE, after=1)
    with pytest.raises(Py4JJavaError) as error:
        waiting.close()
    assert "FencedDriver" in message_of(error)
    assert "another driver has taken this query over" in message_of(error)
    # One that had looked at its tenure before: its file is gone once the new driver begins.
    tenures.enter(str(tmp_path), LEASE, 2, conf)
    with pytest.raises(Py4JJavaError) as error:
        checked.close()
    assert "FileNotFoundException" in message_of(error)
    # Nor does it learn of less than that, if it is just making the file.
    tenures.enter(str(tmp_path), LEASE, 2, conf)
    third = leases_of(tmp_path).hold(LEASE, after=2)
    offsets.rename(tmp_path / "elsewhere")
    offsets.write_bytes(b"")
    with pytest.raises(Py4JJavaError) as error:
        begun(spark, manager, offsets, "3")
    assert "FencedDriver" in message_of(error)
    offsets.unlink()
    (tmp_path / "elsewhere").rename(offsets)
    tenures.enter(str(tmp_path), LEASE, 3, conf)
    third.release()
    assert sorted(each.name for each in offsets.iterdir() if each.name.isdigit()) == ["0"]
    begun(spark, manager, offsets, "1").close()
    assert (offsets / "1").read_bytes() == b"v1"
    with pytest.raises(Py4JJavaError) as error:
        tenures.enter(str(tmp_path), LEASE, 1, conf)
    assert "FencedDriver" in message_of(error)
    first.release()
    second.release()


def test_a_driver_whose_lease_is_lost_discards_nothing_of_the_next_one(
    spark: Any, tenures: Any, tmp_path: Path
) -> None:
    from py4j.protocol import Py4JJavaError

    conf = spark._jsparkSession.sessionState().newHadoopConf()
    first = leases_of(tmp_path).hold(LEASE)
    tenures.enter(str(tmp_path), LEASE, 1, conf)
    begun(spark, file_manager(spark, tmp_path / "offsets"), tmp_path / "offsets", "0")
    (unfinished,) = (each for each in (tmp_path / "offsets").iterdir() if each.suffix == ".tmp")
    second = leases_of(tmp_path).hold(LEASE, after=1)
    with pytest.raises(Py4JJavaError) as error:
        tenures.discardUnfinished(str(tmp_path), conf)
    assert "FencedDriver" in message_of(error)
    assert unfinished.exists()
    first.release()
    second.release()


def test_a_checkpoint_without_a_lease_is_written_as_ever(spark: Any, tmp_path: Path) -> None:
    manager = file_manager(spark, tmp_path / "offsets")
    begun(spark, manager, tmp_path / "offsets", "0").close()
    assert (tmp_path / "offsets" / "0").exists()


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_a_batch_that_was_under_way_at_the_takeover_gets_into_no_queue(
    spark: Any, unfenced: None, tmp_path: Path
) -> None:
    """A fleet may have gone back since, so that the queue has no place for it any more."""
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import functions as f

    checkpoint, go = tmp_path / "checkpoint", tmp_path / "go"
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.json").write_text('{"n": 1}\n')

    @f.udf("long")
    def waiting(n):  # type: ignore[no-untyped-def]  # of types Spark would make another kind of it
        while not go.exists():
            time.sleep(0.02)
        return n

    lease = cec_spark.keep_alive(spark, checkpoint)
    rows = spark.readStream.schema("n LONG").json(str(tmp_path / "input"))
    writer = rows.select(waiting("n").alias("n")).writeStream.format("cec")
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.start(str(tmp_path / "queue"))
    try:
        wait_for((tmp_path / "queue" / "log").exists, lambda: "no batch has begun")
        second = leases_of(checkpoint).hold(LEASE, after=lease.number)
        go.touch()
        with pytest.raises(StreamingQueryException, match="has taken this query over"):
            query.awaitTermination(120)
    finally:
        go.touch()
        query.stop()
    assert read_queue(tmp_path / "queue").read_all().num_rows == 0
    second.release()
    lease.release()


# -- what is refused before anything is fenced ----------------------------------------


def never() -> None:
    raise AssertionError("started")


def made_checkpoint(folder: Path, provider: str) -> Path:
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"00000000-0000-0000-0000-000000000000"}')
    conf = f'{{"spark.sql.streaming.stateStore.providerClass":"{provider}"}}'
    head = f'{{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{conf}}}'
    (folder / "offsets" / "0").write_text(f"v1\n{head}\n0")
    return folder


def test_a_lease_that_somebody_alive_holds(spark: Any, unfenced: None, tmp_path: Path) -> None:
    with (
        leases_of(tmp_path).hold(LEASE, holder="node-1"),
        pytest.raises(LeaseHeld, match="is held by node-1"),
    ):
        cec_spark.keep_alive(spark, tmp_path)
    with cec_spark.keep_alive(spark, tmp_path) as lease:
        assert lease.number == 2
        assert spark.conf.get(FENCE_KEY) == FENCE


def test_places_of_which_nobody_can_be_the_standby(
    spark: Any, unfenced: None, tmp_path: Path
) -> None:
    with pytest.raises(NotACheckpoint, match="no checkpoint of a Spark query here"):
        cec_spark.standby(spark, tmp_path / "nowhere", never)
    ours = made_checkpoint(tmp_path / "ours", "org.apache.spark.sql.cecstore.CecStateStoreProvider")
    with pytest.raises(ValueError, match="no driver keeps a lease"):
        cec_spark.standby(spark, ours, never)
    other = made_checkpoint(tmp_path / "other", "x.RocksDBStateStoreProvider")
    with leases_of(other).hold(LEASE), pytest.raises(ValueError, match=r"x\.RocksDB"):
        cec_spark.standby(spark, other, never)
    assert not (tmp_path / "nowhere").exists()
    assert not (ours / "leases").exists()


def test_times_and_sessions_that_cannot_do_it(spark: Any, unfenced: None, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="period_s=0"):
        cec_spark.keep_alive(spark, tmp_path, period_s=0)
    with pytest.raises(SparkUnavailable, match="no driver of its own"):
        cec_spark.keep_alive(object(), tmp_path)
    spark.conf.set(FENCE_KEY, "x.Manager")
    with pytest.raises(ValueError, match=r"x\.Manager"):
        cec_spark.keep_alive(spark, tmp_path)
    assert not (tmp_path / "leases").exists()
