"""Drivers with leases in processes of their own, and what they have written between them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from cec_store import open_queue, read_queue
from cec_store.storage.stores.folders import StorageOptions
from cec_store.storage.stores.local_store import LocalStore
from cec_store.storage.stores.store import Store
from support.drivers.standby_job import expected
from support.paths import TESTS

ROWS = 2_000
EVERY_MS = 100
MISSES = 20
"""On a machine that is busy with other tests nobody is to be taken for dead."""
DEADLINE_S = 300.0
_PATH = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
PROGRAM = (sys.executable, "-m", "support.drivers.standby_job")


class Driver:
    """A `standby_job` and its JVM, which are killed and stopped together."""

    def __init__(self, folder: Path, role: str, before: Sequence[str] = (), **order: Any) -> None:
        told = {
            "folder": str(folder),
            "role": role,
            "rows": ROWS,
            "every_ms": EVERY_MS,
            "misses": MISSES,
            **order,
        }
        self.said = folder / f"said-{time.monotonic_ns()}"
        self.errors = self.said.with_suffix(".errors")
        with open(self.said, "wb") as said, open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                [*before, *PROGRAM, json.dumps(told)],
                stdin=subprocess.DEVNULL, stdout=said, stderr=errors, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *_PATH])},
            )  # fmt: skip

    def events(self) -> list[dict[str, Any]]:
        lines = self.said.read_text("utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line[-1] == "\n"]

    def wait_for(self, name: str) -> Any:
        """What it has said under this name, as soon as it says it."""
        end_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < end_s:
            ended = self.process.poll() is not None
            for event in self.events():
                if name in event:
                    return event[name]
            assert not ended, f"it ended: {self.errors.read_text('utf-8')[-3000:]}"
            time.sleep(0.01)
        raise AssertionError(
            f"no {name} in {DEADLINE_S} s: {self.errors.read_text('utf-8')[-3000:]}"
        )

    def send(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def end(self) -> None:
        if self.process.poll() is None:
            self.send(signal.SIGKILL)
        self.process.wait()


def newest(folder: Path | Store, checkpoint: str = "checkpoint") -> int:
    """The last batch that is committed; -1 before the first."""
    store = LocalStore(folder) if isinstance(folder, Path) else folder
    names = [entry.name for entry in store.list(f"{checkpoint}/commits")]
    return max((int(name) for name in names if name.isdigit()), default=-1)


def await_batch(folder: Path | Store, batch: int, checkpoint: str = "checkpoint") -> None:
    end_s = time.monotonic() + DEADLINE_S
    while newest(folder, checkpoint) < batch:
        assert time.monotonic() < end_s, f"no batch {batch}"
        time.sleep(0.005)


def fill_input(path: Path, batches: int) -> str:
    """A queue of one partition with the values of so many batches."""
    values = pa.table({"value": pa.array(range(batches * ROWS), pa.int64())})
    with open_queue(path, "a", schema=values.schema, partitions=1) as queue:
        queue.append(values)
    return str(path)


def faults_of(
    queue: Path | str,
    rows: int = ROWS,
    storage_options: StorageOptions | None = None,
    *,
    is_timed: bool = False,
) -> list[str]:
    """What a run without failure would have written otherwise."""
    came = (
        read_queue(queue, storage_options=storage_options)
        .read_all()
        .select(["k", "n", "total", "batch"])
    )
    order = [("batch", "ascending"), ("k", "ascending"), ("n", "ascending")]
    batches = came["batch"].to_pylist()
    due = expected(rows, max(batches) + 1, is_timed)
    came, due = (pa.table(each).combine_chunks().sort_by(order) for each in (came, due))
    if came.num_rows != due.num_rows:
        return [f"{came.num_rows} rows where {due.num_rows} are due"]
    return [] if came.cast(due.schema).equals(due) else ["other rows than are due"]
