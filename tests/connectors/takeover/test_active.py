"""An active standby: two applications run one query on one input, and the queue takes it once."""

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from cec_store import wait_until_warm
from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.takeover.tenure import FENCE_KEY, LEASE
from cec_store.errors import NotACheckpoint
from cec_store.standby.leases import leases_of
from support.runs.counts import crash_count
from support.runs.suites import Tally
from support.spark.standby_runs import Driver, await_batch, faults_of, fill_input, newest

TAKEOVERS = crash_count(1, 50)
EVERY_MS = crash_count(100, 400)
BATCHES = crash_count(600, 6000)


@pytest.mark.crash
def test_output_is_that_of_a_run_without_failure(tmp_path: Path, tally: Tally) -> None:
    dice = random.Random(6)
    path = fill_input(tmp_path / "input", BATCHES)
    names = ["checkpoint", *(f"checkpoint-{n}" for n in range(1, TAKEOVERS + 1))]
    drivers = [Driver(tmp_path, "primary", input=path, every_ms=EVERY_MS)]
    try:
        drivers[0].wait_for("started")
        await_batch(tmp_path, 1)
        for takeover in range(TAKEOVERS):
            primary, old, own = drivers[-1], names[takeover], names[takeover + 1]
            shadow = Driver(
                tmp_path, "shadow", input=path, checkpoint=own, primary=old, every_ms=EVERY_MS
            )
            drivers.append(shadow)
            shadow.wait_for("following")
            await_batch(tmp_path, newest(tmp_path, old) + 2, own)
            assert wait_until_warm(tmp_path / old, lease=LEASE, timeout_s=30.0)
            time.sleep(dice.random() * 0.3)
            kill = [signal.SIGSTOP, signal.SIGKILL][takeover % 2]
            primary.send(kill)
            assert shadow.wait_for("took_over")
            await_batch(tmp_path, newest(tmp_path, own) + 2, own)
            if kill == signal.SIGSTOP:
                primary.send(signal.SIGCONT)
                assert "another driver has taken this query over" in primary.wait_for("failed")
            primary.end()
            await_batch(tmp_path, newest(tmp_path, own) + 2, own)
        drivers[-1].send(signal.SIGKILL)
    finally:
        for driver in drivers:
            driver.end()
    assert faults_of(tmp_path / "queue") == []
    tally(TAKEOVERS)


def made_checkpoint(folder: Path, batches: int = 1) -> Path:
    """Of a query without state, after so many batches."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"00000000-0000-0000-0000-000000000000"}')
    head = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
    for batch in range(batches):
        (folder / "offsets" / str(batch)).write_text(f'v1\n{head}\n{{"a1": {{"0": 0}}}}')
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


@pytest.fixture
def fence(spark: Any) -> Any:
    yield
    spark.conf.unset(FENCE_KEY)


def test_primaries_that_cannot_be_followed(spark: Any, fence: Any, tmp_path: Path) -> None:
    with pytest.raises(NotACheckpoint):
        cec_spark.follow(spark, tmp_path / "nowhere", tmp_path / "own")
    primary = tmp_path / "primary"
    (primary / "offsets").mkdir(parents=True)
    (primary / "metadata").write_text('{"id":"00000000-0000-0000-0000-000000000000"}')
    with pytest.raises(ValueError, match="no driver keeps a lease"):
        cec_spark.follow(spark, primary, tmp_path / "own")
    with leases_of(primary).hold(LEASE) as lease:
        with pytest.raises(ValueError, match="no batch is committed yet"):
            cec_spark.follow(spark, primary, tmp_path / "own")
        (tmp_path / "other" / "offsets").mkdir(parents=True)
        (tmp_path / "other" / "metadata").write_text('{"id":"another"}')
        with pytest.raises(ValueError, match="the checkpoint of another query"):
            cec_spark.follow(spark, primary, tmp_path / "other")
        lease.check()
    assert not (tmp_path / "own").exists()
    assert not (tmp_path / "other" / "leases").exists()


def test_nobody_goes_on_from_a_checkpoint_that_was_left(
    spark: Any, fence: Any, tmp_path: Path
) -> None:
    primary = made_checkpoint(tmp_path / "primary")
    with leases_of(primary).hold(LEASE):
        follower = cec_spark.follow(spark, primary, tmp_path / "own")
        assert not follower.wait(0.5)
    assert follower.wait(60)
    follower.release()
    with pytest.raises(ValueError, match=r"has gone on with the checkpoint .*/own"):
        cec_spark.keep_alive(spark, primary)
    with pytest.raises(ValueError, match=r"has gone on with the checkpoint .*/own"):
        cec_spark.standby(spark, primary, lambda: None)
    again = cec_spark.follow(spark, primary, tmp_path / "own")  # whoever went on there may
    assert again.wait(60)
    again.release()


def test_of_old_batches_nothing_is_copied(spark: Any, fence: Any, tmp_path: Path) -> None:
    """A primary forgets them while they are copied, one after the other."""
    primary = made_checkpoint(tmp_path / "primary", 5)
    with leases_of(primary).hold(LEASE):
        follower = cec_spark.follow(spark, primary, tmp_path / "own")
    for log in ("offsets", "commits"):
        assert sorted(each.name for each in (tmp_path / "own" / log).iterdir()) == ["3", "4"]
    assert follower.wait(60)
    follower.release()


def test_a_new_query_that_follows_says_what_it_needs(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    path = fill_input(tmp_path / "input", 1)
    source = spark.readStream.format("cec").option("followCheckpoint", str(tmp_path / "nowhere"))
    writer = source.load(path).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path / "own")).start()
    with pytest.raises(StreamingQueryException, match="whoever follows goes on from a copy"):
        query.awaitTermination()
