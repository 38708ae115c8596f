"""All that changes a partitioned queue, step by step, and what each step promises."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa

from cec_store.errors import CecError, NotAQueue
from cec_store.format.schema import RecordSchema
from cec_store.partitioned.batches import BatchCommitter, write_segments
from cec_store.queues.appendable_queue import now_us
from cec_store.storage.local import LocalFolder
from cec_store.storage.stores.local_store import LocalStore
from support.contract.layouts import MANY, SCHEMA, Layout, Opened, Rows, table
from support.disks.recorded_disk import RecordedDisk

QUERY = "3d84e10c-fc41-4fb0-9b0b-2125874a0f07"
RECORDS = RecordSchema(SCHEMA, timestamp_column="at")
DAYS_2_S = 2 * 86_400


class BrokenPromise(AssertionError):
    """A disk after a power cut on which the queue does not keep its word."""


@dataclass(frozen=True)
class Seen:
    """What a queue shows of itself."""

    rows: Rows
    starts: dict[int, int]
    consumers: dict[str, tuple[object, object]]
    """By name: what was received and saved, by partition."""


def seen(layout: Layout) -> Seen:
    """Return what a new reader is shown. Raises :class:`CecError` where it cannot be."""
    with layout.open("r") as queue:
        consumers = {
            each.name: (each.received, each.effects_saved) for each in queue.queue.consumers()
        }
        return Seen(layout.rows(), queue.starts(), consumers)


class ReferenceWorkload:
    """Drives a queue on a recorded disk; ``steps`` are done one after the other."""

    def __init__(self, disk: RecordedDisk, partitions: int) -> None:
        self.disk = disk
        self.layout = Layout(MANY, os.path.join(disk.root, "queue"), partitions)
        self.numbers = count()
        self.batches = count()
        self.queue: Opened
        self.promised: list[Seen | None] = [None]
        """After each step."""

    def run(self) -> None:
        for step in self.steps():
            self.disk.mark(len(self.promised) - 1)
            step()
            with self.disk.paused():
                self.promised.append(seen(self.layout))
        self.disk.mark(len(self.promised) - 1)
        self.queue.close()

    def promise(self, step: object) -> tuple[Seen | None, ...]:
        """Return what a queue may be while this step, counted from 0, is at work."""
        assert isinstance(step, int)
        return tuple(self.promised[step : step + 2])

    def steps(self) -> list[Callable[[], object]]:
        return [
            self.open, self.append, self.append, self.commit_of_tasks, self.append,
            self.register, self.acknowledge, self.dead_task, self.append, self.append,
            self.trim, self.append_once, self.append_once_again, self.acknowledge,
            self.take_over, self.append, self.append, self.merge, self.append, self.reopen,
            self.commit_of_tasks, self.retain, self.age_and_clean, self.append, self.drop,
            self.trim, self.age_and_clean, self.append, self.append,
        ]  # fmt: skip

    def _next(self, rows: int) -> list[int]:
        return [next(self.numbers) for _ in range(rows)]

    def open(self) -> None:
        self.queue = self.layout.open()

    def reopen(self) -> None:
        self.queue.close()
        self.queue = self.layout.open()

    def append(self) -> None:
        self.queue.append(self._next(3))

    def append_once(self) -> None:
        self.queue.queue.append(  # type: ignore[call-arg]
            table(self._next(2)), txn_app_id="app", txn_version=1
        )

    def append_once_again(self) -> None:
        self.queue.queue.append(  # type: ignore[call-arg]
            table([1000]), txn_app_id="app", txn_version=1
        )

    def _written(self, batch: int) -> list[dict[str, object]]:
        store = LocalStore(self.layout.url)
        return [
            segment
            for partition in range(self.layout.partitions or 1)
            for segment in write_segments(
                store, RECORDS, QUERY, batch, partition,
                [pa.RecordBatch.from_pylist(table(self._next(2)).to_pylist(), SCHEMA)],
                segment_bytes=1 << 20, clock_us=now_us,
            )
        ]  # fmt: skip

    def commit_of_tasks(self) -> None:
        """Commit a batch of a query, which tasks have written to all partitions."""
        batch = next(self.batches)
        folder, store = LocalFolder(self.layout.url), LocalStore(self.layout.url)
        committer = BatchCommitter(folder, store, RECORDS, clock_us=now_us)
        assert committer.commit(QUERY, batch, self._written(batch))

    def dead_task(self) -> None:
        """Write segments that nobody will ever commit."""
        self._written(900)

    def register(self) -> None:
        self.consumer = self.queue.consumer("hourly")

    def take_over(self) -> None:
        self.consumer = self.queue.consumer("hourly")

    def acknowledge(self) -> None:
        self.consumer.acknowledge(received=self.queue.ends(), effects_saved={0: 3})

    def drop(self) -> None:
        self.queue.queue.drop_consumer("hourly")

    def trim(self) -> None:
        self.queue.trim(self.queue.ends())

    def merge(self) -> None:
        merged = self.queue.queue.merge()  # type: ignore[union-attr]
        assert merged or self.layout.partitions != 1  # of one, there are neighbours enough

    def retain(self) -> None:
        self.queue.queue.set_retention("8d")

    def age_and_clean(self) -> None:
        """Delete what has been of no use for two days, and what a dead task has left."""
        for path in Path(self.layout.url).rglob("*"):
            then = path.stat().st_mtime - DAYS_2_S
            os.utime(path, (then, then))
        self.queue.queue.clean()  # type: ignore[union-attr]


def check(layout: Layout, promised: tuple[Seen | None, ...]) -> None:
    """Hold a queue on a disk after a power cut to what was promised, and go on with it.

    Raises:
        BrokenPromise: something is lost, shown by half, or in the way.
    """
    try:
        found = seen(layout)
    except NotAQueue as error:
        if None not in promised:
            raise BrokenPromise("the queue is gone") from error
        found = None
    except CecError as error:
        raise BrokenPromise(f"it cannot be read: {error}") from error
    if found not in promised:
        raise BrokenPromise(f"shown is {found}, promised {promised}")
    if found is not None and (faults := layout.faults()):
        raise BrokenPromise(f"verify says {faults}")
    with layout.open() as queue:
        queue.append([5000])
        for name in found.consumers if found else ():
            queue.consumer(name).acknowledge(received=queue.ends())
        queue.queue.clean()  # type: ignore[union-attr]
    numbers = sorted(n for part in found.rows.values() for n in part) if found else []
    if layout.numbers() != [*numbers, 5000]:
        raise BrokenPromise(f"after an append: {layout.numbers()}, not {numbers} and one more")
    if faults := layout.faults():
        raise BrokenPromise(f"verify says after an append {faults}")
