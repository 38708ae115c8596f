"""Spark's readers of a checkpoint say the same of our logs as of what the HDFS-backed one wrote."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from support.spark.queries import QUERIES
from support.spark.runs import FEW_RECORDS, Job, Kept, References, Run, run

# The query, and the options that name one of its stores.
STORES = {
    "aggregate": ("aggregate_windows_append", {}),
    "deduplicate": ("drop_duplicates_by_time", {}),
    "sessions": ("session_windows_append", {}),
    "join, left counts": ("join_full_outer", {"storeName": "left-keyToNumValues"}),
    "join, right values": ("join_full_outer", {"storeName": "right-keyWithIndexToValue"}),
}
# Footprints are renewed in every commit, and must not show.
KEPT = {
    "v1": Kept(version=1, settings=FEW_RECORDS),
    "v2": Kept(version=2, settings=FEW_RECORDS),
}


@dataclass(frozen=True)
class Runs:
    """One query, with the HDFS-backed provider and with ours."""

    reference: Run
    ours: dict[str, Run]
    """By checkpoint format."""


@pytest.fixture(scope="module")
def runs(references: References, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Runs]:
    """Each query once with each provider, for all tests of this file."""

    @cache
    def of(name: str) -> Runs:
        folder = tmp_path_factory.mktemp(name)
        jobs = [Job(QUERIES[name], folder / each, kept) for each, kept in KEPT.items()]
        reference, *ours = references.with_others(QUERIES[name], jobs)
        return Runs(reference, dict(zip(KEPT, ours, strict=True)))

    return of


def read(spark: Any, run: Run, source: str = "statestore", **options: Any) -> list[Any]:
    return sorted(read_in_order(spark, run, source, **options), key=repr)


def read_in_order(spark: Any, run: Run, source: str = "statestore", **options: Any) -> list[Any]:
    reader = spark.read.format(source)
    for name, value in options.items():
        reader = reader.option(name, value)
    return list(map(tuple, reader.load(str(run.checkpoint)).collect()))


def last_batch(run: Run) -> int:
    return max(run.rows)


@pytest.mark.crash
@pytest.mark.parametrize("store", STORES)
def test_state_at_every_batch_is_the_same(
    store: str, spark: Any, runs: Callable[[str], Runs], crash_count: Callable[[int, int], int]
) -> None:
    name, options = STORES[store]
    found = runs(name)
    batches = sorted(found.reference.rows)
    chosen = sorted({*batches[1 :: crash_count(5, 1)], batches[0], batches[-1]})
    states = []
    for batch in chosen:
        states.append(read(spark, found.reference, batchId=batch, **options))
        for kept, ours in found.ours.items():
            assert read(spark, ours, batchId=batch, **options) == states[-1], (kept, batch)
    assert any(states)
    for kept, ours in found.ours.items():
        assert read(spark, ours, **options) == states[-1], (kept, "the newest, if none is named")
    assert any(state != states[-1] for state in states)


def test_sides_of_a_join_are_the_same(spark: Any, runs: Callable[[str], Runs]) -> None:
    found = runs("join_full_outer")
    for side, batch in (("left", 2), ("right", last_batch(found.reference) - 1)):
        due = read(spark, found.reference, joinSide=side, batchId=batch)
        assert due
        for kept, ours in found.ours.items():
            assert read(spark, ours, joinSide=side, batchId=batch) == due, kept


@pytest.mark.parametrize("name", ["aggregate_windows_append", "join_full_outer"])
def test_metadata_is_the_same(name: str, spark: Any, runs: Callable[[str], Runs]) -> None:
    found = runs(name)
    due = read(spark, found.reference, "state-metadata")
    assert len(due) >= 1
    for kept, ours in found.ours.items():
        assert read(spark, ours, "state-metadata") == due, kept


@pytest.mark.crash
@pytest.mark.parametrize("store", STORES)
def test_change_feed_is_the_same(
    store: str, spark: Any, runs: Callable[[str], Runs], crash_count: Callable[[int, int], int]
) -> None:
    name, options = STORES[store]
    found = runs(name)
    last = last_batch(found.reference)
    due = net(read_in_order(spark, found.reference, **span(0, last), **options))
    assert {row[1] for row in due} == {"update", "delete"}
    for first, end in [(0, last), (2, 4), (last, last)][: crash_count(2, 3)]:
        part = [row for row in due if first <= row[0] <= end]
        assert part or first == end
        for kept, ours in found.ours.items():
            assert read(spark, ours, **span(first, end), **options) == part, (kept, first, end)


def span(first: int, end: int) -> dict[str, Any]:
    return {"readChangeFeed": "true", "changeStartBatchId": first, "changeEndBatchId": end}


def net(feed: list[Any]) -> list[Any]:
    """What each batch changed in the end: Spark's own provider tells of every call on the way."""
    last = {(row[0], row[2]): row for row in feed}
    there: set[Any] = set()
    kept = []
    for (_, key), row in sorted(last.items(), key=lambda pair: pair[0][0]):
        if row[1] == "update":
            there.add(key)
        elif key not in there:
            continue  # made and removed by one batch
        else:
            there.remove(key)
        kept.append(row)
    return sorted(kept, key=repr)


def test_footprints_were_renewed(runs: Callable[[str], Runs]) -> None:
    """Else none could have shown in the change feeds."""
    for name, _ in STORES.values():
        for kept, ours in runs(name).ours.items():
            assert ours.sum_of("cecCheckRecordsWritten") > 0, (name, kept)


def test_state_from_any_snapshot_batch_is_that_of_the_batch(
    spark: Any, runs: Callable[[str], Runs]
) -> None:
    """We take no snapshots: any batch will do as the one to start from."""
    found = runs("aggregate_windows_append")
    last = last_batch(found.reference)
    whole = read(spark, found.reference, batchId=last)
    assert whole
    for partition, start, kept in product((0, 1), (0, last), KEPT):
        options = {"snapshotStartBatchId": start, "snapshotPartitionId": partition}
        due = [row for row in whole if row[-1] == partition]
        assert read(spark, found.ours[kept], batchId=last, **options) == due


def test_batch_that_is_not_there_any_more_is_refused(spark: Any, tmp_path: Path) -> None:
    settings = {"spark.sql.streaming.minBatchesToRetain": "1", **FEW_RECORDS}
    query = QUERIES["aggregate_windows_append"]
    [ours] = run(spark, Job(query, tmp_path, Kept(settings=settings)))
    assert read(spark, ours, batchId=last_batch(ours)) == read(spark, ours)
    with pytest.raises(Exception, match=r"(?i)batch|version|not") as refused:
        read(spark, ours, batchId=0)
    assert "0" in str(refused.value)
