"""A fleet on a cluster of its own, whose machines are lost together and come back one by one.

Started by `fleet.py` and `papers/recovery.py` as a process. The task stands in a JSON file, and so
do the outcomes: of each case in turn, on the same cluster and the same queues.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.fleet.outcomes import lateness_of, unavailable
from bench.fleet.topology import Shape, Tweets, declared
from bench.harness.apart import run_apart
from bench.harness.rounds import WORK
from cec_store.connectors.spark.fleet.driver import FleetDriver
from cec_store.connectors.spark.fleet.rules import Rules
from support.spark.standalone import StandaloneCluster, wait_for

INCREMENTAL, BLOCKING, SPARK, BEST_CASE = "incremental", "blocking", "spark", "best case"
KEPT = WORK / "outcomes"
NEVER = 1_000_000
LOOK_S = 0.5
STEADY, STEADY_BATCHES, STEADY_S_MAX = 1.3, 3, 600.0
SEEN_AFTER = 4
"""Intervals between triggers."""
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
    # Looked at each second; each look costs the driver all of them.
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    # Eleven JVMs on two cores: what they compute in threads of their own would be what is scarce.
    "spark.driver.extraJavaOptions": SMALL_JVM,
    "spark.executor.extraJavaOptions": SMALL_JVM,
    # One that has much to catch up with leaves the others their share, whatever the policy.
    "spark.scheduler.mode": "FAIR",
    # A core is kept for seconds at a time: a task goes where one is free, state and all.
    "spark.locality.wait": "0s",
    # What a killed executor takes with it is no fault of the tasks.
    "spark.task.maxFailures": "50",
    "spark.stage.maxConsecutiveAttempts": "50",
    "spark.excludeOnFailure.enabled": "false",
}


@dataclass(frozen=True)
class Case:
    """One loss of machines, and when others come in their place."""

    policy: str
    lost: int
    """Number of machines."""
    gaps_s: list[float]
    """Seconds before each machine that comes; the first from the loss on."""
    apart_s: float = 0.0
    """Seconds between losses; 0: all at once."""


@dataclass(frozen=True)
class Task:
    """One run of a fleet through its cases."""

    folder: Path
    windows: int
    tweets_per_s: int
    every_s: float
    executors: int
    cases: list[Case]
    settle_s: float
    """Seconds in which all is well before each loss."""
    horizon_s: float
    """Seconds that are looked at after each loss, unless all queries are available before."""
    cores_share: float = 0.4
    """Share of all cores that the rows of all queries keep busy. What batches cost comes on
    top, a fifth to a quarter on two slow cores: with 0.6 little was left to catch up with."""
    executor_mb: int = 576

    @property
    def shape(self) -> Shape:
        cores = self.cores_share * self.executors
        return Shape(self.windows, self.tweets_per_s, self.every_s, cores)


@dataclass
class Outcome:
    """Times of one loss and of all batches around it."""

    policy: str
    lost: int
    lost_s: float = 0.0
    """Wall clock, as are all."""
    arrived_s: list[float] = field(default_factory=list)
    ended_s: float = 0.0
    batches: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Batches by query: when each was done, and how late its rows were then on average, in s."""


class Latencies:
    """Latencies of all batches of the queries that run, as Spark reports them."""

    def __init__(self, session: Any) -> None:
        self._streams = session.streams
        self._seen: set[tuple[str, int]] = set()
        self.found: dict[str, list[tuple[float, float]]] = {}

    def look(self) -> None:
        for query in self._streams.active:
            for progress in query.recentProgress:
                self._take(str(query.runId), query.name, progress)

    def _take(self, run: str, name: str, progress: Any) -> None:
        place = (run, int(progress.batchId))
        mean = dict(progress.eventTime).get("avg")
        if place in self._seen or not mean:
            return
        self._seen.add(place)
        done_s = _epoch_s(progress.timestamp) + progress.durationMs["triggerExecution"] / 1e3
        self.found.setdefault(name, []).append((done_s, done_s - _epoch_s(mean)))


