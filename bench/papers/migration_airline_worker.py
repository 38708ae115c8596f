"""The migration paper's job on a standalone cluster; started by paper_migration_airline.py.

Four queries, each an operator with its own key groups (state partitions): all flights, those that
were late, all flights again, and a sample at a fixed rate. The first three share four executors,
the fourth has one of its own. The load of a partition is what Spark's task metrics say of the rows
that came to it in a step: processor time would be that of compilers and neighbours as well, on one
machine for all executors, and the loads of two runs would not be the same.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.papers.migration_input import flights_by_step
from bench.simulators.placement.runs import Allocation
from cec_store.connectors.spark.executors.cluster import Cluster
from cec_store.connectors.spark.executors.driver_side import DriverSide
from cec_store.connectors.spark.executors.loads import LoadMeter
from cec_store.connectors.spark.executors.migration import await_all, order_all
from cec_store.connectors.spark.executors.planning import layout_of
from cec_store.connectors.spark.executors.snapshot import Move, PartitionId
from cec_store.placement.adaptation import plan
from cec_store.placement.allocation import baseline, correlated, even
from cec_store.placement.drafting import EQUAL, Draft, usable_copies
from cec_store.placement.layout import Floats
from cec_store.placement.loads import LoadHistory, mean_loads
from cec_store.placement.plans import Nodes, Rules
from support.spark.standalone import StandaloneCluster, wait_for

WORKERS, SAMPLERS = 4, 1
OPERATORS = ("all", "late", "again", "sample")
SAMPLER = "sample"
PEAK = 0.85
"""Share that nodes of the first three operators are full on average in the busiest step."""
OVERLOAD = 0.8
AVERAGED = 3
"""Steps whose mean load decides."""
WAIT_S = 300.0
AFTER = 30
"""Batches after the last step, in which what moves then gets to where it goes."""
AHEAD = 3
"""Batches that wait while operators move to where the job begins."""
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
}


@dataclass(frozen=True)
class Task:
    """One run of the job with one allocation."""

    folder: Path
    allocation: str
    groups: int
    """Key groups of each operator."""
    steps: int
    statistics: int
    """Steps before copies are allocated."""
    every_s: float
    """Seconds of a step."""
    seed: int = 0


@dataclass
class Outcome:
    """Counts and times of one run."""

    allocation: str
    moves: int = 0
    assisted: int = 0
    """Moves to an executor that had a replica when they were ordered."""
    from_replica: int = 0
    """Moves whose new owner had it from a replica, as it says itself."""
    on_overloaded: int = 0
    usable: int = 0
    overloaded_looks: int = 0
    """Nodes above the threshold, at each look."""
    looks: int = 0
    load_ms: list[int] = field(default_factory=list)
    """Milliseconds that each new owner loaded for."""
    direct_ms: list[int] = field(default_factory=list)
    """Milliseconds of those that moved directly, and of the moves before the statistics."""


class Job:
    """The four queries, watched step by step."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._input = task.folder / "flights"
        self._input.mkdir(parents=True)
        self._flights = flights_by_step(task.steps)
        self.queries: dict[str, Any] = {}
        self._before = 0
        """Batches before the first step."""
        self.keep_busy()
        self._cluster = StandaloneCluster(
            task.folder / "cluster", WORKERS + SAMPLERS, executor_mb=576
        )
        self.session = self._session()
        self.meter = LoadMeter(self.session)
        self.queries.update({name: self._start(name) for name in OPERATORS})
        self.cluster = Cluster(self.session)
        self.driver = DriverSide(self.session)

    def _write(self, name: str, flights: pa.Table) -> None:
        """A batch of each query."""
        pq.write_table(flights, self._input / f"{name}.parquet")

    def keep_busy(self) -> None:
        """Have batches wait that are none of the job's steps."""
        while self._before < self.batch + 1 + AHEAD:
            self._write(f"before-{self._before:05}", self._flights[-1])
            self._before += 1

    def begin(self) -> None:
        last = self._flights[-1:] * AFTER
        for number, flights in enumerate(self._flights + last):
            self._write(f"step-{number:05}", flights)

    def _session(self) -> Any:
        from pyspark.sql import SparkSession

        from cec_store.connectors import spark

        builder = SparkSession.builder.master(self._cluster.url).appName("bench-airline")
        conf = {**CONF, "spark.sql.shuffle.partitions": str(self.task.groups)}
        for name, value in conf.items():
            builder = builder.config(name, value)
        session = spark.configure(builder, replicas=1).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        return session

    def _start(self, name: str) -> Any:
        from pyspark.sql import functions as f

        schema = "tailnum string, dep_delay long, sampled boolean"
        reader = self.session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        rows = reader.parquet(str(self._input))
        if name == SAMPLER:
            rows = rows.where("sampled")
        elif name == "late":
            rows = rows.where("dep_delay > 0")
        counted = rows.groupBy("tailnum").agg(
            f.count("*").alias("n"), f.sum("dep_delay").alias("s")
        )
        writer = counted.writeStream.format("noop").outputMode("update").queryName(name)
        writer = writer.option("checkpointLocation", str(self.task.folder / "checkpoints" / name))
        return writer.trigger(processingTime=f"{self.task.every_s} seconds").start()

    @property
    def batch(self) -> int:
        """The last one that all queries have done; -1 before."""
        for query in self.queries.values():
            if not query.isActive:
                raise RuntimeError(f"{query.name} has ended: {query.exception()}")
        last = [query.lastProgress for query in self.queries.values()]
        return min(
            (-1 if progress is None else int(progress.batchId) for progress in last), default=-1
        )

    def last(self) -> int:
        """The step that each query has done; below 0 before the first one."""
        return self.batch - self._before

    def await_step(self, step: int) -> int:
        """Wait until each query has done this step; return the step that they have done then."""
        wait_for(lambda: self.last() >= step, lambda: f"at step {self.last()}", WAIT_S)
        return self.last()

    def stop(self) -> None:
        for query in self.queries.values():
            query.stop()
        self.session.stop()
        self._cluster.stop()


