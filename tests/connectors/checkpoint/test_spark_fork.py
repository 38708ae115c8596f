"""Real queries go on from forks as if they had stopped at that batch; the old ones as if not."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cec_store import NotAQueue, OutOfRange, StateLog, fork, read_state
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from support.places.checkpoints import tree_of
from support.places.state_logs import contents
from support.spark.inputs import Inputs
from support.spark.queries import QUERIES, StreamQuery
from support.spark.runs import (
    FEW_RECORDS,
    REFERENCE,
    STORE,
    Kept,
    Run,
    settings_of,
    take_progress,
    taker,
)
from support.spark.transforms import scala

FILES = 5
CHOSEN = ("deduplicate_then_aggregate", "join_then_aggregate")
# A batch for each file and none without data, so that a run can stop after any.
BATCHES = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
KEPT = {version: Kept(version=version, settings={**FEW_RECORDS, **BATCHES}) for version in (1, 2)}


@pytest.fixture(autouse=True, scope="module")
def _compacting(spark: Any) -> Iterator[None]:
    """The file source's list of files is compacted at every other one. It looks when it likes."""
    with settings_of(spark, {"spark.sql.streaming.fileSource.log.compactInterval": "2"}):
        yield


@dataclass
class Leg:
    """A query that reads all that is in its folder, from where its checkpoint stands."""

    query: StreamQuery
    inputs: Path
    checkpoint: Path
    kept: Kept
    done: Run = field(init=False, repr=False)

    def start(self, spark: Any) -> Any:
        self.done = Run(self.checkpoint)
        with settings_of(spark, {**self.query.conf, **self.kept.of(0)}):
            writer = self.query.build(spark, Inputs(self.inputs)).writeStream
            writer = writer.outputMode(self.query.mode).foreachBatch(taker(self.done, False))
            writer = writer.option("checkpointLocation", str(self.checkpoint))
            return writer.trigger(availableNow=True).start()


def go(spark: Any, *legs: Leg) -> list[Run]:
    """All to their ends, side by side."""
    running = [leg.start(spark) for leg in legs]
    for each, leg in zip(running, legs, strict=True):
        each.awaitTermination()
        take_progress(each, leg.done)
    return [leg.done for leg in legs]


def states(checkpoint: Path, batch: int) -> dict[tuple[int, int, str], dict[Any, bytes]]:
    found = Checkpoint(checkpoint)
    return {
        (operator, partition, store): contents(
            StateLog(folder).rebuild(
                at=found.unique_id(batch, operator, partition, store) or batch + 1
            )
        )
        for operator, partition, store, folder in found.state_folders()
    }


def files(folder: Path, numbers: range) -> Path:
    Inputs(folder).write(numbers)
    return folder


@dataclass(frozen=True)
class Old:
    leg: Leg
    run: Run


@pytest.fixture(scope="module")
def old(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[Old]]:
    """Each query over all files, once for the tests that only look at it."""

    @cache
    def of(version: int) -> list[Old]:
        folder = tmp_path_factory.mktemp("old")
        legs = [
            Leg(
                QUERIES[name],
                files(folder / name / "input", range(FILES)),
                folder / name / "checkpoint",
                KEPT[version],
            )
            for name in CHOSEN
        ]
        runs = go(spark, *legs)
        for run in runs:
            assert sorted(run.rows) == list(range(FILES))
            assert any(run.rows.values())
        assert sum(run.removed() for run in runs) > 0
        return [Old(leg, run) for leg, run in zip(legs, runs, strict=True)]

    return of


@pytest.mark.crash
@pytest.mark.parametrize("version", KEPT)
def test_a_fork_runs_on_as_the_old_query_did(
    version: int,
    spark: Any,
    old: Callable[[int], list[Old]],
    tmp_path: Path,
    crash_count: Callable[[int, int], int],
) -> None:
    cases: list[tuple[Old, int, Leg]] = []
    before = {each.leg.query.name: tree_of(each.leg.checkpoint) for each in old(version)}
    for each in old(version):
        for batch in range(FILES)[crash_count(2, 0) :: crash_count(3, 1)]:
            new = tmp_path / each.leg.query.name / f"new {batch}"
            assert fork(each.leg.checkpoint, new, batch=batch).batch == batch
            cases.append((each, batch, replace(each.leg, checkpoint=new)))
    for each, batch, leg in cases:
        assert states(leg.checkpoint, batch) == states(each.leg.checkpoint, batch)
    go(spark, *(leg for _, _, leg in cases))
    for each, batch, leg in cases:
        what = (leg.query.name, batch)
        for due, got in ((each.run.rows, leg.done.rows), (each.run.metrics, leg.done.metrics)):
            assert got == {b: value for b, value in due.items() if b > batch}, what
        assert states(leg.checkpoint, FILES - 1) == states(each.leg.checkpoint, FILES - 1), what
    for each in old(version):
        assert tree_of(each.leg.checkpoint) == before[each.leg.query.name], (
            "the old one is as it was"
        )


