"""Runs of an operator that crash again and again, over a queue in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cec_store import Budget, CostBenefit, Never, QueueOptions, RecoveryTime, Targets
from cec_store.operators.choosing import Luck
from cec_store.operators.contract import Operator
from cec_store.operators.runner import Runner, record_schema
from cec_store.queues.output_queue import OutputQueue
from cec_store.storage.names import durable_epoch_of, segment_id_of
from support.disks.memory_folder import MemoryFolder
from support.models.reference_operators import Row, group_value, make_batches, plain

POLICIES = {
    "never": Never(),
    "below the open windows": Targets(extent_records=1),
    "tight": Targets(extent_factor=1.1, extent_floor=1),
    "twice": Targets(extent_factor=2.0, extent_floor=1),
    "replay": Targets(extent_factor=None, replay_rows=5),
    "in a small budget": Targets(extent_records=3, budget=Budget(1, 100)),
    "cost and benefit": CostBenefit(mean_time_between_failures_s=0.01),
    "no time at all": RecoveryTime(1e-9),
    "a little time": RecoveryTime(0.0501),
}


@dataclass
class RowSource:
    """Rows of an input, in batches cut anew at every reading."""

    rows: list[Row]
    schema: pa.Schema
    rng: random.Random
    has_ended = True  # no field: those of subclasses come behind

    def read(self, start, stop=None):
        rows = [r for r in self.rows if r.offset >= start and (stop is None or r.offset < stop)]
        return make_batches(rows, self.schema, self.rng)


class CrashingRun:
    """Opens, takes some steps, crashes, and starts again until all the input is taken."""

    def __init__(self, make: Callable[[], Operator], inputs, schemas, policy, rng) -> None:
        self.make = make
        self.policy = policy
        self.rng = rng
        self.sources = [RowSource(r, s, rng) for r, s in zip(inputs, schemas, strict=True)]
        self.folder = MemoryFolder()
        self.step_rows_max: int | None = None
        self.crashes = 0
        self.recovered_windows = 0
        self.luck: Luck | None = None
        self.tick_share = 0.0

    def open(self) -> tuple[OutputQueue, Runner]:
        operator = self.make()
        options = QueueOptions(
            segment_bytes=self.rng.choice([2_000, 20_000, 1 << 26]),
            frame_bytes_max=self.rng.choice([1, 700, 3_000, 1 << 24]),
            sync="none",
        )
        queue = OutputQueue(self.folder, "a", record_schema(operator), options)
        ticks = iter(range(1_000_000))
        runner = Runner(
            operator,
            self.sources,
            queue,
            self.policy,
            step_rows_max=self.step_rows_max or self.rng.choice([1, 3, 17, 30]),
            clock_s=lambda: next(ticks) / 1000,
            luck=self.luck,
        )
        if runner.recovery is not None:
            self.recovered_windows += runner.operator.open_windows
        return queue, runner

    def until_done(self, crash_share: float) -> tuple[OutputQueue, Runner]:
        """The queue, synced and open, and its runner after the last step."""
        while True:
            queue, runner = self.open()
            # A restart takes its input in other pieces; crashes get rarer, so that it ends.
            share = crash_share / (1 + self.crashes)
            for step in runner._steps(runner._position):
                runner.step(step)
                if self.tick_share and self.rng.random() < self.tick_share:
                    runner.tick()
                if self.rng.random() < 0.3:
                    queue.sync()
                if self.rng.random() < share:
                    self._crash(queue)
                    break
            else:
                queue.sync()
                return queue, runner

    def _crash(self, queue: OutputQueue) -> None:
        """The note may be missing, and before anything was acknowledged more than that."""
        acknowledged = queue.durable_offset
        queue.close()
        folder = self.folder.copy()
        data = folder.files[max(n for n in folder.files if segment_id_of(n) is not None)]
        cut = self.rng.choice([0, self.rng.randrange(300)])
        if acknowledged or len(data) - cut < 2_000:
            cut = 0
        # After the close above it is newer than a crash before any sync would leave it: what is cut
        # here would be damage.
        if cut or self.rng.random() < 0.5:
            del data[len(data) - cut :]
            for name in [n for n in folder.files if durable_epoch_of(n) is not None]:
                del folder.files[name]
        self.folder = folder
        self.crashes += 1


def output_of(queue: OutputQueue) -> list[dict]:
    return [row for batch in queue.replay() for row in plain(batch.to_pylist())]


def state_of(runner: Runner) -> dict:
    """Every open window by its key, as the references' ``state``."""
    slots = runner.checkpointer._order.oldest(runner.checkpointer.open_windows)[0]
    assert len(set(slots.tolist())) == runner.operator.open_windows
    keys, states = runner.operator.snapshot(np.sort(slots))
    return plain(
        {
            None if key is None else tuple(map(group_value, key.values())): state
            for key, state in zip(keys.to_pylist(), states.to_pylist(), strict=True)
        }
    )
