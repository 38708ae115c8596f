"""Two operators over a year of flights, killed twice, against a run that was never killed.

The operators run in a process of their own (:mod:`cec_store.demos.embedded_child`), which is killed
with SIGKILL; the next one recovers from the log.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from cec_store.demos.embedded_child import FLIGHTS_FILE, OPERATORS
from cec_store.demos.flights import load_flights
from cec_store.demos.reporting import Compared, DemoReport, Watcher, compare, require_empty
from cec_store.format.schema import TIMESTAMP
from cec_store.opening import open_queue
from cec_store.queues.output_queue import OutputQueue

KILL_RANGES = ((0.20, 0.45), (0.55, 0.85))
"""Between which shares of the input each kill falls."""
RUNS = {"reference": "never killed", "killed": "killed twice"}


@dataclass(frozen=True)
class Recovered:
    """Recovery of one operator after a kill."""

    operator: str
    kill: int
    """1 for the first."""
    killed_at_row: int
    """The row it had last reported."""
    log_at_row: int
    """The row that its log reached: output went on from here."""
    open_windows: int
    extent_records: int
    extent_bytes: int
    extent_target: int
    """Q at that number of open windows."""
    replayed_rows: int
    """u."""
    replay_target: int
    """U."""
    load_s: float
    replay_s: float


@dataclass(frozen=True)
class EmbeddedReport(DemoReport):
    """Actions of the demo, and its results."""

    folder: str
    seed: int
    input_rows: int
    kills_at: tuple[int, ...]
    recoveries: tuple[Recovered, ...]
    outputs: tuple[Compared, ...]
    seconds: float


def run_embedded_demo(
    folder: Path, seed: int, watcher: Watcher, rows_max: int | None = None
) -> EmbeddedReport:
    """Run it all in an empty folder, which keeps the queues.

    Raises:
        FileExistsError: the folder is not empty.
        RuntimeError: a child ended in another way than asked.
    """
    began = time.perf_counter()
    require_empty(folder)
    folder.mkdir(parents=True, exist_ok=True)
    flights = load_flights().slice(0, rows_max)
    with pa.ipc.new_file(str(folder / FLIGHTS_FILE), flights.schema) as writer:
        writer.write_table(flights)
    total = flights.num_rows
    moments = random.Random(seed)
    kills = [int(total * moments.uniform(*limits)) for limits in KILL_RANGES]
    _run_child(folder, "reference", total, None, watcher)
    runs = [_run_child(folder, "killed", total, at, watcher) for at in [*kills, None]]
    recoveries = [
        Recovered(**report, kill=kill, killed_at_row=rows_before[report["operator"]])
        for kill, ((rows_before, _), (_, recovered)) in enumerate(pairwise(runs), start=1)
        for report in sorted(recovered, key=itemgetter("operator"))
    ]
    return EmbeddedReport(
        folder=str(folder),
        seed=seed,
        input_rows=total,
        kills_at=tuple(min(rows.values()) for rows, _ in runs[:-1]),
        recoveries=tuple(recoveries),
        outputs=tuple(_compare(folder, operator) for operator in OPERATORS),
        seconds=time.perf_counter() - began,
    )


# -- the parent's side ----------------------------------------------------------------------------


def _run_child(
    folder: Path, run: str, total: int, kill_at: int | None, watcher: Watcher
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Run to the end, or kill once both operators have passed ``kill_at``; how far each came."""
    command = [sys.executable, "-m", "cec_store.demos.embedded_child", str(folder), run]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1)
    rows = dict.fromkeys(OPERATORS, 0)
    recovered = []
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        for event in map(json.loads, child.stdout):
            with suppress(BrokenPipeError):
                child.stdin.write("heard\n")
            if "load_s" in event:
                recovered.append(event)
                watcher.tell(_sentence(event))
                continue
            rows[event["operator"]] = event["row"]
            watcher.advance(run, min(rows.values()), total)
            if kill_at is not None and min(rows.values()) >= kill_at:
                os.kill(child.pid, signal.SIGKILL)
                watcher.tell(f"killed with SIGKILL after flight {kill_at:,} of {total:,}")
                break
        status = child.wait()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        for stream in (child.stdin, child.stdout):
            with suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()
    due_status = 0 if kill_at is None else -signal.SIGKILL
    if status != due_status:
        raise RuntimeError(f"the {run} run ended with status {status}, not {due_status}")
    return rows, recovered


def _sentence(event: dict[str, Any]) -> str:
    return (
        f"{event['operator']} recovered by reading {event['extent_records']:,} records backward "
        f"({event['open_windows']:,} windows, {event['load_s'] * 1e3:.0f} ms) and "
        f"{event['replayed_rows']:,} flights again"
    )


def _compare(folder: Path, operator: str) -> Compared:
    reference, killed = (_output(folder / run / operator) for run in RUNS)
    return compare(operator, killed, reference)


def _output(path: Path) -> pa.Table:
    """Every result with its timestamp, in order, whatever frames they stand in."""
    with open_queue(path) as queue:
        assert isinstance(queue, OutputQueue)
        batches = list(queue.replay(include_metadata=True))
    columns = [TIMESTAMP, *queue.schema.data.names]
    return pa.Table.from_batches([batch.select(columns) for batch in batches]).combine_chunks()
