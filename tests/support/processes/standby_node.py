"""A node to be killed and stopped: primary or standby, and what it becomes after that.

Run as a program, so that each fork has all imports done and no thread. It reads a JSON object a
line, forks a node for it, and answers by a JSON object a line: the node's pid and what it says,
then `{"ended": status}`.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow as pa

from cec_store import (
    CecError,
    Fenced,
    KeepAlive,
    LeaseHeld,
    QueueInput,
    QueueOptions,
    Standby,
    Takeover,
    Targets,
    leases_of,
    open_queue,
)
from cec_store.operators import QueueSource, Runner, record_schema
from cec_store.queues.output_queue import OutputQueue
from cec_store.standby.schemes import Scheme
from support.crashes.acknowledged_chains import OPERATORS, ROWS

KEEP_ALIVE = KeepAlive(0.03, 3)
KEEP_ALIVE_IN_STORE = KeepAlive(0.2, 5)
POLICY = Targets(extent_factor=2.0, extent_floor=1, replay_rows=100)
OPTIONS = QueueOptions(segment_bytes=20_000, group_max_wait_ms=0.5)


def say(**what: object) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


class Node:
    """In a folder with the queues ``in-0`` …, which it reads; the output is there or in a store."""

    def __init__(self, order: dict) -> None:  # type: ignore[type-arg]
        self.place = Path(order["place"])
        self.scheme = Scheme(order["scheme"])
        self.make = lambda: OPERATORS[order["operator"]](ROWS)
        self.rng = random.Random(order["seed"])
        self.rows = order["rows"]
        """Of each input, once all are there."""
        self.inputs = self.make().inputs
        self.output, self.storage_options = order["output"], order["storage_options"]
        self.keep_alive = KEEP_ALIVE_IN_STORE if self.storage_options else KEEP_ALIVE
        self.leases = leases_of(self.output, self.storage_options)

    def _queues(self) -> list[OutputQueue]:
        return [open_queue(self.place / f"in-{number}") for number in range(self.inputs)]

    def step_rows_max(self) -> int:
        return self.rng.choice([3, 20, 100])

    def be_primary(self) -> None:
        """From the start, or after all nodes have died."""
        with ExitStack() as held:
            lease = held.enter_context(self.leases.hold("primary", keep_alive=self.keep_alive))
            operator = self.make()
            queue = open_queue(
                self.output, "a", schema=record_schema(operator), options=OPTIONS,
                storage_options=self.storage_options,
            )  # fmt: skip
            held.callback(self._let_go, queue)
            consumers = [held.enter_context(each.consumer("primary")) for each in self._queues()]
            sources = [
                QueueSource(each.chain, consumer)
                for each, consumer in zip(self._queues(), consumers, strict=True)
            ]
            runner = Runner(
                operator, sources, queue, POLICY, checkpoints=self.scheme is not Scheme.UPSTREAM,
                step_rows_max=self.step_rows_max(), acknowledge_interval_s=0.02,
            )  # fmt: skip
            say(primary=lease.number)
            self._work(runner, queue)

    def stand_by(self) -> None:
        """Until there is something to take over, and then in the primary's place."""
        sources = [QueueInput(queue, "primary") for queue in self._queues()]
        standby = Standby(
            self.output, self.make, sources, self.scheme, POLICY, options=OPTIONS,
            storage_options=self.storage_options,
            step_rows_max=self.step_rows_max(), acknowledge_interval_s=0.02,
            replays_ahead=self.rng.random() < 0.5, held_bytes_max=4_000,
            held_folder=self.place / "held",
        )  # fmt: skip
        with standby:
            standby.follow()
            say(stands_by=True)
            done = standby.wait_and_take_over(self.leases)
        assert isinstance(done, Takeover)
        assert done.lease is not None
        skipped = [[each.first, each.end] for each in done.report.skipped]
        say(took_over=done.lease.number, skipped=skipped, end=done.queue.end_offset)
        with done.lease, ExitStack() as held:
            held.callback(self._let_go, done.queue)
            self._work(done.runner, done.queue)

    @staticmethod
    def _let_go(queue: OutputQueue) -> None:
        with suppress(CecError):
            queue.close()

    def _work(self, runner: Runner, queue: OutputQueue) -> None:
        has_said = False
        while True:
            for source in runner._sources:
                source.has_ended = source.end() >= self.rows
            for step in runner._steps(runner._position):
                runner.step(step)
                time.sleep(self.rng.choice([0, 0.001, 0.004]))
            queue.sync()
            runner.acknowledge()
            if not has_said and (runner._position >= self.rows).all():
                has_said = True
                say(done=queue.end_offset)
            time.sleep(0.002)


def live(order: dict) -> int:  # type: ignore[type-arg]
    node = Node(order)
    is_primary = order["role"] == "primary"
    while True:
        try:
            node.be_primary() if is_primary else node.stand_by()
        except (Fenced, LeaseHeld) as error:
            say(fenced=type(error).__name__)
            is_primary = False


def serve(live: Callable[[dict], int] = live) -> None:  # type: ignore[type-arg]
    """Fork a process that lives by each order that is read."""
    pa.array([1]).to_pylist()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            say(pid=os.getpid())
            code = 1
            try:
                code = live(json.loads(line))
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        say(ended=status)


if __name__ == "__main__":
    serve()
