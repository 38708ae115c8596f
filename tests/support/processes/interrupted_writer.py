"""Interrupts a writer at one step after another, and checks what is left of it and of its queue.

Run as a module with the compiled `interrupts.c`, the first step, the stride and a folder. Prints a
line of JSON. A run that hangs prints every thread's stack and ends the process.
"""

import ctypes
import faulthandler
import gc
import json
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from cec_store import (
    DurabilityLost,
    OutputQueue,
    Poisoned,
    QueueOptions,
    open_queue,
    read_queue,
)
from cec_store.format.records import data_records, to_timestamps
from cec_store.log.frames import FrameMarks

HANGS_AFTER_S = 60
FILES = (
    "pipeline/pipeline.py", "pipeline/line.py", "storage/waiting.py", "storage/forking.py",
    "queues/appendable_queue.py", "queues/output_queue.py", "queues/consumers.py",
    "queues/trimming.py", "storage/local.py", "storage/local_files.py", "storage/publishing.py",
    "log/notes.py", "log/reopening.py", "log/writer.py", "log/segment.py", "log/epochs.py",
)  # fmt: skip
SCHEMA = pa.schema({"n": pa.int64()})
OPTIONS = QueueOptions(outstanding_frames_max=2)


class Run:
    """One writer, from opening to close."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.queue: OutputQueue | None = None
        self.next = 0
        """What the next append writes, whether the last one has come to an end or not."""
        self.numbers: dict[int, int] = {}
        """What append said: the frame of each value."""
        self.acknowledged = 0
        self.is_closing = False
        self.step: list[int] = []
        """The values of the step that is being appended: all of them come to be there, or none."""

    def append(self) -> None:
        assert self.queue is not None
        value, self.next = self.next, self.next + 1
        self.numbers[value] = self.queue.append(pa.record_batch({"n": [value]}, SCHEMA))

    def append_step(self) -> None:
        """More frames than may be outstanding, so that it has to wait in the middle."""
        assert self.queue is not None
        self.step = list(range(self.next, self.next + 4))
        self.next += 4
        schema = self.queue.schema
        times = to_timestamps(pa.array([7]))
        batches = (pa.record_batch({"n": [value]}, SCHEMA) for value in self.step)
        last = self.queue.append_step(
            (data_records(schema, batch, times) for batch in batches), FrameMarks()
        )
        self.numbers.update(zip(self.step, range(last - 3, last + 1), strict=True))

    def sync(self) -> None:
        assert self.queue is not None
        upto = max(self.numbers.values())
        self.queue.sync()
        self.acknowledged = upto + 1

    def go(self) -> None:
        self.queue = open_queue(self.path, "a", schema=SCHEMA, options=OPTIONS)
        for _ in range(4):
            self.append()
        self.sync()
        self.queue.roll()
        self.append()
        self.append_step()
        with self.queue.consumer("reader") as consumer:
            consumer.acknowledge(effects_saved=1)
        self.queue.trim(0)
        self.append()
        self.sync()
        self.is_closing = True
        self.queue.close()

    def go_on(self) -> None:
        """After the interrupt: a queue that is still open takes more."""
        if self.queue is None:
            return
        is_given_up = bool(self.step) and self.step[0] not in self.numbers
        with suppress(*[Poisoned] * self.is_closing, *[Poisoned, DurabilityLost] * is_given_up):
            self.append()
            self.sync()
        with suppress(*[DurabilityLost] * is_given_up):
            self.queue.close()

    def check(self) -> None:
        self.queue = None
        gc.collect()
        until = time.monotonic() + HANGS_AFTER_S
        while left := [t.name for t in threading.enumerate() if t.name.startswith("cec-")]:
            assert time.monotonic() < until, f"threads are left: {left}"
            time.sleep(0.001)
        # Nobody holds the lock; and what is there is what the calls said.
        with open_queue(self.path, "a", schema=SCHEMA) as queue:
            assert queue.report.torn_bytes == 0 or self.step
            headers = [frame.header for frame in queue.chain().frames()]
            queue.consumer("reader").close()
            queue.trim(0)
        values = read_queue(self.path).read_all().column("n").to_pylist()
        assert values == sorted(values)
        found = dict(zip(values, (header.seq for header in headers), strict=True))
        assert list(found.values()) == list(range(len(found)))
        assert len(set(self.step) & set(found)) in (0, len(self.step)), "a part of a step"
        for value, number in self.numbers.items():
            if value in found:
                assert found[value] == number, f"{value} is frame {found[value]}, not {number}"
            else:
                assert number >= self.acknowledged, f"frame {number} was acknowledged"


def run_once(start: Callable[[], None], stop: Callable[[], int]) -> tuple[int, bool]:
    """How many steps there were, and whether the interrupt came out of a call."""
    folder = Path(tempfile.mkdtemp(dir=sys.argv[4]))
    faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
    run, was_interrupted = Run(folder / "queue"), False
    try:
        start()
        run.go()
    except KeyboardInterrupt:
        was_interrupted = True
    finally:
        steps = stop()
    run.go_on()
    run.check()
    shutil.rmtree(folder)
    return steps, was_interrupted


def main() -> None:
    # A shell that runs tests in its background has them ignore interrupts, and so would this child.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    library = ctypes.PyDLL(sys.argv[1])
    library.interrupt_at.argtypes = [ctypes.c_char_p, ctypes.c_long]
    library.interrupt_at.restype = None
    library.stop_interrupting.restype = ctypes.c_long
    names = ("\n" + "\n\n".join(FILES) + "\n").encode()
    step, stride = int(sys.argv[2]), int(sys.argv[3])
    total, _ = run_once(lambda: library.interrupt_at(names, -1), library.stop_interrupting)
    runs = interrupted = 0
    while step < total:
        at = step
        try:
            _, came = run_once(
                lambda at=at: library.interrupt_at(names, at), library.stop_interrupting
            )
        except BaseException as error:
            raise AssertionError(f"interrupted at step {at}") from error
        runs += 1
        interrupted += came
        step += stride
    print(json.dumps({"steps": total, "runs": runs, "interrupted": interrupted}))


if __name__ == "__main__":
    main()
