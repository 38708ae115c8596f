"""Spark's readers of a checkpoint say the same of our logs as of what the HDFS-backed one wrote."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spark_queries import QUERIES
from spark_runs import REFERENCE, STORE, Kept, Run, cec, run_alone

# The query, and the options that name one of its stores.
STORES = {
    "aggregate": ("aggregate_windows_append", {}),
    "deduplicate": ("drop_duplicates_by_time", {}),
    "sessions": ("session_windows_append", {}),
    "join, left counts": ("join_full_outer", {"storeName": "left-keyToNumValues"}),
    "join, right values": ("join_full_outer", {"storeName": "right-keyWithIndexToValue"}),
}
KEPT = {
    "hdfs": REFERENCE,
    # One record is less than the keys that are open: footprints are renewed in every commit.
    "v1": Kept(version=1, settings=cec(extentMaxRecords="1", checkTimeMs="1000")),
    "v2": Kept(version=2, settings=cec(extentMaxRecords="1", checkTimeMs="1000")),
}
Runs = Callable[[str, str], Run]


@pytest.fixture(scope="module")
def runs(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Each query once with each provider, for all tests of this file."""
    done: dict[tuple[str, str], Run] = {}

    def run(name: str, kept: str) -> Run:
        if (name, kept) not in done:
            folder = tmp_path_factory.mktemp(f"{name}-{kept}")
            done[name, kept] = run_alone(spark, QUERIES[name], folder, KEPT[kept])
        return done[name, kept]

    return run


def read(spark: Any, run: Run, source: str = "statestore", **options: Any) -> list[Any]:
    reader = spark.read.format(source)
    for name, value in options.items():
        reader = reader.option(name, value)
    return sorted(map(tuple, reader.load(str(run.checkpoint)).collect()), key=repr)


def last_batch(run: Run) -> int:
    return max(run.rows)


@pytest.mark.parametrize("kept", ["v1", "v2"])
@pytest.mark.parametrize("store", STORES)
def test_state_at_every_batch_is_the_same(store: str, kept: str, spark: Any, runs: Runs) -> None:
    name, options = STORES[store]
    reference, ours = runs(name, "hdfs"), runs(name, kept)
    states = []
    for batch in sorted(reference.rows):
        states.append(read(spark, reference, batchId=batch, **options))
        assert read(spark, ours, batchId=batch, **options) == states[-1], f"batch {batch}"
    assert any(states)
    assert read(spark, ours, **options) == states[-1], "the newest, when no batch is named"
    assert any(state != states[-1] for state in states)


@pytest.mark.parametrize("kept", ["v1", "v2"])
def test_sides_of_a_join_are_the_same(kept: str, spark: Any, runs: Runs) -> None:
    reference, ours = (runs("join_full_outer", each) for each in ("hdfs", kept))
    for side in ("left", "right"):
        for batch in (2, last_batch(reference)):
            due = read(spark, reference, joinSide=side, batchId=batch)
            assert due
            assert read(spark, ours, joinSide=side, batchId=batch) == due


@pytest.mark.parametrize("kept", ["v1", "v2"])
@pytest.mark.parametrize("name", ["aggregate_windows_append", "join_then_aggregate"])
def test_metadata_is_the_same(name: str, kept: str, spark: Any, runs: Runs) -> None:
    due = read(spark, runs(name, "hdfs"), "state-metadata")
    assert len(due) >= 1
    assert read(spark, runs(name, kept), "state-metadata") == due


@pytest.mark.parametrize("kept", ["v1", "v2"])
@pytest.mark.parametrize("store", STORES)
def test_change_feed_is_the_same(store: str, kept: str, spark: Any, runs: Runs) -> None:
    name, options = STORES[store]
    reference, ours = runs(name, "hdfs"), runs(name, kept)
    assert ours.sum_of("cecCheckRecordsWritten") > 0, "no renewed footprint that must not show"
    last = last_batch(reference)
    for first, end in ((0, last), (3, 5), (last, last)):
        span = {"readChangeFeed": "true", "changeStartBatchId": first, "changeEndBatchId": end}
        due = read(spark, reference, **span, **options)
        assert read(spark, ours, **span, **options) == due
        assert due or first == end
        if (first, end) == (0, last):
            assert {row[1] for row in due} == {"update", "delete"}


@pytest.mark.parametrize("kept", ["v1", "v2"])
def test_state_from_any_snapshot_batch_is_that_of_the_batch(
    kept: str, spark: Any, runs: Runs
) -> None:
    """We take no snapshots: any batch will do as the one to start from."""
    reference, ours = (runs("aggregate_windows_append", each) for each in ("hdfs", kept))
    last = last_batch(reference)
    for partition in (0, 1):
        due = [row for row in read(spark, reference, batchId=last) if row[-1] == partition]
        for start in (0, 4, last):
            options = {"snapshotStartBatchId": start, "snapshotPartitionId": partition}
            assert read(spark, ours, batchId=last, **options) == due
    assert read(spark, reference, batchId=last)


def test_batch_that_is_not_there_any_more_is_refused(spark: Any, tmp_path: Path) -> None:
    kept = Kept(
        settings={
            "spark.sql.streaming.minBatchesToRetain": "2",
            STORE + "maintenanceInterval": "100ms",
            **cec(segmentBytes="65536", extentFactor="1.25"),
        }
    )
    ours = run_alone(spark, QUERIES["aggregate_windows_append"], tmp_path, kept)
    assert read(spark, ours, batchId=last_batch(ours))
    with pytest.raises(Exception, match=r"(?i)batch|version|not") as refused:
        read(spark, ours, batchId=0)
    assert "0" in str(refused.value)