@pytest.mark.parametrize("version", KEPT)
def test_on_other_input_a_fork_equals_a_run_that_had_stopped_there(
    version: int, spark: Any, old: Callable[[int], list[Old]], tmp_path: Path
) -> None:
    batch, other = 1, range(20, 21)
    forks, stopped = [], []
    for each in old(version):
        new, found = tmp_path / each.leg.query.name / "new", Checkpoint(each.leg.checkpoint)
        fork(each.leg.checkpoint, new, at=found.offsets(batch).timestamp_us)
        forks.append(replace(each.leg, checkpoint=new))
        first = files(tmp_path / each.leg.query.name / "input", range(batch + 1))
        stopped.append(replace(each.leg, inputs=first, checkpoint=first.parent / "stopped"))
    for run in go(spark, *stopped):
        assert sorted(run.rows) == [0, 1]
    with ExitStack() as stack:
        for leg in forks:
            stack.enter_context(swapped(leg.inputs, range(batch + 1, FILES), other))
        for leg in stopped:
            files(leg.inputs, other)
        go(spark, *forks, *stopped)
    for each, due, got in zip(old(version), stopped, forks, strict=True):
        assert sorted(got.done.rows) == [2]
        assert got.done.rows == due.done.rows
        assert got.done.metrics == due.done.metrics
        assert states(got.checkpoint, 2) == states(due.checkpoint, 2)
        assert states(got.checkpoint, 2) != states(each.leg.checkpoint, 2), "it was other input"


@contextmanager
def swapped(inputs: Path, away: range, there: range) -> Iterator[None]:
    """For a while some files are hidden and others there: the file source reads one folder only."""
    named = [(inputs / side / f"{n:04}.json", n) for side in ("left", "right") for n in away]
    for path, _ in named:
        path.rename(path.with_name("_" + path.name))
    files(inputs, there)
    yield
    for side in ("left", "right"):
        for number in there:
            (inputs / side / f"{number:04}.json").unlink()
    for path, _ in named:
        path.with_name("_" + path.name).rename(path)


@pytest.mark.parametrize("version", KEPT)
def test_the_old_query_can_go_on_after_it_was_forked(
    version: int, spark: Any, old: Callable[[int], list[Old]], tmp_path: Path
) -> None:
    """It and a fork of its end read the same new file, with links from one into the other."""
    leg, copied, new = old(version)[0].leg, tmp_path / "copied", tmp_path / "new"
    shutil.copytree(leg.checkpoint, copied)
    with swapped(leg.inputs, range(0), range(FILES, FILES + 1)):
        go(spark, replace(leg, checkpoint=copied))  # so that there is a segment to be linked
    assert fork(copied, new, batch=FILES).linked_files > 0
    before = states(new, FILES)
    with swapped(leg.inputs, range(0), range(FILES, FILES + 2)):
        [run] = go(spark, replace(leg, checkpoint=copied))
        assert states(new, FILES) == before
        assert sorted(run.rows) == [FILES + 1]
        [forked] = go(spark, replace(leg, checkpoint=new))
    assert (forked.rows, forked.metrics) == (run.rows, run.metrics)
    assert states(new, FILES + 1) == states(copied, FILES + 1) != before


