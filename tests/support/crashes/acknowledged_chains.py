"""Two operators, one behind the other, over queues that are trimmed, on a machine that crashes."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from cec_store import Budget, CecError, OutputQueue, Position, QueueOptions, Targets, open_queue
from cec_store.operators import (
    Aggregate,
    CountWindow,
    Filter,
    Map,
    QueueSource,
    Runner,
    TimeWindow,
    Union,
    WindowJoin,
    record_schema,
)
from cec_store.operators.contract import Operator
from support.disks.simulated_folder import Image, SimulatedFolder, Snapshot, apply_name, outcomes

ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
ROUND_US = 1_000
OPTIONS = QueueOptions(segment_bytes=1_500, group_max_wait_ms=0.1)
POLICIES = [
    Targets(extent_factor=2.0, extent_floor=1, replay_rows=40),
    Targets(extent_factor=1.2, extent_floor=1),
    Targets(extent_factor=None, replay_rows=60, budget=Budget(50, 100)),
]


def _summed(window: CountWindow | TimeWindow) -> Callable[[pa.Schema], Operator]:
    return lambda schema: Aggregate(
        group_by=["k"], aggregates={"v": ("sum", "v")}, window=window, input_schema=schema
    )


def _odd(batch: pa.RecordBatch) -> pa.Array:
    return pa.array(batch.column("v").to_numpy() % 3 == 1)


def _joined(schema: pa.Schema) -> Operator:
    """Two sides of one schema; the right one's v is lost, so that output has k and v again."""
    return WindowJoin(schema, ROWS, on=["k"], within_us=300, suffixes=("", "_right"))


OPERATORS: dict[str, Callable[[pa.Schema], Operator]] = {
    "count windows": _summed(CountWindow(4)),
    "count windows that overlap": _summed(CountWindow(5, 2)),
    "time windows": _summed(TimeWindow(250)),
    "time windows that overlap": _summed(TimeWindow(400, 150)),
    "join": _joined,
    "filter": lambda schema: Filter(_odd, schema),
    "filter of everything": lambda schema: Filter(
        lambda batch: pa.array([False] * batch.num_rows, pa.bool_()), schema
    ),
    "map": lambda schema: Map({"k": lambda b: b.column("k"), "v": lambda b: b.column("v")}, schema),
    "union": lambda schema: Union(schema, 2),
}


class Machine:
    """Folders that all stop at one moment: the next operation of any of them never happens."""

    def __init__(self, names: list[str]) -> None:
        self._guard = threading.RLock()
        self.folders = {name: SimulatedFolder() for name in names}
        self._take_over()

    def _take_over(self) -> None:
        self._left: int | None = None
        self.cut: dict[str, Snapshot] = {}
        for name, folder in self.folders.items():
            folder.path = f"/{name}"
            folder._record = False
            folder._guard = self._guard
            folder.before_operation = self._before

    def crash_in(self, operations: int) -> None:
        self._left = operations

    def _before(self, operation: str, name: str) -> None:
        with self._guard:
            if self._left is None:
                return
            self._left -= 1
            if self._left >= 0:
                return
            if not self.cut:
                self.cut = {name: each.snapshot() for name, each in self.folders.items()}
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def restart(self, rng: random.Random) -> None:
        """After the death of all processes, or with what a power cut may leave."""
        cut = self.cut or {name: each.snapshot() for name, each in self.folders.items()}
        if rng.random() < 0.5:
            self.folders = {name: SimulatedFolder.after_kill(each) for name, each in cut.items()}
        else:
            self.folders = {
                name: SimulatedFolder(power_cut(each, rng)) for name, each in cut.items()
            }
        self._take_over()


def power_cut(cut: Snapshot, rng: random.Random) -> Image:
    """One of the disks that a power cut at this moment may leave."""
    names = dict(cut.names)
    for operation in cut.doubtful_names:  # each is kept or lost on its own: too many to list
        if rng.random() < 0.5:
            apply_name(names, operation)
    return tuple(
        (name, rng.choice(outcomes(cut.files[number], 1))) for name, number in sorted(names.items())
    )


