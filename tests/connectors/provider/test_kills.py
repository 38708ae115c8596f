"""Spark is killed: drivers, executors, tasks and queries. The output is what it would have been."""

import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.drivers.killed_queries import QUERIES, faults_of
from support.runs.minors import needs_transform_in_rows
from support.spark.killed_runs import Driver, check

pytest.importorskip("pyspark")
pytestmark = pytest.mark.crash

LIFE_S_MAX = 400
"""One Spark driver, from start to end, on a busy machine."""
PARTITIONS = 2
IN_ONE_PROCESS = ("kill_task", "kill_commit", "cancel", "stop", "stop_at_once")
SPECULATED = "as speculatable"
"""In the driver's log, of each task that it runs a second time."""
IN_A_CLUSTER = ("kill_executor", "stop", "kill_executor", "cancel", "kill_executor")
WITH_PYTHON = ("kill_task", "kill_commit", "kill_python", "stop", "kill_python")
PYTHON_APART = ("kill_executor", "stop", "kill_python", "kill_executor", "kill_python")
# `hdfs` runs the same rounds with Spark's own store: is it the provider that fails, or the test?
PROVIDER = os.environ.get("CEC_SPARK_PROVIDER", "cec")


@dataclass(frozen=True)
class Scenario:
    query: str
    master: str
    checkpoint_version: int
    rounds: tuple[str, ...]
    lives: tuple[int, int]
    """In `make test` and in `make crash`."""
    rounds_per_life: int = 5
    speculates: bool = False
    """Spark runs a task twice at a time, each in an executor of its own."""
    renews: bool = False
    """Keys of long ago are among its state, so that their footprints have to be written again."""

    @property
    def conf(self) -> dict[str, str]:
        stores = {
            "checkpointFormatVersion": str(self.checkpoint_version),
            # So that maintenance runs while things are killed, and has something to delete.
            "maintenanceInterval": "1s",
            "minDeltasForSnapshot": "5",
            "cec.segmentBytes": "256k",
            "cec.extentFactor": "1.25",
        }
        speculation = {"": "true", ".interval": "20ms", ".minTaskRuntime": "1ms"}
        # As soon as one of two tasks is done, the other one is late.
        speculation |= {".quantile": "0.5", ".multiplier": "1.01"}
        return {
            **{f"spark.sql.streaming.stateStore.{name}": each for name, each in stores.items()},
            "spark.sql.streaming.minBatchesToRetain": "5",
            # What a killed executor takes with it is no fault of the tasks.
            "spark.task.maxFailures": "20",
            "spark.stage.maxConsecutiveAttempts": "20",
            **{f"spark.speculation{n}": each for n, each in speculation.items() if self.speculates},
        }


IN_ONE, IN_TWO = "local[2,20]", "local-cluster[2,1,1024]"
SCENARIOS = {
    "running": Scenario("running", IN_ONE, 1, IN_ONE_PROCESS, (2, 6), renews=True),
    "join": Scenario("join", IN_TWO, 2, IN_A_CLUSTER, (2, 8), rounds_per_life=3, speculates=True),
    "windows": Scenario("windows", IN_ONE, 2, IN_ONE_PROCESS, (0, 5)),
    "join again": Scenario("join", IN_TWO, 1, IN_A_CLUSTER, (0, 5), speculates=True),
    "transform": Scenario("transform", IN_ONE, 1, WITH_PYTHON, (0, 12), rounds_per_life=4),
    "transform apart": Scenario("transform", IN_TWO, 2, PYTHON_APART, (0, 12), rounds_per_life=4),
    "running apart": Scenario("running", IN_TWO, 2, IN_A_CLUSTER, (0, 5), renews=True),
}


@dataclass(frozen=True)
class Life:
    """Of one driver."""

    seed: int
    rounds: tuple[str, ...]
    killed: bool
    """At the end, with SIGKILL, and all its processes."""

    @property
    def kills(self) -> int:
        return len(self.rounds) + self.killed


def lives_of(name: str, count: int) -> list[Life]:
    """All but the last are killed."""
    scenario = SCENARIOS[name]
    lives = []
    for number in range(count):
        seed = 1000 * list(SCENARIOS).index(name) + number
        dice = random.Random(seed)
        last = number == count - 1
        rounds = dice.sample(scenario.rounds, 1 if last else scenario.rounds_per_life)
        lives.append(Life(seed, tuple(rounds), killed=not last))
    return lives