def test_a_query_can_be_forked_while_it_runs(spark: Any, tmp_path: Path) -> None:
    """With old versions being forgotten; one query in each checkpoint format."""
    legs = []
    for version in KEPT:
        kept = Kept(version=version, settings={
            **BATCHES, "spark.sql.streaming.minBatchesToRetain": "3",
            STORE + "cec.segmentBytes": str(64 << 10),
        })  # fmt: skip
        many = files(tmp_path / f"input {version}", range(7))
        old = tmp_path / f"old {version}"
        legs.append(Leg(QUERIES["deduplicate_then_aggregate"], many, old, kept))
    running = [leg.start(spark) for leg in legs]
    forks: dict[Path, dict[int, Path]] = {leg.checkpoint: {} for leg in legs}
    while any(each.isActive for each in running):
        for leg in legs:
            done = Checkpoint(leg.checkpoint).committed_batches() if leg.done.rows else []
            if done and done[-1] not in forks[leg.checkpoint]:
                new = tmp_path / f"{leg.checkpoint.name} at {done[-1]}"
                forks[leg.checkpoint][done[-1]] = new
                fork(leg.checkpoint, new, batch=done[-1])
    for each in running:
        each.awaitTermination()
    gone_on = []
    for leg in legs:
        assert len(forks[leg.checkpoint]) >= 3
        batch, new = sorted(forks[leg.checkpoint].items())[-3]
        gone_on.append((batch, leg, replace(leg, checkpoint=new)))
    go(spark, *(leg for _, _, leg in gone_on))
    for batch, leg, forked in gone_on:
        due = {b: rows for b, rows in leg.done.rows.items() if b > batch}
        assert forked.done.rows == due
        assert states(forked.checkpoint, 6) == states(leg.checkpoint, 6)


def test_the_earliest_that_a_refusal_names_can_be_gone_on_from(spark: Any, tmp_path: Path) -> None:
    kept = Kept(settings={**BATCHES, "spark.sql.streaming.minBatchesToRetain": "2"})
    leg = Leg(
        QUERIES["drop_duplicates"], files(tmp_path / "in", range(FILES)), tmp_path / "old", kept
    )
    [run] = go(spark, leg)
    with pytest.raises(OutOfRange, match=r"the earliest that can be forked is batch \d") as caught:
        fork(leg.checkpoint, tmp_path / "new", batch=0)
    earliest = int(str(caught.value).split("can be forked is batch ")[1].split(",")[0])
    assert earliest > 1
    fork(leg.checkpoint, tmp_path / "new", batch=earliest)
    [again] = go(spark, Leg(leg.query, leg.inputs, tmp_path / "new", kept))
    assert again.rows == {batch: rows for batch, rows in run.rows.items() if batch > earliest}
    with pytest.raises(OutOfRange, match=f"is batch {earliest},"):
        fork(leg.checkpoint, tmp_path / "other", batch=earliest - 1)


def joined_with_itself(spark: Any, inputs: Inputs) -> Any:
    """Both sides are one frame, which Spark reads as two sources."""
    left = inputs.timed(spark).select("key", "ts", "n")
    return left.alias("a").join(left.alias("b"), ["key", "ts"]).selectExpr("key", "a.n", "b.n AS m")


def test_a_source_that_is_read_twice_is_cut_twice(spark: Any, tmp_path: Path) -> None:
    twice = StreamQuery("joined with itself", joined_with_itself)
    leg = Leg(twice, files(tmp_path / "in", range(4)), tmp_path / "old", KEPT[1])
    [run] = go(spark, leg)
    assert set(Checkpoint(leg.checkpoint).offsets(1).sources) == {"0", "1"}
    fork(leg.checkpoint, tmp_path / "new", batch=1)
    [again] = go(spark, Leg(leg.query, leg.inputs, tmp_path / "new", KEPT[1]))
    assert again.rows == {batch: rows for batch, rows in run.rows.items() if batch > 1}
    assert any(again.rows.values())


def test_a_fork_of_variables_needs_nothing_of_the_old_one(spark: Any, tmp_path: Path) -> None:
    """Spark notes the whole paths of their schemas."""
    leg = Leg(scala("event"), files(tmp_path / "in", range(3)), tmp_path / "old", KEPT[1])
    [run] = go(spark, leg)
    fork(leg.checkpoint, tmp_path / "new", batch=1)
    leg.checkpoint.rename(tmp_path / "away")
    assert read_state(tmp_path / "new", variable="items").num_rows > 0
    [again] = go(spark, Leg(leg.query, leg.inputs, tmp_path / "new", KEPT[1]))
    assert again.rows == {batch: rows for batch, rows in run.rows.items() if batch > 1}


def test_state_of_another_provider_is_refused(spark: Any, tmp_path: Path) -> None:
    leg = Leg(
        QUERIES["drop_duplicates"], files(tmp_path / "in", range(2)), tmp_path / "old", REFERENCE
    )
    go(spark, leg)
    with pytest.raises(NotAQueue, match=r"kept by .*HDFSBackedStateStoreProvider"):
        fork(leg.checkpoint, tmp_path / "new", batch=1)
    assert not (tmp_path / "new").exists()
