"""Fleets to which anything happens, over real queues and checkpoints: each row comes once.

Executors are lost and come, drivers die between any two steps, fleets go back and are forked.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cec_store import open_queue
from cec_store.connectors.spark.fleet import checkpointing, going_back
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.notes import GlobalCheckpoint
from cec_store.errors import DiskFull, NoGlobalCheckpoint
from support.fleets import plain_spark
from support.fleets.plain_spark import INPUTS, SHAPE, PlainSpark
from support.fleets.walks import EXECUTORS, SETTLED_STEPS, Walk, driver_of
from support.runs.counts import crash_cases

STEPS = 40


@pytest.mark.crash
def test_each_row_comes_once_whatever_happens(
    tmp_path: Path, crash_count: Callable[[int, int], int], tally: Callable[[int], None]
) -> None:
    """Correlated failures with random victims, moments and arrivals, and deaths of the driver."""
    outages = rollbacks = 0
    for seed in range(crash_count(2, 50)):
        walk = Walk(tmp_path / str(seed), seed)
        walk.run(STEPS, walk.go_back)
        walk.settle()
        assert walk.faults() == [], f"seed {seed}"
        outages += walk.outages
        rollbacks += walk.rollbacks
    assert outages > 0
    assert rollbacks > 0
    tally(outages)


def test_a_fork_goes_on_from_where_it_was_made(tmp_path: Path) -> None:
    walk = Walk(tmp_path / "first", 5)
    walk.run(30)
    walk.settle()
    while not walk.fleet.folder.checkpoints():
        walk.look()
    newest = walk.fleet.folder.newest_checkpoint()
    assert newest is not None
    going_back.fork_fleet(walk.fleet.folder, tmp_path / "forked", newest)
    walk.feed()
    fork = Fleet.at(tmp_path / "forked")
    engine = PlainSpark(EXECUTORS, walk.dice)
    driver = driver_of(fork, engine, walk.now_s)
    queues = {name: tmp_path / "forked" / "queues" / name for name in SHAPE}
    for _ in range(SETTLED_STEPS):
        walk.now_s += 0.1
        driver.look(walk.now_s)
        for _ in range(10):
            engine.step()
        if not plain_spark.differences(walk.folder, queues):
            break
    assert plain_spark.differences(walk.folder, queues) == []
    walk.settle()
    assert walk.faults() == []


def test_inputs_are_not_kept_for_a_fork_that_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk, oldest = with_checkpoint(tmp_path / "first")
    before = consumers_of(walk)

    def refused(*_: object) -> None:
        raise DiskFull("no space is left")

    monkeypatch.setattr(going_back, "copy_at", refused)
    with pytest.raises(DiskFull):
        going_back.fork_fleet(walk.fleet.folder, tmp_path / "forked", oldest)
    assert consumers_of(walk) == before


def consumers_of(walk: Walk) -> dict[str, list[str]]:
    consumers = {}
    for name in INPUTS:
        with plain_spark.opened(walk.folder / name) as queue:
            consumers[name] = [consumer.name for consumer in queue.consumers()]
    return consumers


def with_checkpoint(folder: Path) -> tuple[Walk, GlobalCheckpoint]:
    """A walk that has gone on for a while behind a global checkpoint that has something in it."""
    walk = Walk(folder, 1)
    walk.until_checkpoint()
    for _ in range(30):
        walk.feed()
        walk.look()
        for _ in range(10):
            walk.engine.step()
    folder_of = walk.fleet.folder
    return walk, folder_of.checkpoint(folder_of.checkpoints()[0])


def test_what_a_global_checkpoint_needs_is_not_trimmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk, oldest = with_checkpoint(tmp_path / "right")
    for name in (*SHAPE, *INPUTS):
        with plain_spark.opened(walk.folder / name) as queue:
            queue.trim()
    starts = open_queue(walk.folder / "a").starts()  # type: ignore[union-attr]
    assert any(starts.values())
    going_back.check_is_kept(walk.fleet.folder, walk.fleet.folder.read(), oldest)
    of_others = replace(oldest, queues=dict.fromkeys(oldest.queues, "f" * 32))
    with pytest.raises(NoGlobalCheckpoint, match="another one is here now"):
        going_back.check_is_kept(walk.fleet.folder, walk.fleet.folder.read(), of_others)

    # The planted bug: buffers are trimmed to what has been read, before the global checkpoint.
    release = checkpointing.Holds.release

    def too_far(holds: checkpointing.Holds, oldest: GlobalCheckpoint) -> None:
        ends = {queue: tuple(ends_of(queue)) for queue in oldest.needed}
        release(holds, replace(oldest, needed=ends))

    monkeypatch.setattr(checkpointing.Holds, "release", too_far)
    walk, oldest = with_checkpoint(tmp_path / "wrong")
    for name in (*SHAPE, *INPUTS):
        with plain_spark.opened(walk.folder / name) as queue:
            queue.trim()
    with pytest.raises(NoGlobalCheckpoint, match="it is trimmed"):
        going_back.check_is_kept(walk.fleet.folder, walk.fleet.folder.read(), oldest)


class Killed(BaseException):
    """As by SIGKILL: nothing that was begun is put right."""


@pytest.mark.parametrize("at", crash_cases((0, 4, 9), range(12)))
def test_a_rollback_that_is_killed_before_any_step_is_finished_by_the_next_driver(
    tmp_path: Path, at: int
) -> None:
    walk, oldest = with_checkpoint(tmp_path)
    folder = walk.fleet.folder
    steps = 0

    def check() -> None:
        nonlocal steps
        if steps == at:
            raise Killed
        steps += 1

    with pytest.raises(Killed):
        going_back.roll_back(folder, folder.read(), oldest, check)
    # The first step is to note what is to be done.
    assert (folder.read().going_back is None) is (at == 0)
    walk.drive()
    assert folder.read().generation == int(at > 0)
    assert folder.read().going_back is None
    walk.settle()
    assert walk.faults() == []


def with_idle_query(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Walk, GlobalCheckpoint]:
    """Make a walk as :func:`with_checkpoint`, in which the query c could never start so far."""
    start = PlainSpark.start

    def refusing(engine: PlainSpark, query: Any, checkpoint: str) -> Any:
        if query.name == "c":
            raise RuntimeError("no such column")
        return start(engine, query, checkpoint)

    with monkeypatch.context() as planted:
        planted.setattr(PlainSpark, "start", refusing)
        walk, oldest = with_checkpoint(folder)
    assert oldest.batches["c"] is None
    return walk, oldest


def test_a_query_that_has_never_done_a_batch_keeps_no_fleet_from_going_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output is not there, and neither is anything of those that read it."""
    walk, oldest = with_idle_query(tmp_path / "first", monkeypatch)
    folder = walk.fleet.folder
    going_back.fork_fleet(folder, tmp_path / "forked", oldest)
    going_back.roll_back(folder, folder.read(), oldest, lambda: None)
    walk.drive()
    walk.settle()
    assert walk.faults() == []


