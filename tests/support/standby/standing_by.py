"""Primaries and standbys in one process, which take turns; the primary hangs at any step."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest

from cec_store import Fenced, QueueOptions
from cec_store.format.schema import RecordSchema
from cec_store.operators.contract import Operator
from cec_store.operators.inputs.sources import QueueSource
from cec_store.operators.runner import Runner, record_schema
from cec_store.queues.output_queue import OutputQueue
from cec_store.standby.queue_input import QueueInput
from cec_store.standby.schemes import Scheme
from cec_store.standby.skipping import gap_record
from cec_store.standby.standby import Standby
from cec_store.standby.takeover import Takeover
from support.crashes.crashing_runs import RowSource, output_of
from support.disks.memory_folder import MemoryFolder
from support.models.reference_operators import Row, in_order, plain


@dataclass
class SeenSource(RowSource):
    """Rows of an input as far as somebody sees it; more of them may come."""

    seen: Seen
    number: int
    has_ended = False

    def read(self, start, stop=None):
        return super().read(start, self.end() if stop is None else stop)

    def end(self) -> int:
        return self.seen.positions[self.number]


class Ragged:
    """How many rows of each input there are: some inputs lag behind the others for a while."""

    def __init__(self, inputs: list[list[Row]], rng: random.Random) -> None:
        self.inputs, self.rng = inputs, rng
        self.counts = [0] * len(inputs)

    @property
    def count(self) -> int:
        return sum(self.counts)

    def advance(self, rows: int) -> list[list[Row]]:
        """About so many rows more; of a single input exactly so many. Returns the new ones."""
        shares = [1] if len(self.counts) == 1 else [0, 0, 1, 2]
        new = []
        for number, mine in enumerate(self.inputs):
            before = self.counts[number]
            self.counts[number] = min(len(mine), before + rows * self.rng.choice(shares))
            new.append(mine[before : self.counts[number]])
        return new

    def finish(self) -> list[list[Row]]:
        """All the rows that are left."""
        new = [mine[at:] for mine, at in zip(self.inputs, self.counts, strict=True)]
        self.counts = [len(mine) for mine in self.inputs]
        return new


class Seen(Ragged):
    """How much of all inputs somebody sees."""

    @property
    def positions(self) -> tuple[int, ...]:
        ends = zip(self.inputs, self.counts, strict=True)
        return tuple(mine[count - 1].offset + 1 if count else 0 for mine, count in ends)


class RowInputs:
    """Inputs in memory; a standby sees more of them than the primary, or less."""

    def __init__(self, inputs: list[list[Row]], schemas: list[pa.Schema], rng) -> None:
        self.inputs, self.schemas, self.rng = inputs, schemas, rng
        self.primary = Seen(inputs, rng)
        self.other = Seen(inputs, rng)
        self.lags = False

    def sources(self, seen: Seen) -> list[SeenSource]:
        return [
            SeenSource(rows, schema, self.rng, seen, number)
            for number, (rows, schema) in enumerate(zip(self.inputs, self.schemas, strict=True))
        ]

    def of_primary(self, _: ExitStack) -> list[SeenSource]:
        return self.sources(self.primary)

    def of_standby(self) -> list[SeenSource]:
        self.other = Seen(self.inputs, self.rng)
        self.lags = self.rng.random() < 0.5
        return self.sources(self.other)

    def grow(self) -> None:
        self.primary.advance(self.rng.choice([0, 2, 10, 40]))
        behind = self.primary.count - self.other.count
        self.other.advance(self.rng.choice([0, 3] if self.lags else [3, max(0, behind) + 20]))

    def taken_over(self) -> None:
        self.primary = self.other

    def finish(self) -> None:
        self.primary.finish()


class QueueInputs:
    """Inputs that are queues, which a primary acknowledges; the first rows are there."""

    def __init__(self, inputs: list[list[Row]], schemas: list[pa.Schema], rng) -> None:
        self.rng, self.schemas = rng, schemas
        self.inputs = [
            [replace(row, offset=offset) for offset, row in enumerate(rows)] for rows in inputs
        ]
        options = QueueOptions(segment_bytes=2_000)
        self.queues = [
            OutputQueue(MemoryFolder(), "a", RecordSchema(schema), options) for schema in schemas
        ]
        self.there = Ragged(self.inputs, rng)

    def of_primary(self, held: ExitStack) -> list[QueueSource]:
        consumers = [held.enter_context(queue.consumer("primary")) for queue in self.queues]
        return [
            QueueSource(queue.chain, each)
            for queue, each in zip(self.queues, consumers, strict=True)
        ]

    def of_standby(self) -> list[QueueInput]:
        return [QueueInput(queue, "primary") for queue in self.queues]

    def grow(self, rows: int | None = None) -> None:
        count = self.rng.choice([0, 2, 10, 40]) if rows is None else rows
        self._append(self.there.advance(count))

    def _append(self, new: list[list[Row]]) -> None:
        for mine, queue, schema in zip(new, self.queues, self.schemas, strict=True):
            if mine:
                columns = [
                    pa.array([row.values[each.name] for row in mine], each.type) for each in schema
                ]
                times = pa.array([row.timestamp_us for row in mine], pa.int64())
                queue.append(pa.record_batch(columns, schema=schema), times)
                queue.sync()
                queue.trim(queue.end_offset)  # what the consumer has not let go of stays

    def taken_over(self) -> None:
        """All see the same."""

    def finish(self) -> None:
        self._append(self.there.finish())


@dataclass
class StandingBy:
    """A primary and its standby, over one queue, until all input is taken."""

    make: Callable[[], Operator]
    inputs: RowInputs | QueueInputs
    scheme: Scheme
    policy: object
    rng: random.Random
    held_folder: str
    folder: MemoryFolder = field(default_factory=MemoryFolder)
    takeovers: list[Takeover] = field(default_factory=list)
    output_at: list[int] = field(default_factory=list)
    """Rows of output in the log right after each takeover."""

    def options(self) -> QueueOptions:
        return QueueOptions(
            segment_bytes=self.rng.choice([2_000, 20_000, 1 << 26]),
            frame_bytes_max=self.rng.choice([700, 3_000, 1 << 24]),
            sync="none",
        )

    def step_rows_max(self) -> int:
        return self.rng.choice([1, 3, 17, 1000])

    def begin(self, held: ExitStack) -> tuple[OutputQueue, Runner]:
        operator = self.make()
        queue = OutputQueue(self.folder, "a", record_schema(operator), self.options())
        sources = self.inputs.of_primary(held)
        runner = Runner(
            operator, sources, queue, self.policy,
            checkpoints=self.scheme is not Scheme.UPSTREAM, step_rows_max=self.step_rows_max(),
        )  # fmt: skip
        return queue, runner

    def standby(self) -> Standby:
        return Standby(
            self.folder, self.make, self.inputs.of_standby(), self.scheme, self.policy,
            options=self.options(), step_rows_max=self.step_rows_max(),
            replays_ahead=self.rng.random() < 0.5,
            held_bytes_max=self.rng.choice([1, 3_000, 1 << 20]), held_folder=self.held_folder,
        )  # fmt: skip

    def takes(self, runner: Runner, steps: int) -> None:
        for number, step in enumerate(runner._steps(runner._position), 1):
            runner.step(step)
            runner.tick()
            if self.rng.random() < 0.3:
                runner.queue.sync()
            if number == steps:
                break

    def run(self, takeovers: int) -> tuple[OutputQueue, Runner]:
        """The queue and the runner of the last primary, which has taken all."""
        with ExitStack() as held:
            queue, runner = self.begin(held)
            application = held.enter_context(queue.consumer("application"))
            for _ in range(takeovers):
                queue.sync()
                standby = self.standby()
                for _ in range(self.rng.choice([0, 1, 4, 8])):
                    self.inputs.grow()
                    self.takes(runner, self.rng.choice([1, 2, 5]))
                    if self.rng.random() < 0.8:
                        standby.follow()
                    if self.rng.random() < 0.3:
                        application.acknowledge(received=queue.durable_offset)
                        runner.acknowledge()
                    if self.rng.random() < 0.1:
                        queue.sync()
                        queue.trim(queue.end_offset)
                if self.rng.random() < 0.5:
                    queue.sync()
                done = standby.take_over()
                self.takeovers.append(done)
                self.output_at.append(len(output_of(done.queue)))
                self.inputs.taken_over()
                self.zombie(queue, runner)
                queue, runner = done.queue, done.runner
            self.inputs.finish()
            for source in runner._sources:
                source.has_ended = True
            runner.run()
            return queue, runner

    def zombie(self, queue: OutputQueue, runner: Runner) -> None:
        """A primary that has only hung goes on: it can acknowledge nothing any more."""
        with suppress(Fenced):
            self.takes(runner, 3)
        with pytest.raises(Fenced):
            append_and_sync(queue)
        with suppress(Fenced):
            queue.close()
        with pytest.raises(Fenced):
            append_and_sync(queue)

    def expected(self, make_reference) -> tuple[list[dict], dict]:
        """Output and state of a run that never failed; by amnesia of one that lost what it says."""
        starts = [[0] * len(self.inputs.inputs)]
        ends: list[int | None] = []
        if self.scheme is Scheme.AMNESIA:
            for done, output_at in zip(self.takeovers, self.output_at, strict=True):
                starts.append([each.end for each in done.report.skipped])
                ends.append(output_at)
        output: list[dict] = []
        for start, end in zip(starts, [*ends, None], strict=True):
            reference = make_reference()
            for row in in_order(self.inputs.inputs, start):
                output += plain(reference.take(row))
            output = output[:end]
        return output, plain(reference.state())


def append_and_sync(queue: OutputQueue) -> None:
    """A record that nobody must ever see."""
    queue.append_records(gap_record(queue.schema, np.zeros(queue.schema.inputs, np.int64), 0))
    queue.sync()
