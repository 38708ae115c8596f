"""What the sink in the JVM does for a queue besides writing to it, and what it tells of it."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import cec_store
from cec_store.format.frame import SegmentFlags, decode_segment_header
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from support.places.damaged_queues import flip
from support.places.layouts import put_into_objects
from support.spark.jvm_sink import JVM, named, numbers, objects, queue_at, rows_of, writer

SCHEMA = pa.schema([("n", pa.int64())])
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US


def append(queue: PartitionedQueue, first: int) -> None:
    queue.append(pa.table([range(first, first + 10)], schema=SCHEMA))


def before_upkeep(path: Path, retention: str, then: Callable[[PartitionedQueue], None]) -> set[str]:
    """A queue of 62 commits, sixty of them three days old; also its objects that were trimmed."""
    now_us = time.time_ns() // 1000
    clock = [now_us - 3 * DAY_US]
    with cec_store.open_queue(
        path, "a", schema=SCHEMA, partitions=1, retention=retention, clock_us=lambda: clock[0]
    ) as queue:
        for number in range(60):
            append(queue, 10 * number)
        before = named(path)
        queue.trim(before={0: 100})
        trimmed = before - named(path)
        for file in (path / "log").rglob("*.commit"):
            os.utime(file, ns=(clock[0] * 1000, clock[0] * 1000))
        clock[0] = now_us - HOUR_US
        append(queue, 600)
        then(queue)
    assert len(trimmed) == 10
    assert trimmed < objects(path), "the grace period is not over for who trimmed"
    return trimmed


def make_older(path: Path, us: int) -> None:
    for file in path.rglob("*.*"):
        changed_ns = file.stat().st_mtime_ns - us * 1000
        os.utime(file, ns=(changed_ns, changed_ns))


def write(session: Any, path: Path, first: int) -> None:
    writer(session.range(first, first + 10, 1, 1).toDF("n")).save(str(path))


@pytest.mark.parametrize(
    ("retention", "first", "segments"),
    [("1d", 600, 3), ("consumers", 250, 1), ("1KiB", None, None), ("forever", 100, 1)],
)
def test_the_sink_trims_merges_and_sweeps_now_and_then_as_the_queue_says(
    spark: Any,
    tmp_path: Path,
    retention: str,
    first: int | None,
    segments: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_into_objects(monkeypatch)
    path = tmp_path / "q"

    def consume(queue: PartitionedQueue) -> None:
        if retention == "consumers":
            queue.consumer("hourly", start={0: 100}).acknowledge(effects_saved={0: 250})

    trimmed = before_upkeep(path, retention, consume)
    expected, before = list(range(610)), objects(path)
    while (number := queue_at(path).state.number) < 64:
        assert trimmed < objects(path)
        write(spark, path, 10 * number)
        expected += range(10 * number, 10 * number + 10)
    assert not trimmed & objects(path), "older than the grace period"
    # What has just been trimmed or merged is for readers that began before.
    assert before - trimmed < objects(path)
    state = queue_at(path).state
    if first is None:
        first, segments = state.commit.starts[0], state.live.num_rows
        sizes = [segment["bytes"] for segment in state.live.to_pylist()]
        assert sum(sizes[1:]) < 1024 <= sum(sizes)
    assert state.commit.starts[0] == first
    assert state.live.num_rows == segments
    place = expected.index(first)
    assert rows_of(path).column("n").to_pylist() == expected[place:]
    assert spark.read.format(JVM).load(str(path)).count() == len(expected[place:])
    merged = [s for s in state.live.to_pylist() if s["file"].startswith("data/merge-")]
    assert len(merged) == (segments == 1)
    for each in merged:
        assert each["frames"] == each["records"] // 10
        assert each["least_us"] < time.time_ns() // 1000 - DAY_US < each["greatest_us"]


def test_a_damaged_segment_keeps_the_sink_from_merging_no_others(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_into_objects(monkeypatch)
    path = tmp_path / "q"
    with cec_store.open_queue(path, "a", schema=SCHEMA, partitions=2) as queue:
        for number in range(62):
            append(queue, 10 * number)
    damaged = path / queue_at(path).state.segments_of(0)["file"][0].as_py()
    flip(damaged, -1)
    while queue_at(path).state.number < 64:
        write(spark, path, 0)
    counts = [queue_at(path).state.segments_of(number).num_rows for number in range(2)]
    assert counts[0] > 20 > counts[1]
    assert len([*path.glob("data/merge-*/**/*.seg")]) == 1


def test_progress_tells_what_was_written_and_what_was_passed_over(
    spark: Any, tmp_path: Path
) -> None:
    source, path, checkpoint = tmp_path / "in", tmp_path / "q", tmp_path / "c"

    def run() -> dict[str, str]:
        rows = spark.readStream.schema("n LONG").parquet(str(source)).writeStream.format(JVM)
        query = rows.option("checkpointLocation", str(checkpoint)).start(str(path))
        query.processAllAvailable()
        query.stop()
        metrics: dict[str, str] = query.recentProgress[0]["sink"]["metrics"]
        return metrics

    spark.range(0, 100, 1, 2).toDF("n").write.parquet(str(source))
    found = run()
    written = sum(segment["bytes"] for segment in queue_at(path).state.live.to_pylist())
    assert found == {
        "batchId": "0", "rowsWritten": "100", "bytesWritten": str(written), "objectsWritten": "2",
        "repeatedRowsDropped": "0", "commitsTriedAgain": "0",
    }  # fmt: skip
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    found = run()
    assert {name: found[name] for name in ("rowsWritten", "repeatedRowsDropped")} == {
        "rowsWritten": "0", "repeatedRowsDropped": "100",
    }  # fmt: skip
    assert numbers(path) == list(range(100))


def test_the_sink_merges_rows_that_commits_hold(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "q"
    with cec_store.open_queue(path, "a", schema=SCHEMA, partitions=1) as queue:
        for number in range(60):
            append(queue, 10 * number)
    assert not objects(path)
    planned = spark.read.format(JVM).load(str(path))
    assert len(planned.collect()) == 600
    while (number := queue_at(path).state.number) < 65:
        write(spark, path, 10 * number)
    # Collected again, the query reads what was planned then.
    assert sorted(row.n for row in planned.collect()) == [*range(600)]
    (merged,) = (name for name in named(path) if name.startswith("data/merge-"))
    header = decode_segment_header((path / merged).read_bytes())
    assert header.flags == SegmentFlags.COMPACTED
    assert rows_of(path).column("n").to_pylist() == [*range(640)]
    assert numbers(path) == sorted(
        row.n for row in spark.read.format(JVM).load(str(path)).collect()
    )
    assert len([*(path / "log").rglob("*.commit")]) == queue_at(path).state.number + 1
    found = verify_place(place_at(path), deep=True)
    assert found.is_sound, found.faults


def test_a_query_slower_than_the_grace_period_reads_merged_segments(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_into_objects(monkeypatch)
    path = tmp_path / "q"
    with cec_store.open_queue(path, "a", schema=SCHEMA, partitions=1) as queue:
        for number in range(20):
            append(queue, 10 * number)
        query = spark.read.format(JVM).option("includeMetadata", "true").load(str(path))
        rows = query.selectExpr("n", "_offset")
        expected = [(n, n) for n in range(200)]
        assert sorted(tuple(row) for row in rows.collect()) == expected
        # Collected again, the query reads what was planned then.
        append(queue, 200)
        before = objects(path)
        queue.merge()
        make_older(path, DAY_US + HOUR_US)
        queue.clean()
        assert not before & objects(path)
        assert sorted(tuple(row) for row in rows.collect()) == expected
        queue.trim(before=queue.ends())
        make_older(path, DAY_US + HOUR_US)
        queue.clean()
        with pytest.raises(PySparkException, match="was trimmed while it was read"):
            rows.collect()


@pytest.mark.parametrize("way", ["removed", "made anew", "an older copy"])
@pytest.mark.parametrize("partitions", [None, 1])
def test_a_query_over_a_queue_that_is_replaced_is_told(
    spark: Any, tmp_path: Path, partitions: int | None, way: str
) -> None:
    path, copy = tmp_path / "q", tmp_path / "copy"

    def write(first: int) -> None:
        with cec_store.open_queue(path, "a", schema=SCHEMA, partitions=partitions) as queue:
            append(queue, first)

    write(0)
    shutil.copytree(path, copy)
    write(10)
    rows = spark.read.format(JVM).load(str(path)).select("n")
    assert sorted(row.n for row in rows.collect()) == list(range(20))
    # Collected again, the query reads what was planned then.
    shutil.rmtree(path)
    if way == "an older copy":
        shutil.copytree(copy, path)
    elif way == "made anew":
        write(100)
        write(110)
    with pytest.raises(PySparkException, match="is not here any more") as told:
        rows.collect()
    assert "CEC_QUEUE_REPLACED" in str(told.value)
