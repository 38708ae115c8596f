"""One process of bench/micro/standby.py: ``python standby_processes.py ROLE SETTINGS``.

primary  runs an aggregate over bids that come at a pace; says now and then what it has taken
standby  stands by for it, takes over when its lease falls silent, and goes on

SETTINGS is JSON. Each says on its standard output, one JSON object a line, what there is to say.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness.bids import START_US, bids
from bench.harness.talking import say
from cec_store import Targets, open_queue
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.contract import InputBatch
from cec_store.operators.runner import Runner, record_schema
from cec_store.standby.leases import leases_of
from cec_store.standby.standby import Standby

WINDOW = 10
POLL_S = 0.01
Settings = dict[str, Any]


class PacedBids:
    """Bids over and over, so many a second from a moment on, by a clock that processes share."""

    def __init__(self, items: int, rows_per_s: float, began_s: float) -> None:
        block = bids(16 * items, items).combine_chunks()
        self.schema: pa.Schema = block.schema
        (self._batch,) = block.to_batches()
        self._times_us = self._batch.column("time").cast(pa.int64()).to_numpy()
        self._span_us = int(self._times_us[-1]) + 1 - START_US
        self._rows_per_s, self._began_s = rows_per_s, began_s

    def end(self) -> int:
        return int((time.monotonic() - self._began_s) * self._rows_per_s)

    def read(self, start: int, stop: int | None = None) -> Iterator[InputBatch]:
        end = self.end() if stop is None else stop
        rows = self._batch.num_rows
        while start < end:
            turn, first = divmod(start, rows)
            count = min(end - start, rows - first, 65_536)
            times_us = self._times_us[first : first + count] + turn * self._span_us
            batch = self._batch.slice(first, count)
            yield InputBatch(batch, np.arange(start, start + count), times_us)
            start += count


def make(schema: pa.Schema) -> Aggregate:
    return Aggregate(
        group_by=["item"],
        aggregates={"average": ("avg", "price"), "most": ("max", "price")},
        window=CountWindow(WINDOW),
        input_schema=schema,
    )


def source_of(settings: Settings) -> PacedBids:
    return PacedBids(settings["items"], settings["rows_per_s"], settings["began_s"])


def go_on(runner: Runner, end_s: float, says: bool) -> None:
    """Take what comes until then, a few milliseconds' worth at a time."""
    said_s, rows = 0.0, 0

    def tell() -> None:
        nonlocal said_s
        if says and time.monotonic() - said_s > 0.05:
            said_s = time.monotonic()
            say(at_s=said_s, rows=rows, cpu_s=time.process_time())

    def count(taken: int) -> None:
        nonlocal rows
        rows += taken
        tell()  # a runner that has fallen behind does not come back for long

    while time.monotonic() < end_s:
        runner.run(count)
        tell()
        time.sleep(POLL_S)


def primary(settings: Settings) -> None:
    source = source_of(settings)
    operator = make(source.schema)
    with open_queue(settings["queue"], "a", schema=record_schema(operator)) as queue:
        runner = Runner(operator, [source], queue, Targets())
        with leases_of(settings["queue"]).hold("primary"):
            say(is_ready=True)
            go_on(runner, settings["end_s"], says=True)


def standby(settings: Settings) -> None:
    source = source_of(settings)
    made = Standby(
        settings["queue"], lambda: make(source.schema), [source], settings["scheme"], Targets(),
        held_folder=Path(settings["queue"]).parent / "held",
    )  # fmt: skip
    made.follow()
    say(is_ready=True)
    detected: list[float] = []
    watch = made._check

    def check() -> None:
        detected.append(time.monotonic())
        watch()

    made._check = check  # type: ignore[method-assign]
    done = made.wait_and_take_over(leases_of(settings["queue"]))
    assert done is not None
    report = done.report
    say(detected_s=detected[0], done_s=time.monotonic(), check_s=report.check_s,
        fence_s=report.fence_s, complete_s=report.complete_s, appended=report.appended_rows,
        replayed=report.replayed_rows)  # fmt: skip
    go_on(done.runner, time.monotonic() + 0.5, says=False)
    done.queue.close()
    if done.lease is not None:
        done.lease.release()


if __name__ == "__main__":
    role, settings = sys.argv[1], json.loads(sys.argv[2])
    if "core" in settings:
        os.sched_setaffinity(0, {settings["core"]})
    {"primary": primary, "standby": standby}[role](settings)
