"""Uses a queue in every way while system calls fail; run with `faultshim.c` loaded into it.

Each line asks for a run: `path`, where to `report`, and the shim's settings in `faults`. By hand:
`LD_PRELOAD=….so FAULT_AT=… FAULT_KIND=… FAULT_UNDER=PATH
PYTHONPATH=tests python -m support.processes.faulted_writer PATH`.
"""

import contextlib
import ctypes
import json
import os
import sys

import pyarrow as pa

from cec_store import QueueOptions, open_queue
from cec_store.errors import CecError, StorageError
from cec_store.queues.output_queue import OutputQueue
from support.disks.open_files import open_below
from support.processes.killed_writer import serve

COLUMNS = pa.schema([("x", pa.int64())])
OPTIONS = QueueOptions(sync="none", segment_bytes=1_100)
LAPS, LAP_ROWS = 2, 7


class Run:
    """Up to the first error, after which it asks for more."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.appended = self.acked = self.saved = self.seeks = 0
        self.error: CecError | None = None

    def append(self, queue: OutputQueue, count: int) -> None:
        for _ in range(count):
            x = self.appended
            self.appended += 1
            queue.append(pa.record_batch({"x": [x]}, COLUMNS), pa.array([10 * x]))

    def sync(self, queue: OutputQueue) -> None:
        queue.sync()
        self.acked = self.appended

    def seek(self, queue: OutputQueue) -> None:
        """Whatever has become of the index, the records are the right ones."""
        for since in (0, 10 * self.appended - 15):
            rows = [x for b in queue.replay(since=since) for x in b["x"].to_pylist()]
            assert rows == [x for x in range(rows[0], self.acked) if 10 * x >= since]
            assert rows[0] == max(-(-since // 10), queue.chain().first_offset())
            self.seeks += 1

    def lap(self, queue: OutputQueue) -> None:
        self.append(queue, 1)
        self.sync(queue)
        self.append(queue, 3)
        self.sync(queue)
        queue.roll()
        self.append(queue, 2)
        self.sync(queue)
        self.seek(queue)
        with queue.consumer("reader") as consumer:
            saved = self.appended - 4
            consumer.acknowledge(received=self.appended, effects_saved=saved)
            self.saved = saved
        queue.trim()
        queue.reindex()
        self.append(queue, 1)

    def tear(self) -> None:
        """Leave what a writer leaves that died within a write; by a name that no fault concerns."""
        newest = max(name for name in os.listdir(self.path) if name.endswith(".seg"))
        other = os.path.join(os.path.dirname(self.path), "torn")
        os.link(os.path.join(self.path, newest), other)
        with open(other, "ab") as file:
            file.write(b"CECF")
        os.unlink(other)

    def go(self) -> None:
        for lap in range(LAPS):
            queue = None
            if lap:
                self.tear()
            try:
                queue = open_queue(self.path, "a", schema=COLUMNS, options=OPTIONS)
                self.lap(queue)
                queue.close()
                self.acked = self.appended
            except CecError as error:
                self.error = error
                if queue is not None:
                    self.ask_for_more(queue)
                return

    def ask_for_more(self, queue: OutputQueue) -> None:
        """Either the queue goes on in full, or not at all."""
        failed = queue._pipeline.failure is not None  # type: ignore[union-attr]
        try:
            self.append(queue, 1)
            self.sync(queue)
            assert not failed, "acknowledged after a failure"
        except StorageError:
            pass
        with contextlib.suppress(StorageError):
            queue.close()


def faulted_run(order: dict) -> int:  # type: ignore[type-arg]
    shim = ctypes.CDLL(None)
    os.environ.update(order["faults"])
    before = open_below(order["path"])
    run = Run(order["path"])
    shim.faultshim_begin()
    try:
        run.go()
    finally:
        # What it had done by then, for the case that it ends here as well.
        shim.faultshim_end()
    left = [path for path in open_below(order["path"]) if path not in before]
    error = run.error and f"{type(run.error).__name__}: {run.error}"
    facts = {**vars(run), "error": error, "left_open": left}
    with open(order["report"], "w", encoding="utf-8") as file:
        json.dump(facts, file)
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        alone = Run(sys.argv[1])
        alone.go()
        print(vars(alone))
    else:
        serve(faulted_run)
