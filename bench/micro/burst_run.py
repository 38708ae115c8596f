"""One process of burst.py: opens windows, closes all of them in one step, and may die within it.

Says `burst` when only the row that closes them is left, and ends with a line of figures.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from cec_store import OutputQueue, QueueOptions, Targets, open_queue
from cec_store.log.frames import FrameMarks
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import TimeWindow
from cec_store.operators.contract import InputBatch
from cec_store.operators.inputs.merge import BATCH_ROWS_MAX
from cec_store.operators.runner import Runner, record_schema

WINDOW_US = 1_000_000
FRAMES_MIN = 16
"""However small the burst is, it takes so many frames."""
_ODD = 2654435761
_SCHEMA = pa.schema({"key": pa.int64(), "value": pa.int64()})


class Keys:
    """One row for each key, all within one window, and one row ten windows later."""

    schema = _SCHEMA

    def __init__(self, windows: int) -> None:
        self._windows = windows

    def read(self, start: int, stop: int | None = None) -> Iterator[InputBatch]:
        end = self._windows + 1 if stop is None else stop
        for first in range(start, end, BATCH_ROWS_MAX):
            offsets = np.arange(first, min(first + BATCH_ROWS_MAX, end))
            # In no order that a table of keys could profit from, and none twice.
            keys = offsets * _ODD % (1 << 40)
            inside = offsets * (WINDOW_US - 1) // self._windows
            times_us = np.where(offsets < self._windows, inside, 10 * WINDOW_US)
            batch = pa.record_batch([pa.array(keys), pa.array(offsets)], schema=_SCHEMA)
            yield InputBatch(batch, offsets, times_us)


def aggregate() -> Aggregate:
    """Each result's ``total`` is the number of the row that opened its window."""
    return Aggregate(
        group_by=["key"],
        aggregates={"rows": ("count",), "total": ("sum", "value")},
        window=TimeWindow(WINDOW_US),
        input_schema=_SCHEMA,
    )


class Dying:
    """Stand-in for a queue's ``append_step``: in the step that closes all, the process dies half
    way, with parts of it in the file."""

    def __init__(self, queue: OutputQueue, parts: int) -> None:
        self._append = queue.append_step
        self._queue = queue
        self._parts = parts

    def __call__(self, parts: Iterator[pa.RecordBatch], marks: FrameMarks) -> int:
        return self._append(self._until_death(parts), marks)

    def _until_death(self, parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, part in enumerate(parts):
            if number == self._parts:
                pipeline = self._queue._writing()
                while not pipeline.writer.in_step:
                    time.sleep(0.001)
                os.kill(os.getpid(), signal.SIGKILL)
            yield part


def run(path: Path, windows: int, dies_at: int) -> dict[str, float]:
    operator = aggregate()
    options = QueueOptions(frame_bytes_max=min(16 << 20, max(1024, windows * 64 // FRAMES_MIN)))
    began = time.perf_counter()
    pauses = [0.0]
    with open_queue(path, "a", schema=record_schema(operator), options=options) as queue:
        runner = Runner(operator, [Keys(windows)], queue, Targets(extent_factor=2.0))
        opened_s = time.perf_counter() - began
        burst_s = 0.0
        for step in runner._steps(runner._position):
            is_burst = int(step.timestamps_us[-1]) >= WINDOW_US
            if is_burst:
                queue.sync()
                print("burst", flush=True)
                if dies_at:
                    queue.append_step = Dying(queue, dies_at)
            began = time.perf_counter()
            runner.step(step)
            if is_burst:
                queue.sync()
                burst_s = time.perf_counter() - began
            pauses.append(time.perf_counter() - began)
    return {
        "opened_s": opened_s,
        "burst_s": burst_s,
        "pause_s": max(pauses),
        "other_pause_s": max(pauses[:-1]),
    }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))), flush=True)