def live(folder: Path, scenario: Scenario, life: Life) -> list[dict[str, Any]]:
    """One driver's life; what it said."""
    order = {
        "folder": str(folder), "query": scenario.query, "master": scenario.master,
        "conf": scenario.conf, "provider": PROVIDER, "seed": life.seed,
        "rounds": life.rounds, "then": "run" if life.killed else "stop",
    }  # fmt: skip
    driver = Driver("killed_job", order, folder / f"driver-{life.seed}.log", LIFE_S_MAX)
    said = []
    try:
        for event in driver.events():
            said.append(event)
            if "ready" in event:
                time.sleep(random.Random(life.seed).uniform(0, 1.5))
                driver.kill()
    finally:
        driver.kill()
        status = driver.close()
    wanted = -signal.SIGKILL if life.killed else 0
    rounds = [event["round"] for event in said if "round" in event]
    if status != wanted or rounds != list(life.rounds):
        tail = driver.log.read_text(errors="replace")[-6000:]
        raise AssertionError(f"status {status}, not {wanted}, after {said}; its log ends:\n{tail}")
    return said


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs_transform_in_rows if each.query == "transform" else ())
        for name, each in SCENARIOS.items()
    ],
)
def test_killed_spark_gives_each_row_once(
    name: str, tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    scenario = SCENARIOS[name]
    lives = lives_of(name, crash_count(*scenario.lives))
    if not lives:
        pytest.skip("at full size only")
    batches = kills = 0
    said: list[dict[str, Any]] = []
    for life in lives:
        try:
            said += live(tmp_path, scenario, life)
            before, batches = batches, check(tmp_path, scenario.query, PARTITIONS, PROVIDER)
        except Exception as error:
            saved = Path(tempfile.mkdtemp(prefix="cec-spark-kill-")) / "job"
            shutil.copytree(tmp_path, saved)
            raise AssertionError(
                f"{name}, seed {life.seed}, rounds {life.rounds}: {error}\nits files: {saved}"
            ) from error
        assert batches > before, "it has not moved: the test proves nothing"
        kills += life.kills
    again, renewed = (sum(event.get(what, 0) for event in said) for what in ("again", "renewed"))
    twice = sum(log.read_text(errors="replace").count(SPECULATED) for log in tmp_path.glob("*.log"))
    for event in said:
        print(name, json.dumps(event))
    print(
        f"{name}: {kills} kills, {batches} batches, {again} of them written twice, "
        f"{renewed} footprints renewed, {twice} tasks run twice at a time"
    )
    assert renewed > 0 or not scenario.renews
    assert twice > 0 or not scenario.speculates


@pytest.mark.parametrize(("size", "at_least"), [(0, 10), (1, 100)])
def test_enough_kills(size: int, at_least: int) -> None:
    lives = [life for name, each in SCENARIOS.items() for life in lives_of(name, each.lives[size])]
    assert sum(life.kills for life in lives) >= at_least
    done = {round_ for life in lives for round_ in life.rounds}
    assert done == {*IN_ONE_PROCESS, *IN_A_CLUSTER, *(WITH_PYTHON if size else ())}


def came_right(batches: int) -> pa.Table:
    query = QUERIES["windows"]
    due = query.compute(query.rows, batches)
    return due.append_column("batch", due["first"]).filter(pa.compute.less(due["first"], batches))


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda rows: rows, None),
        (lambda rows: rows.slice(1), "lost"),
        (lambda rows: pa.concat_tables([rows, rows.slice(5, 1)]), "came twice"),
        (lambda rows: rows.set_column(2, "n", pa.compute.add(rows["n"], 1)), "wrong"),
        (lambda rows: rows.set_column(6, "batch", pa.compute.add(rows["batch"], 1)), "wrong time"),
    ],
)
def test_faults_would_be_seen(spoil: Callable[[pa.Table], pa.Table], fault: str | None) -> None:
    rows = came_right(8)
    assert rows.num_rows > 1000
    came = spoil(rows).select([*QUERIES["windows"].columns, "batch"])
    faults = faults_of(QUERIES["windows"], came, 8)
    assert (fault is None and not faults) or any(str(fault) in text for text in faults)
