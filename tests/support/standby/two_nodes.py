"""Two nodes in processes of their own that are killed and stopped, and take over in turns."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, SimpleQueue

import numpy as np
import pyarrow as pa

from cec_store import OutputQueue, QueueOptions, open_queue
from cec_store.operators import ArrowSource, Runner, record_schema
from cec_store.standby.schemes import Scheme
from support.crashes.acknowledged_chains import OPERATORS, ROWS
from support.disks.memory_folder import MemoryFolder

DEADLINE_S = 120.0
TIMED = pa.schema([*ROWS, pa.field("t", pa.timestamp("us"))])


class Slot:
    """One of the two places that a node can have; several nodes, one after the other."""

    def __init__(
        self,
        name: str,
        events: SimpleQueue[tuple[Slot, dict]],
        program: str = "support.processes.standby_node",
    ) -> None:
        self.name = name
        self.state = "dead"
        self.pid = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        self._events = events
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.put((self, json.loads(line)))

    def start(self, order: dict) -> None:
        assert self._process.stdin is not None
        self.state = "starting"
        self._process.stdin.write(json.dumps(order) + "\n")

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(DEADLINE_S)
        self._process.stdout.close()


class TwoNodes:
    """One case after the other; a case is a folder with inputs and an output."""

    def __init__(self) -> None:
        self._events: SimpleQueue[tuple[Slot, dict]] = SimpleQueue()
        self.slots = [Slot(name, self._events) for name in "ab"]

    def close(self) -> None:
        for slot in self.slots:
            slot.close()

    # -- what the nodes say -------------------------------------------------------------------

    def _hear(self, timeout_s: float) -> None:
        try:
            slot, event = self._events.get(timeout=timeout_s)
        except Empty:
            return
        if "pid" in event:
            slot.pid = event["pid"]
        elif "primary" in event:
            slot.state = "primary"
        elif "stands_by" in event:
            slot.state = "standby"
        elif "took_over" in event:
            slot.state = "primary"
            self.takeovers.append(event)
        elif "fenced" in event:
            slot.state = "fenced"
            self.fenced += 1
        elif "done" in event:
            self.done = True
        elif "ended" in event:
            slot.state, slot.pid = "dead", 0
            assert event["ended"] == signal.SIGKILL, f"node {slot.name} ended: {event}"

    def wait(self, until: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not until():
            self._hear(0.05)
            states = [slot.state for slot in self.slots]
            assert time.monotonic() < deadline_s, f"{what}: the nodes are {states}"

    def _settle(self) -> None:
        while not self._events.empty():
            self._hear(0)

    # -- a case -------------------------------------------------------------------------------

    def run(
        self,
        place: Path,
        operator: str,
        scheme: Scheme,
        seed: int,
        takeovers: int,
        output: str | None = None,
        storage_options: dict | None = None,
    ) -> list[dict]:
        """The output after so many takeovers at least; compare it with :meth:`expected`.

        It stands in ``place``, or at the URL ``output``, with the leases.
        """
        self.rng = random.Random(seed)
        self.takeovers: list[dict] = []
        self.fenced, self.done = 0, False
        made = OPERATORS[operator](ROWS)
        self.rows = 40 * takeovers + 60
        self.order = {
            "place": str(place), "operator": operator, "scheme": scheme.value, "rows": self.rows,
            "output": output or str(place / "out"), "storage_options": storage_options,
        }  # fmt: skip
        with ExitStack() as held:
            options = QueueOptions(segment_bytes=4_000)
            self.inputs: list[OutputQueue] = [
                held.enter_context(open_queue(place / f"in-{n}", "x", schema=ROWS, options=options))
                for n in range(made.inputs)
            ]
            for queue in self.inputs:
                queue.consumer("primary").close()
            self.feed([30] * made.inputs)
            self._start(self.slots[0], "primary")
            self.wait(lambda: self.slots[0].state == "primary", "to begin")
            out = held.enter_context(
                open_queue(self.order["output"], storage_options=storage_options)
            )
            self._start(self.slots[1], "standby")
            self.wait(lambda: self.slots[1].state == "standby", "to stand by")
            while len(self.takeovers) < takeovers:
                self._disturb()
                # Of two inputs one lags behind the other for a while.
                self.feed([self.rng.choice([0, 5, 20, 40]) for _ in self.inputs])
                for queue in self.inputs:
                    queue.trim(queue.end_offset)
            self.feed([self.rows] * made.inputs)
            self.wait(lambda: self.done, "to take all the input")
            for slot in self.slots:
                os.kill(slot.pid, signal.SIGKILL)
            self.wait(lambda: all(slot.state == "dead" for slot in self.slots), "to end")
            return [row for batch in out.replay(include_metadata=True) for row in batch.to_pylist()]

    def _start(self, slot: Slot, role: str) -> None:
        slot.start({**self.order, "role": role, "seed": self.rng.randrange(2**32)})

    def feed(self, counts: list[int]) -> None:
        """The next rows of each input, at most all: which ones they are is a matter of number."""
        for number, (queue, count) in enumerate(zip(self.inputs, counts, strict=True)):
            start = queue.end_offset
            stop = min(self.rows, start + count)
            if start < stop:
                part = rows_between(start, stop, number)
                queue.append(part.select(ROWS.names), part.column("t").combine_chunks())
                queue.sync()

    def _disturb(self) -> None:
        time.sleep(self.rng.random() * 0.06)
        self._settle()
        primary = next((slot for slot in self.slots if slot.state == "primary"), None)
        if primary is None:
            self.wait(lambda: any(s.state == "primary" for s in self.slots), "for a primary")
            return
        (other,) = (slot for slot in self.slots if slot is not primary)
        chosen = self.rng.random()
        if chosen < 0.15:
            self._kill(other)
            self._start(other, "standby")
            self.wait(lambda: other.state in ("standby", "primary"), "a standby to come back")
        elif chosen < 0.6:
            self._kill(primary)
            self.wait(lambda: other.state == "primary", "a takeover after a kill")
            self._start(primary, "standby")
            self.wait(lambda: primary.state in ("standby", "primary"), "a failed node to come back")
        else:
            os.kill(primary.pid, signal.SIGSTOP)
            self.wait(lambda: other.state == "primary", "a takeover after a stop")
            time.sleep(self.rng.random() * 0.02)
            os.kill(primary.pid, signal.SIGCONT)
            self.wait(
                lambda: primary.state in ("standby", "primary"), "the zombie to become the standby"
            )

    def _kill(self, slot: Slot) -> None:
        os.kill(slot.pid, signal.SIGKILL)
        self.wait(lambda: slot.state == "dead", "a node to end")


def rows_between(start: int, stop: int, number: int) -> pa.Table:
    """Rows of an input, with their times in a column."""
    at = np.arange(start, stop)
    columns = [at * 7 % 11 % 4, at * 31 % 101 + number, pa.array(at * 30 + number)]
    return pa.table(columns, names=TIMED.names).cast(TIMED)


class _Source(ArrowSource):
    """Without the column of the times."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table, "t")
        self.schema = ROWS

    def read(self, start, stop=None):
        for read in super().read(start, stop):
            yield type(read)(read.batch.select(ROWS.names), read.offsets, read.timestamps_us)


def expected(operator: str, rows: int, start: int = 0) -> list[dict]:
    """The output of a run that never failed, over the rows from ``start`` on."""
    made = OPERATORS[operator](ROWS)
    sources = [_Source(rows_between(0, rows, number)) for number in range(made.inputs)]
    with open_queue(MemoryFolder(), "a", schema=record_schema(made)) as queue:
        runner = Runner(made, sources, queue)
        runner._position = np.full(made.inputs, start)
        runner.run()
        return [row for batch in queue.replay() for row in batch.to_pylist()]