@dataclass
class Chain:
    """Rows → first operator → second operator; a join takes a second queue of rows on its right."""

    first: str
    second: str
    rng: random.Random
    machine: Machine = field(init=False)
    taken: list[dict] = field(default_factory=list)
    """What the application at the end has saved, under its own care."""
    crashes: int = 0
    segments_max: dict[str, int] = field(default_factory=dict)
    trimmed: dict[str, int] = field(default_factory=dict)
    """The oldest offset that is left."""

    def __post_init__(self) -> None:
        self.machine = Machine(["rows", "right", "first", "second"])
        self.policy = self.rng.choice(POLICIES)
        self.step_rows_max = self.rng.choice([3, 17, 1000])

    def _operators(self) -> tuple[Operator, Operator]:
        first = OPERATORS[self.first](ROWS)
        return first, OPERATORS[self.second](first.output_schema)

    @contextmanager
    def opened(self) -> Iterator[dict[str, OutputQueue]]:
        first, second = self._operators()
        schemas = {"rows": ROWS, "right": ROWS}
        schemas |= {"first": record_schema(first), "second": record_schema(second)}
        queues: dict[str, OutputQueue] = {}
        try:
            for name, folder in self.machine.folders.items():
                queues[name] = open_queue(folder, "a", schema=schemas[name], options=OPTIONS)
            yield queues
        finally:
            for queue in queues.values():
                with suppress(CecError):
                    queue.close()

    def rounds(self, last: int, trims: bool = True) -> None:
        """Once after the other up to round ``last``, from where the queues stand."""
        with self.opened() as queues, self._runners(queues) as (runners, app):
            for queue in queues.values() if trims else ():
                queue.set_retention("consumers")
            begin = queues["right"].durable_offset // 10
            for number in range(min(begin, last), last + 1):
                self._append(queues["rows"], number, 30)
                self._append(queues["right"], number, 10)
                for runner in runners:
                    runner.run()
                self._take(queues["second"], app)
                if trims:
                    self.trimmed = {name: queue.trim() for name, queue in queues.items()}
                for name, queue in queues.items():
                    count = len(queue.chain().segments)
                    self.segments_max[name] = max(self.segments_max.get(name, 0), count)

    @contextmanager
    def _runners(self, queues: dict[str, OutputQueue]):  # type: ignore[no-untyped-def]
        first, second = self._operators()
        consumers = []

        def source(queue: OutputQueue, name: str) -> QueueSource:
            consumers.append(queue.consumer(name))
            return QueueSource(queue.chain, consumers[-1])

        try:
            app = queues["second"].consumer("app")
            consumers.append(app)
            runners = []
            for operator, name, feed in ((first, "first", "rows"), (second, "second", "first")):
                sources = [source(queues[feed], name)]
                if operator.inputs == 2:
                    sources.append(source(queues["right"], name))
                runner = Runner(
                    operator, sources, queues[name], self.policy,
                    step_rows_max=self.step_rows_max, acknowledge_interval_s=0,
                )  # fmt: skip
                runners.append(runner)
            yield runners, app
        finally:
            for consumer in consumers:
                consumer.close()

    @staticmethod
    def _append(queue: OutputQueue, number: int, count: int) -> None:
        """The rows of a round, unless they are there: which ones they are is a matter of number."""
        there = queue.durable_offset
        for start in range(number * count, (number + 1) * count, 5):
            if start >= there:
                at = np.arange(start, start + 5)
                rows = pa.record_batch({"k": at * 7 % 11 % 4, "v": at * 31 % 101}, schema=ROWS)
                times = number * ROUND_US + (at - number * count) * (ROUND_US // count)
                queue.append(rows, pa.array(times))
        queue.sync()

    def _take(self, queue: OutputQueue, app) -> None:  # type: ignore[no-untyped-def]
        replay = queue.replay(Position(app.effects_saved), include_metadata=True)
        known = {row["_offset"] for row in self.taken[-2_000:]}
        for batch in replay:
            self.taken += [row for row in batch.to_pylist() if row["_offset"] not in known]
        app.acknowledge(effects_saved=queue.durable_offset)

    def run_with_crashes(self, last: int, crashes: int) -> None:
        while self.crashes < crashes:
            self.machine.crash_in(int(self.rng.expovariate(1 / 700)))
            with suppress(CecError):
                self.rounds(last)
            self.crashes += 1
            self.machine.restart(self.rng)
        self.rounds(last)

    def output(self) -> list[dict]:
        return [{n: v for n, v in row.items() if n != "_offset"} for row in self.taken]
