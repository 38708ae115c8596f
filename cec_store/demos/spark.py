"""Spark queries over a year of flights; the driver is killed, and a second one continues.

The driver (:mod:`cec_store.demos.spark_job`) and all its processes get SIGKILL at a random batch.
What both wrote is then compared with a recompute over the same files, and the state is read from
the checkpoint, with no Spark running.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cec_store.connectors import spark
from cec_store.demos import spark_job
from cec_store.demos.flights import load_flights
from cec_store.demos.reporting import Compared, DemoReport, Watcher, compare, require_empty
from cec_store.demos.spark_feed import (
    AIRCRAFT,
    FEED,
    FLEETS,
    QUERIES,
    cut,
    recompute_aircraft,
    recompute_fleets,
    recompute_keys,
)
from cec_store.demos.spark_results import (
    StateRead,
    read_aircraft,
    read_fleets,
    read_inputs,
    read_states,
)

FILES = 26
"""A fortnight each."""
KILL_RANGE = (0.3, 0.7)
"""Between which shares of the files the kill falls."""
KILL_DELAY_S_MAX = 0.5
RUNS = {"spark": "Spark"}
_JOB = spark_job.__name__
_LOG_LINES = 20


@dataclass(frozen=True)
class Resumed:
    """Recovery of one query."""

    query: str
    batch: int
    """The first one that the second driver did."""
    load_ms: int
    """Spark's metric `cecLoadLatencyMs`, all its state stores together."""
    loaded_records: int


@dataclass(frozen=True)
class SparkReport(DemoReport):
    """Actions of the demo, and its results."""

    folder: str
    seed: int
    files: int
    input_rows: int
    killed_after_batch: int
    resumed: tuple[Resumed, ...]
    outputs: tuple[Compared, ...]
    states: tuple[StateRead, ...]
    seconds: float

    @property
    def equal(self) -> bool:
        are_kept = (state.earlier_keys == state.recomputed_keys for state in self.states)
        return super().equal and all(are_kept)


def run_spark_demo(
    folder: Path, seed: int, watcher: Watcher, rows_max: int | None = None, files: int = FILES
) -> SparkReport:
    """Run it all in an empty folder, which keeps the files, the output and the checkpoint.

    Raises:
        FileExistsError: the folder is not empty.
        RuntimeError: a driver ended in another way than asked.
        SparkUnavailable: no Spark 4, or no Java.
    """
    began = time.perf_counter()
    require_empty(folder)
    spark.jar()  # raises SparkUnavailable before a driver is started
    flights = load_flights().slice(0, rows_max)
    pieces = cut(flights, files)
    _write_feed(folder / FEED, pieces)
    dice = random.Random(seed)
    kill_after = int(files * dice.uniform(*KILL_RANGE))
    delay_s = dice.uniform(0, KILL_DELAY_S_MAX)
    killed = _killed_driver(folder, files, kill_after, delay_s, watcher)
    resumed = _second_driver(folder, files, killed, watcher)
    # The kill came after all work of this version and batch was done.
    version = min(killed.values()) + 1
    inputs = {query: read_inputs(folder, query, pieces) for query in QUERIES}
    return SparkReport(
        folder=str(folder),
        seed=seed,
        files=files,
        input_rows=flights.num_rows,
        killed_after_batch=kill_after,
        resumed=resumed,
        outputs=(
            compare(AIRCRAFT, read_aircraft(folder), recompute_aircraft(inputs[AIRCRAFT])),
            compare(FLEETS, read_fleets(folder), recompute_fleets(pieces)),
        ),
        states=tuple(read_states(folder, version, recompute_keys(inputs, version))),
        seconds=time.perf_counter() - began,
    )


def _write_feed(feed: Path, pieces: Sequence[pa.Table]) -> None:
    feed.mkdir(parents=True)
    now = int(time.time())
    for number, piece in enumerate(pieces):
        path = feed / f"flights-{number:05d}.parquet"
        pq.write_table(piece, path)
        # Spark takes files in the order of these times.
        os.utime(path, times=(now, now - len(pieces) + number))


# -- the drivers ----------------------------------------------------------------------------------


def _killed_driver(
    folder: Path, files: int, kill_after: int, delay_s: float, watcher: Watcher
) -> dict[str, int]:
    """Run until both queries have passed a batch, then kill; how far each had come."""
    batches = dict.fromkeys(QUERIES, -1)
    with _driver(folder, -signal.SIGKILL) as events:
        for event in events:
            batches[event["query"]] = event["batch"]
            watcher.advance("spark", min(batches.values()) + 1, files)
            if min(batches.values()) >= kill_after:
                time.sleep(delay_s)
                watcher.tell(
                    f"driver killed with SIGKILL {delay_s * 1e3:.0f} ms after batch "
                    f"{kill_after} of {files}"
                )
                break
    return batches


def _second_driver(
    folder: Path, files: int, done: dict[str, int], watcher: Watcher
) -> tuple[Resumed, ...]:
    """Run to the end; how each query came back."""
    batches = dict(done)
    resumed: dict[str, Resumed] = {}
    with _driver(folder, 0) as events:
        for event in events:
            query = event["query"]
            batches[query] = event["batch"]
            if query not in resumed:
                resumed[query] = Resumed(**event)
                watcher.tell(
                    f"{query} continues with batch {event['batch']}: its state was read back in "
                    f"{event['load_ms']:,} ms ({event['loaded_records']:,} records)"
                )
            # The last watermark brings one batch more, without a file; a kill may bring one less.
            watcher.advance("spark", min(files, min(batches.values()) + 1), files)
    watcher.advance("spark", files, files)
    return tuple(resumed[query] for query in QUERIES if query in resumed)


@contextmanager
def _driver(folder: Path, due_status: int) -> Iterator[Iterator[dict[str, Any]]]:
    """A Spark driver and its JVM, in a process group of their own: what it says on its output.

    It is killed where the caller is done with it, unless it is to end by itself (status 0).
    ``RuntimeError`` for another status than wanted.
    """
    log_path = folder / "driver.log"
    command = [sys.executable, "-m", _JOB, str(folder)]
    with log_path.open("ab") as log:
        driver = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    assert driver.stdout is not None
    try:
        yield map(json.loads, driver.stdout)
        if due_status == 0:
            driver.wait()
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        driver.stdout.close()
    if driver.returncode != due_status:
        lines = log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        raise RuntimeError(
            f"the driver ended with status {driver.returncode}, not {due_status}; "
            f"the end of {log_path}:\n" + "\n".join(lines[-_LOG_LINES:])
        )
