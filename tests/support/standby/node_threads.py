"""Nodes in threads of this process, over a queue in a folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from cec_store import Job, KeepAlive, Node, NodeRules, QueueInput, Targets, leases_of, open_queue
from cec_store.standby.nodes.notes import NodeState
from support.crashes.acknowledged_chains import OPERATORS, ROWS
from support.standby.two_nodes import rows_between

KEEP_ALIVE = KeepAlive(0.02, 50)
"""So that nobody is taken for silent whose thread has to wait on a busy machine."""
DEADLINE_S = 60.0


class NodeThreads:
    """A queue that grows, and nodes that take it; `with` ends them all."""

    def __init__(self, place: Path, operator: str = "count windows", **rules: Any) -> None:
        self.operator = operator
        self.output = str(place / "out")
        self._path = place / "in"
        self.input = open_queue(self._path, "x", schema=ROWS)
        self.rules = NodeRules(**rules)
        self.nodes: dict[str, Node] = {}
        self.changes: list[tuple[float, str, NodeState]] = []
        self.errors: dict[str, BaseException] = {}
        self._ends: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}
        self.fed = 0

    def job(self) -> Job:
        return Job(
            self.output,
            lambda: OPERATORS[self.operator](ROWS),
            lambda: [QueueInput(open_queue(self._path), "out")],
            policy=Targets(extent_floor=1),
        )

    def start(self, *names: str) -> None:
        for name in names:
            self._ends[name] = threading.Event()

            def tell(note: Any, _: str, name: str = name) -> None:
                self.changes.append((time.monotonic(), name, note.state))

            node = Node(name, self.job(), rules=self.rules, keep_alive=KEEP_ALIVE, on_change=tell)
            self.nodes[name] = node
            self._threads[name] = threading.Thread(target=self._run, args=(name,), name=name)
            self._threads[name].start()

    def _run(self, name: str) -> None:
        try:
            self.nodes[name].run(lambda: not self._ends[name].is_set())
        except BaseException as error:
            self.errors[name] = error

    def end(self, name: str) -> None:
        self._ends[name].set()
        self._threads[name].join(DEADLINE_S)
        assert not self._threads[name].is_alive()

    def feed(self, rows: int) -> None:
        part = rows_between(self.fed, self.fed + rows, 0)
        times = part.column("t").combine_chunks()
        assert isinstance(times, pa.Array)
        self.input.append(part.select(ROWS.names), times, sync=True)
        self.fed += rows

    def state(self, name: str) -> NodeState:
        return self.nodes[name].note.state

    def wait(self, until: Callable[[], object], what: str = "it") -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not until():
            assert time.monotonic() < end_s, f"{what}: {self.changes[-10:]}, {self.errors}"
            time.sleep(0.005)

    def primary(self) -> str:
        """The name of the one node that works."""

        def working() -> list[str]:
            return [name for name in self.nodes if self.state(name) is NodeState.PRIMARY
                    and self._threads[name].is_alive()]  # fmt: skip

        self.wait(lambda: len(working()) == 1, "one primary")
        return working()[0]

    def wait_ready(self, *names: str) -> None:
        self.wait(lambda: all(self.state(name) is NodeState.READY for name in names), "ready")

    def rows(self) -> list[dict[str, Any]]:
        with open_queue(self.output) as queue:
            return [row for batch in queue.replay() for row in batch.to_pylist()]

    def tenures(self) -> list[tuple[int, str, str]]:
        kept = leases_of(self.output).objects("primary").kept_tenures()
        return sorted((tenure.number, tenure.holder, tenure.cause.value) for tenure in kept)

    def __enter__(self) -> NodeThreads:
        return self

    def __exit__(self, *_: object) -> None:
        for event in self._ends.values():
            event.set()
        for thread in self._threads.values():
            thread.join(DEADLINE_S)
        self.input.close()