def _epoch_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class Lab:
    """Cluster, session and input, for one loss after the other."""

    def __init__(self, task: Task, tweets: Tweets) -> None:
        self.task = task
        self.tweets = tweets
        self.cluster = StandaloneCluster(
            task.folder / "cluster", task.executors, executor_mb=task.executor_mb
        )
        self.session = self._session()

    def _session(self) -> Any:
        from pyspark.sql import SparkSession

        from cec_store.connectors import spark

        builder = SparkSession.builder.master(self.cluster.url).appName("bench-fleet")
        for name, value in CONF.items():
            builder = builder.config(name, value)
        session = spark.configure(builder).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        return session

    def executors(self) -> int:
        return int(self.session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1

    def driven(self, policy: str) -> FleetDriver:
        """Spark alone is a fleet that takes nothing for a failure: it runs all on what there is."""
        in_turn = policy in (INCREMENTAL, BEST_CASE)
        lost = 2 if in_turn else NEVER
        rules = Rules(lost_executors=lost, checkpoint_s=5.0, wait_first_s=0.5)
        fleet = declared(self.task.folder, self.task.shape, rules)
        return fleet.start(self.session, accept=True, period_s=LOOK_S, in_turn=in_turn)

    def stop(self) -> None:
        self.session.stop()
        self.cluster.stop()


class Loss:
    """One loss under one policy, looked at until all queries are as they were."""

    def __init__(self, lab: Lab, case: Case) -> None:
        self.lab = lab
        self.case = case
        self.outcome = Outcome(case.policy, case.lost)
        self.latencies = Latencies(lab.session)
        self.names = lab.task.shape.outputs

    def run(self) -> Outcome:
        policy, task = self.case.policy, self.lab.task
        with self.lab.driven(policy):
            self.lab.tweets.stand()
            self._await_drained()
            self.latencies = Latencies(self.lab.session)
            self.lab.tweets.flow()
            self._await_steady()
            self._watch_until(time.time() + task.settle_s)
            self._lose()
            if policy != BLOCKING:
                self._arrive()
                self._watch_until(self.outcome.lost_s + task.horizon_s, self._is_well)
        if policy == BLOCKING:
            # All is stopped, and started once the last machine has come.
            self._arrive()
            with self.lab.driven(policy):
                self._watch_until(self.outcome.lost_s + task.horizon_s, self._is_well)
        self.outcome.ended_s = time.time()
        self.outcome.batches = self.latencies.found
        return self.outcome

    def _await_drained(self) -> None:
        """Wait until no query has anything left to read, while nothing is written."""
        idle = 0

        def is_idle() -> bool:
            nonlocal idle
            self._watch_until(time.time() + 1.0)
            seen = [query.status for query in self.lab.session.streams.active]
            is_so = len(seen) == len(self.lab.task.shape.reads) and not any(
                status["isDataAvailable"] or status["isTriggerActive"] for status in seen
            )
            idle = idle + 1 if is_so else 0
            return idle > 2 * self.lab.task.every_s

        wait_for(is_idle, lambda: "queries have something to read", STEADY_S_MAX)

    def _await_steady(self) -> None:
        """Wait until the rows of each query's batches are about as late in one as in the next."""

        def is_steady() -> bool:
            self._watch_until(time.time() + 1.0)
            late = [self._last(name, STEADY_BATCHES) for name in self.names]
            return all(len(e) == STEADY_BATCHES and max(e) < STEADY * min(e) for e in late)

        def seen() -> str:
            late = {name: self._last(name, STEADY_BATCHES) for name in self.names}
            return f"late: {late}"

        wait_for(is_steady, seen, STEADY_S_MAX)

    def _last(self, name: str, count: int) -> list[float]:
        return [late for _, late in self.latencies.found.get(name, [])[-count:]]

    def _lose(self) -> None:
        self.outcome.lost_s = time.time()
        for place, number in enumerate(self.lab.cluster.workers[: self.case.lost]):
            if place:
                self._watch_until(self.outcome.lost_s + place * self.case.apart_s)
            self.lab.cluster.kill_worker(number)
        left = self.lab.task.executors - self.case.lost
        wait_for(lambda: self.lab.executors() == left, lambda: "the loss is not noticed")

    def _arrive(self) -> None:
        """One machine after the other; with the best case all with the first."""
        gaps_s = self.case.gaps_s
        if self.case.policy == BEST_CASE:
            gaps_s = gaps_s[:1] + [0.0] * (len(gaps_s) - 1)
        due_s = self.outcome.lost_s
        for gap_s in gaps_s:
            due_s += gap_s
            self._watch_until(due_s)
            self.lab.cluster.add_workers(1)
            self.outcome.arrived_s.append(time.time())

    def _is_well(self) -> bool:
        latencies, outcome = self.latencies.found, self.outcome
        every_s = self.lab.task.every_s
        # What the last loss did to batches that were under way is seen once these are done.
        if time.time() < outcome.arrived_s[-1] + SEEN_AFTER * every_s:
            return False
        usual = lateness_of(latencies, self.names, outcome.lost_s)
        return not unavailable(latencies, usual, time.time(), every_s, every_s)

    def _watch_until(self, end_s: float, is_enough: Callable[[], bool] = lambda: False) -> None:
        while time.time() < end_s and not is_enough():
            time.sleep(max(0.0, min(1.0, end_s - time.time())))
            self.latencies.look()


def measure(task: Task) -> list[dict[str, Any]]:
    with Tweets(task.folder, task.shape) as tweets:
        lab = Lab(task, tweets)
        outcomes: list[dict[str, Any]] = []
        try:
            for case in task.cases:
                outcomes.append(asdict(Loss(lab, case).run()))
                _keep(task, outcomes)
            return outcomes
        finally:
            lab.stop()


def _keep(task: Task, outcomes: Sequence[Mapping[str, Any]]) -> None:
    """Keep what was told in ``build/bench/outcomes``: a run takes hours and may be cut short."""
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{task.folder.parent.name}-{task.folder.name}.json"
    path.write_text(json.dumps({"task": asdict(task), "outcomes": outcomes}, default=str))


def run(task: Task) -> list[Outcome]:
    """Run the task in a process group of its own, which is gone at the end."""
    told: Sequence[Mapping[str, Any]] = run_apart(__file__, task.folder, asdict(task))
    return [Outcome(**outcome) for outcome in told]


def main(path: str) -> None:
    told = json.loads(Path(path).read_text())
    cases = [Case(**case) for case in told["cases"]]
    outcomes = measure(Task(**{**told, "folder": Path(told["folder"]), "cases": cases}))
    Path(path).write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