def test_a_rollback_checks_what_each_reader_of_a_queue_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another reader has no batch: by the least that is needed nothing of it had been read."""
    walk, oldest = with_idle_query(tmp_path, monkeypatch)
    assert oldest.batches["b"] is not None
    assert not any(oldest.needed[str(tmp_path / "a")])
    with plain_spark.opened(tmp_path / "a") as queue:
        queue.set_retention(1)
        queue.trim()
    folder = walk.fleet.folder
    before = folder.read()
    with pytest.raises(NoGlobalCheckpoint, match="it is trimmed"):
        going_back.roll_back(folder, before, oldest, lambda: None)
    assert folder.read() == before


def test_an_output_that_is_gone_is_no_output_that_was_never_made(tmp_path: Path) -> None:
    walk, oldest = with_checkpoint(tmp_path)
    (tmp_path / "e" / "log").rename(tmp_path / "log of e")
    folder = walk.fleet.folder
    before = folder.read()
    with pytest.raises(NoGlobalCheckpoint, match="no queue here"):
        going_back.roll_back(folder, before, oldest, lambda: None)
    assert folder.read() == before


def ends_of(queue: str) -> list[int]:
    return list(plain_spark.opened(Path(queue)).ends().values())


def test_a_rollback_of_one_query_alone_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: its queue and its checkpoint go back, and those of the others stay."""
    walk, oldest = with_checkpoint(tmp_path)
    folder = walk.fleet.folder
    notes = folder.read()
    alone = {"a": oldest.batches["a"]}
    newest = {name: folder.checkpoint_of(name, 0) for name in SHAPE if name != "a"}
    for name, place in newest.items():
        done = [int(each.name) for each in (Path(place) / "commits").glob("[0-9]*")]
        alone[name] = max(done, default=None)
    commits = {walk.fleet.checked().queries["a"].writes: oldest.commits[str(tmp_path / "a")]}
    monkeypatch.setattr(going_back, "check_is_kept", lambda *_: None)
    wanted = replace(oldest, batches=alone, commits=commits)
    folder.drop_checkpoints(above=oldest.number - 1)
    folder.add_checkpoint(wanted, 100)
    going_back.roll_back(folder, notes, wanted, lambda: None)
    walk.drive()
    try:
        walk.settle()
        faults = walk.faults()
    except ValueError as error:  # it draws an offset behind the end of what it reads
        faults = [str(error)]
    assert [each for each in faults if "is too much" in each or "empty range" in each]