class Run:
    """One allocation from the first step to the last."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.task = job.task
        self.outcome = Outcome(job.task.allocation)
        self._history = LoadHistory(job.task.steps)
        self._loads: dict[Hashable, float] = {}
        self._random = np.random.default_rng(job.task.seed)

    def run(self) -> Outcome:
        task = self.task
        wait_for(lambda: self.job.batch >= 0, lambda: "no batch is done", WAIT_S)
        self._spread()
        self.job.begin()
        self.job.await_step(0)
        self.job.meter.read()
        step = 0
        while step < task.statistics:
            step = self._look(step)
        capacity = self._capacity()
        self._allocate()
        self.job.meter.read()
        step = self.job.last()
        while step < task.steps - 1:
            step = self._look(step)
            self._adapt(capacity)
        return self.outcome

    def _look(self, step: int) -> int:
        """Wait for the next step and take down what each partition had in its last ones."""
        done = self.job.await_step(step + 1)
        loads, _ = self.job.meter.read()
        # A step is a task of each partition; queries are not all at the same step.
        self._loads.update({of: cost.rows / cost.tasks for of, cost in loads.items() if cost.tasks})
        self._history.add(self._loads)
        return done

    def _spread(self) -> None:
        """Operators 1 to 3 evenly over all executors but the last, which has operator 4."""
        nodes = sorted((e.executor_id for e in self.job.cluster.snapshot().executors), key=int)
        orders = []
        for place, name in enumerate(OPERATORS):
            among = nodes[WORKERS:] if name == SAMPLER else nodes[:WORKERS]
            run = str(self.job.queries[name].runId)
            for partition, drawn in enumerate(self._random.permutation(self.task.groups)):
                target = among[(int(drawn) + place) % len(among)]
                orders.append((PartitionId(run, 0, partition), target))
        ordered = self._ordered(orders, "direct")

        def are_over() -> bool:
            self.job.keep_busy()
            now = self.job.cluster.snapshot()
            return all((now.move(move.number) or move).is_over for move in ordered)

        wait_for(are_over, lambda: "operators do not get to where they begin", WAIT_S)
        for move in await_all(self.job.driver, ordered, WAIT_S):
            self.outcome.direct_ms.append(move.load_ms)

    def _ordered(self, orders: list[tuple[PartitionId, str]], protocol: str) -> list[Move]:
        """Moves of those that are not there; all at the same time."""
        partitions = self.job.cluster.snapshot().by_id
        away = [(of, target) for of, target in orders if partitions[of].owner != target]
        return order_all(self.job.driver, away, protocol)

    def _move(self, orders: list[tuple[PartitionId, str]], protocol: str) -> list[Move]:
        return await_all(self.job.driver, self._ordered(orders, protocol), WAIT_S)

    def _capacity(self) -> float:
        """Return a node's capacity in rows a step, by operators 1 to 3 in their busiest one."""
        layout = layout_of(self.job.cluster.snapshot())
        sampler = str(self.job.queries[SAMPLER].runId)
        of_workers = np.array([_id(group).query != sampler for group in layout.groups])
        series = self._history.series(layout.groups)[of_workers].sum(axis=0)
        means = np.convolve(series, np.full(AVERAGED, 1 / AVERAGED), "valid")
        return float(means.max()) / WORKERS / PEAK

    def _allocate(self) -> None:
        layout = layout_of(self.job.cluster.snapshot())
        bare = layout.with_holders(np.zeros((len(layout.groups), 0), np.int64))
        if self.task.allocation == Allocation.CORRELATED.value:
            placed = correlated(bare, self._history.series(layout.groups))
        elif self.task.allocation == Allocation.BASELINE.value:
            placed = baseline(bare, 1, self._random)
        else:
            placed = even(bare, 1, self._random)
        for group, holders in placed.holder_names().items():
            self._place(group, [str(holder) for holder in holders])
        due = {group: set(map(str, names)) for group, names in placed.holder_names().items()}

        def is_placed() -> bool:
            held = layout_of(self.job.cluster.snapshot()).holder_names()
            return all(set(map(str, held[group])) >= due[group] for group in due)

        wait_for(is_placed, lambda: "replicas are not where they are to be", WAIT_S)

    def _place(self, group: Hashable, on: list[str]) -> None:
        self.job.driver.place(_id(group), tuple(on))

    def _adapt(self, capacity: float) -> None:
        snapshot = self.job.cluster.snapshot()
        layout = layout_of(snapshot)
        load: Floats = mean_loads(self._history.series(layout.groups)[:, -AVERAGED:])
        nodes = Nodes.alike(len(layout.nodes), capacity)
        rules = Rules(
            OVERLOAD, aim=OVERLOAD, underload=OVERLOAD / 2, scales=False, fills=False, paired=True
        )
        usable, groups = usable_copies(layout, load, nodes, OVERLOAD)
        self.outcome.usable += usable
        self.outcome.on_overloaded += groups
        self.outcome.looks += 1
        used = Draft(layout, load, nodes, rules).used
        self.outcome.overloaded_looks += int((used > OVERLOAD + EQUAL).sum())
        moves = plan(layout, load, nodes, rules).moves
        lazily = self.task.allocation == Allocation.LAZY_MOVE.value
        assisted = [move for move in moves if lazily or move.protocol.is_assisted]
        for protocol, chosen in (
            ("cpal", assisted), ("direct", [move for move in moves if move not in assisted]),
        ):  # fmt: skip
            done = self._move([(_id(move.group), str(move.target)) for move in chosen], protocol)
            self._count(done, protocol)
        for move in assisted:
            # Its copy goes to where it came from: the paper's Algorithm 1.
            self._place(move.group, [str(move.source)])

    def _count(self, done: list[Move], protocol: str) -> None:
        outcome = self.outcome
        outcome.moves += len(done)
        outcome.assisted += len(done) if protocol != "direct" else 0
        outcome.from_replica += sum(move.is_from_replica for move in done)
        outcome.load_ms += [move.load_ms for move in done]
        if protocol == "direct":
            outcome.direct_ms += [move.load_ms for move in done if not move.is_from_replica]


def _id(group: Hashable) -> PartitionId:
    assert isinstance(group, PartitionId)
    return group


def main(path: str) -> None:
    told = json.loads(Path(path).read_text())
    task = Task(**{**told, "folder": Path(told["folder"])})
    job = Job(task)
    try:
        began_s = time.monotonic()
        outcome = Run(job).run()
        print(f"{task.allocation}: {time.monotonic() - began_s:.0f} s")
    finally:
        job.stop()
    Path(path).write_text(json.dumps(vars(outcome)))


if __name__ == "__main__":
    main(*sys.argv[1:])
