"""Runs the paper's operator graph (its Figure 4) as processes, and kills one of them if asked."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.harness.queues import output_queue
from bench.papers.cec_processes import input_block
from cec_store.log.chain import Chain
from cec_store.storage.local import LocalFolder

PROCESS = Path(__file__).with_name("cec_processes.py")
Event = dict[str, Any]


@dataclass(frozen=True)
class Work:
    """The input, the aggregate's window, and when the aggregate checks what."""

    items: int
    window: int
    rows: int = 0
    """0: as many as come in ``seconds``."""
    seconds: float = 0.0
    rows_per_s: float = 0.0
    """0: as fast as it goes."""
    batch_rows: int = 16_384
    policy: dict[str, Any] | None = None
    """Arguments of Targets; {} for OPEN records alone, ``None`` for no checkpoints."""
    budget: tuple[float, float] | None = None
    """CI and CP in milliseconds."""


class Process:
    """A child and what it says."""

    def __init__(self, role: str, settings: dict[str, Any], *wires: socket.socket) -> None:
        self.role = role
        command = [sys.executable, str(PROCESS), role, json.dumps(settings)]
        descriptors = [wire.fileno() for wire in wires]
        self._child = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, pass_fds=descriptors
        )
        for wire in wires:
            wire.close()  # it is the child's alone now: its end is seen at the other end

    def events(self) -> Iterator[Event]:
        """Yield its events as they come."""
        assert self._child.stdout is not None
        yield from map(json.loads, self._child.stdout)

    def await_ready(self) -> None:
        if not next(self.events(), {}).get("ready"):
            raise RuntimeError(f"the {self.role} did not start: status {self._child.wait()}")

    def finish(self) -> Event:
        """Everything it still says, in one."""
        told: Event = {}
        for event in self.events():
            told.update(event)
        if self._child.wait():
            raise RuntimeError(f"the {self.role} ended with status {self._child.returncode}")
        return told

    def kill(self) -> None:
        os.kill(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()


def _settings(work: Work, **more: Any) -> dict[str, Any]:
    nothing = {"in": None, "out": None, "queue": None, "input_queue": None}
    return {**nothing, **vars(work), **more}


def run_line(work: Work, queue: Path | None) -> dict[str, Event]:
    """Source, aggregate and sink on sockets, to the end; what each has measured."""
    source_end, from_source = socket.socketpair()
    aggregate_end, from_aggregate = socket.socketpair()
    with ExitStack() as stack:
        start = stack.enter_context
        sink = start(
            Process("sink", _settings(work, **{"in": from_aggregate.fileno()}), from_aggregate)
        )
        wires = {"in": from_source.fileno(), "out": aggregate_end.fileno()}
        where = _settings(work, **wires, queue=None if queue is None else str(queue))
        aggregate = start(Process("aggregate", where, from_source, aggregate_end))
        source = start(Process("source", _settings(work, out=source_end.fileno()), source_end))
        return {process.role: process.finish() for process in (source, aggregate, sink)}


@dataclass
class Crash:
    """A run whose aggregate was killed in the middle, and what its recovery took."""

    killed_at_row: int
    checks: int
    """CHECKs in the log at the crash."""
    recovery: Event
    sink: Event
    extents: list[tuple[int, int, int]] = field(default_factory=list)
    """Frames in order: q, N and the input rows taken of each."""


def run_with_crash(work: Work, folder: Path, kill_at: int) -> Crash:
    """Source, filter with a queue, aggregate with a queue, sink; kill the aggregate at a row.

    Raises:
        AssertionError: the output, or what the sink has received of it, is not exactly one result
            for each full window.
    """
    folder.mkdir()
    due = full_windows(work)
    results = len(due)
    source_end, from_source = socket.socketpair()
    filtered, output = str(folder / "filter"), str(folder / "aggregate")
    operator = _settings(work, queue=output, input_queue=filtered)
    with ExitStack() as stack:
        start = stack.enter_context
        source = start(Process("source", _settings(work, out=source_end.fileno()), source_end))
        filter_ = start(
            Process(
                "filter", _settings(work, **{"in": from_source.fileno()}, queue=filtered),
                from_source,
            )
        )  # fmt: skip
        filter_.await_ready()
        aggregate = start(Process("aggregate", operator))
        aggregate.await_ready()
        sink = start(Process("sink", _settings(work, queue=output, results=results)))
        killed_at = _run_up_to(aggregate, kill_at)
        aggregate.kill()
        recovered = start(Process("aggregate", operator))
        told = recovered.finish()
        source.finish()
        filter_.finish()
        # Before the sink ends, because it would wait for a lost result for ever.
        check_results(Path(output), due)
        received = sink.finish()
    if received["results"] != results:
        raise AssertionError(f"{received['results']} results of {results} full windows")
    checks = _checks_below(Path(output), told["end_offset"])
    return Crash(killed_at, checks, told, received, extents(Path(output)))


def _run_up_to(aggregate: Process, kill_at: int) -> int:
    for event in aggregate.events():
        if event.get("row", 0) >= kill_at:
            return int(event["row"])
    raise RuntimeError("the aggregate ended before it could be killed")


def full_windows(work: Work) -> NDArray[np.int64]:
    """Return item and time, in µs since 1970, of the row that closes each full window; sorted."""
    block = input_block(work.items, work.batch_rows)
    turns = -(-work.rows // block.num_rows)
    rows = np.tile(_items_and_times(block, "time"), (turns, 1))[: work.rows]
    by_item = rows[np.argsort(rows[:, 0], kind="stable")]
    firsts = np.searchsorted(by_item[:, 0], by_item[:, 0])
    numbers = np.arange(1, len(by_item) + 1) - firsts
    return _sorted(by_item[numbers % work.window == 0])


def check_results(path: Path, due: NDArray[np.int64]) -> None:
    """Require the results in a queue to be those that are due, by item and time.

    Raises:
        AssertionError: a result is lost, or there more often than it is due.
    """
    with output_queue(path) as queue:
        batches = [
            batch.select(["item", "_timestamp"]) for batch in queue.replay(include_metadata=True)
        ]
    results = _sorted(_items_and_times(pa.Table.from_batches(batches), "_timestamp"))
    if not np.array_equal(results, due):
        missing = Counter(map(tuple, due.tolist()))
        missing.subtract(map(tuple, results.tolist()))
        raise AssertionError(
            f"{path}: of {len(due)} full windows {sum((+missing).values())} results are lost,"
            f" and {sum((-missing).values())} are there besides"
        )


def _items_and_times(table: pa.Table, time: str) -> NDArray[np.int64]:
    """Return a row for each row of the table: its item, and its time in µs since 1970."""
    columns = table.column("item"), table.column(time).cast(pa.int64())
    return np.stack([column.to_numpy() for column in columns], axis=1)


def _sorted(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


def _checks_below(path: Path, end_offset: int) -> int:
    from cec_store import Position, RecordKind

    with output_queue(path) as queue:
        checks = queue.replay(None, Position(end_offset), kinds={RecordKind.CHECK})
        return sum(batch.num_rows for batch in checks)


def extents(path: Path) -> list[tuple[int, int, int]]:
    """Return q, N and the input rows taken of each frame with records, as its header says."""
    chain = Chain(LocalFolder(path))
    headers = [frame.header for frame in chain.frames()]
    return [
        (header.extent_records, header.open_windows, header.input_upto)
        for header in headers
        if header.open_windows
    ]


def share_within(samples: list[tuple[int, int, int]], factor: float, floor: int) -> float:
    """The share of frames whose extent fits ``factor`` times the open windows."""
    array = np.array(samples)
    return float((array[:, 0] <= np.maximum(factor * array[:, 1], floor)).mean())
