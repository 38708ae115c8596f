"""Looks at places while they change: rates, costs, lags, leases, and what is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import OutputQueue, PartitionedQueue, open_queue
from cec_store.connectors.spark.progress.history import Stretch
from cec_store.connectors.spark.progress.progress_file import ProgressFile
from cec_store.inspector.measuring.crash_costs import LoadRates
from cec_store.inspector.measuring.overview import overview_of
from cec_store.inspector.places.places import place_at
from cec_store.standby.leases import KeepAlive, leases_of
from cec_store.watching.watcher import Watcher
from support.places import damaged_queues as made
from support.places.checkpoints import Made, began_us
from support.places.made_checkpoints import START_MS, MadeCheckpoint, grown
from support.places.reported_places import KEY, VALUE

RATES = LoadRates()
SCHEMA = pa.schema([("n", pa.int64())])
KINDS = pytest.mark.parametrize("partitions", [None, 3])


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def opened(path: Path, partitions: int | None) -> OutputQueue | PartitionedQueue:
    if partitions is None:
        return open_queue(path, "a", schema=SCHEMA)
    return open_queue(path, "a", schema=SCHEMA, partitions=partitions)


def append(queue: OutputQueue | PartitionedQueue, rows: int) -> None:
    queue.append(pa.table({"n": range(rows)}, schema=SCHEMA))
    if isinstance(queue, OutputQueue):
        queue.sync()


def watcher(path: Path, clock: Clock | None = None) -> Watcher:
    return Watcher(place_at(path), RATES, 2, clock=clock or Clock())


@KINDS
def test_rates_are_what_came_since_over_the_time_that_passed(
    partitions: int | None, tmp_path: Path
) -> None:
    clock = Clock()
    with opened(tmp_path / "q", partitions) as queue:
        append(queue, 7)
        watch = watcher(tmp_path / "q", clock)
        first = watch.look()
        assert (first.look.records, first.records_per_s, first.batches_per_s) == (7, None, None)
        for _ in range(3):
            append(queue, 10)
        clock.now_s += 5
        second = watch.look()
        assert second.look.records == 37
        assert second.records_per_s == 6.0
        assert second.batches_per_s == 3 / 5


@KINDS
def test_rates_forget_what_was_before_the_last_half_minute(
    partitions: int | None, tmp_path: Path
) -> None:
    clock = Clock()
    with opened(tmp_path / "q", partitions) as queue:
        watch = watcher(tmp_path / "q", clock)
        watch.look()
        append(queue, 100)
        for _ in range(20):
            clock.now_s += 10
            sight = watch.look()
        assert sight.records_per_s == 0


@KINDS
def test_a_queue_made_anew_begins_a_new_rate(partitions: int | None, tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "q", partitions) as queue:
        append(queue, 50)
    watch = watcher(tmp_path / "q", clock)
    watch.look()
    shutil.rmtree(tmp_path / "q")
    clock.now_s += 1
    gone = watch.look()
    assert not gone.look.is_sound
    assert gone.records_per_s is None
    with opened(tmp_path / "q", partitions) as queue:
        append(queue, 2)
    clock.now_s += 1
    assert watch.look().records_per_s is None
    with opened(tmp_path / "q", partitions) as queue:
        append(queue, 3)
    clock.now_s += 1
    assert watch.look().records_per_s == 3


@KINDS
def test_lags_are_those_of_the_queue(partitions: int | None, tmp_path: Path) -> None:
    with opened(tmp_path / "q", partitions) as queue:
        consumer = queue.consumer("hourly")
        if isinstance(queue, OutputQueue):
            consumer.close()
        append(queue, 9)
        (lag,) = watcher(tmp_path / "q").look().look.consumers
    assert (lag.name, lag.lag_records) == ("hourly", 9)


@pytest.mark.parametrize("kind", ["queue", "checkpoint", "store"])
def test_costs_are_those_that_extent_shows(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "place"
    if kind == "queue":
        made.make_operator_queue(path, 300)
    else:
        grown(path)
    path = path / "state" / "0" / "1" if kind == "store" else path
    look = watcher(path).look().look
    whole = overview_of(place_at(path), counts=True)
    totals = whole.totals(RATES, 2)
    assert look.is_sound
    assert look.extent_records == totals["extent_records"] > 0
    assert look.extent_bytes == totals["extent_bytes"]
    assert look.open_windows == totals["open_windows"] > 0
    assert look.restart_s == totals["load_s"] + totals["replay_s"]
    if kind == "queue":
        assert look.records == totals["records"]
    else:
        assert look.batches == whole.version == 6


def test_a_checkpoint_says_its_watermark_and_when_its_batch_began(tmp_path: Path) -> None:
    place = Made(tmp_path / "c")
    place.run(3)
    look = watcher(tmp_path / "c").look().look
    assert look.watermark_us is None  # Spark writes 0 until there is one
    offsets = tmp_path / "c" / "offsets" / "2"
    version, head, *rest = offsets.read_text().split("\n")
    head = json.dumps({**json.loads(head), "batchWatermarkMs": 1_767_000_000_000})
    offsets.write_text("\n".join([version, head, *rest]))
    look = watcher(tmp_path / "c").look().look
    assert look.watermark_us == 1_767_000_000_000_000
    assert look.committed_us is not None
    assert look.batch_s == max(0, look.committed_us - began_us(2)) / 1e6


def test_a_batch_that_is_planned_and_not_committed_counts_only_for_the_watermark(
    tmp_path: Path,
) -> None:
    place = Made(tmp_path / "c")
    place.run(3)
    place.plan()
    assert watcher(tmp_path / "c").look().look.batches == 3


@pytest.mark.parametrize("days", [0, 3])
def test_progress_of_days_ago_is_not_the_newest_batchs(days: int, tmp_path: Path) -> None:
    """Not even where the newest batch changed no state, so that no frame says when it was."""
    place = MadeCheckpoint(tmp_path / "c", KEY, VALUE)
    place.batch({})
    place.close()
    until_us = 1_000 * START_MS - days * 86_400_000_000
    stretch = Stretch(until_us - 1_000_000, until_us, 0, 1, 1_000_000, 1_000_000, 5_000)
    ProgressFile(tmp_path / "c").write([stretch])
    look = watcher(tmp_path / "c").look().look
    assert (look.committed_us, look.problems) == (None, ())
    assert look.input_rows_per_s == (None if days else 5_000)


def test_damage_is_told_and_the_rest_shown(tmp_path: Path) -> None:
    grown(tmp_path / "c")
    for segment in (tmp_path / "c" / "state" / "0" / "1").glob("*.seg"):
        segment.unlink()
    look = watcher(tmp_path / "c").look().look
    assert any("partition 1" in problem for problem in look.problems)
    assert look.restart_s is None
    assert look.extent_records


def test_a_lease_is_unknown_then_alive_then_silent(tmp_path: Path) -> None:
    opened(tmp_path / "q", 1).close()
    rule = KeepAlive(period_s=0.02, misses=2)
    lease = leases_of(tmp_path / "q").hold("driver", holder="node 1", keep_alive=rule)
    watch = watcher(tmp_path / "q")
    states = set()
    try:
        for _ in range(2000):
            ((name, holder, state),) = [(h.lease, h.holder, h.state) for h in watch.look().holders]
            assert (name, holder) == ("driver", "node 1")
            states.add(state)
            if state == "alive":
                break
        assert "alive" in states
        (only,) = watcher(tmp_path / "q").look(is_only=True).holders
        assert only.state == "alive"
    finally:
        lease.release()
    assert watch.look().holders[0].state == "released"
    watch.close()
