"""The layouts that a queue has, each behind the same calls, so that one set of tests holds for all.

What a layout lacks is not evened out here: the call fails, and the test names the layout and why.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cec_store import Consumer, OutputQueue, PartitionedConsumer, PartitionedQueue, open_queue
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.opening import read_queue
from cec_store.queues.appendable_queue import now_us
from cec_store.storage.stores.by_url import store_at
from support.stores.copies import contents, in_memory
from support.stores.s3_server import BUCKET, options_of

PLAIN, PLAIN_IN_STORE = "plain", "plain in a store"
ONE, MANY = "one partition", "partitions"
MANY_IN_MEMORY, MANY_IN_S3 = "partitions in memory", "partitions in S3"
LAYOUTS = (PLAIN, PLAIN_IN_STORE, ONE, MANY, MANY_IN_MEMORY, MANY_IN_S3)
LOCAL = (PLAIN, ONE, MANY)
BY_REFERENCE = (ONE, MANY, MANY_IN_MEMORY, MANY_IN_S3)

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.int64())])
"""Number n is of microsecond 1,000 n."""
FAILED = (AssertionError, pytest.fail.Exception)
"""What a test that looks at a queue fails with; an error of the queue itself is another."""
Rows = dict[int, list[int]]
"""Numbers by partition, in order."""
Offsets = Mapping[int, int]


def every_layout(
    lacking: Mapping[str, str] | None = None,
    *,
    among: Sequence[str] = LAYOUTS,
    raises: type[BaseException] | tuple[type[BaseException], ...] = FAILED,
) -> pytest.MarkDecorator:
    """Run a test over layouts; those in ``lacking`` must fail as said, until they have it.

    S3 takes seconds a test, and memory stands for it in the quick tier.
    """
    reasons = lacking or {}
    assert {*reasons} <= {*among}
    params = []
    for name in among:
        marks = [pytest.mark.full, pytest.mark.exhaustive] if name == MANY_IN_S3 else []
        if name in reasons:
            marks.append(pytest.mark.xfail(strict=True, reason=reasons[name], raises=raises))
        params.append(pytest.param(name, marks=marks))
    return pytest.mark.parametrize("layout", params, indirect=True)


def table(numbers: Collection[int]) -> pa.Table:
    """Return these numbers as rows."""
    return pa.table({"n": [*numbers], "at": [1000 * n for n in numbers]}, schema=SCHEMA)


@dataclass(frozen=True)
class Layout:
    """A place for a queue of one layout; nothing is there at first."""

    name: str
    url: str
    partitions: int | None = None
    """``None``: a queue without partitions."""
    options: Mapping[str, Any] | None = None
    """Of the store."""

    @property
    def is_plain(self) -> bool:
        return self.partitions is None

    @property
    def is_local(self) -> bool:
        return self.name in LOCAL

    @property
    def path(self) -> Path:
        """Its folder on this machine."""
        assert self.is_local
        return Path(self.url)

    def beside(self, name: str) -> Layout:
        """Return another place, of the same layout."""
        return Layout(self.name, f"{self.url}-{name}", self.partitions, self.options)

    def open(
        self,
        mode: str = "a",
        schema: pa.Schema | None = SCHEMA,
        *,
        timestamp_column: str | None = "at",
        clock_us: Callable[[], int] = now_us,
        **more: Any,
    ) -> Opened:
        """Open the queue; to append it is made where there is none."""
        if mode == "r":
            return Opened(self, open_queue(self.url, storage_options=self.options, **more))
        if self.partitions is not None:
            more["partitions"] = self.partitions
        queue = open_queue(
            self.url, mode, schema=schema, timestamp_column=timestamp_column,
            clock_us=clock_us, storage_options=self.options, **more,
        )  # fmt: skip
        return Opened(self, queue)

    def read(self, **selection: Any) -> pa.Table:
        """Return all that :func:`read_queue` shows."""
        return read_queue(self.url, storage_options=self.options, **selection).read_all()

    def rows(self) -> Rows:
        """Return what a new reader is shown, having proven that offsets have no hole."""
        found: Rows = {}
        firsts: dict[int, int] = {}
        read = self.read(include_metadata=True)
        names = ("_partition", "_offset", "n", "at")
        columns = [read[name].to_pylist() for name in names]
        for partition, offset, n, at in zip(*columns, strict=True):
            partition = partition or 0
            rows = found.setdefault(partition, [])
            first = firsts.setdefault(partition, offset)
            assert (offset, at) == (first + len(rows), 1000 * n)
            rows.append(n)
        return found

    def numbers(self) -> list[int]:
        """Return the numbers of all partitions in the order of numbers."""
        return sorted(n for part in self.rows().values() for n in part)

    def files(self) -> dict[str, bytes]:
        """Return all files or objects by name, but for locks and the derived index."""
        if not self.is_local:
            return contents(store_at(self.url, self.options))
        found = [each for each in self.path.rglob("*") if each.is_file()]
        named = {each.relative_to(self.path).as_posix(): each for each in found}
        return {
            name: each.read_bytes()
            for name, each in named.items()
            if ".lock" not in name and not name.startswith("index/")
        }

    def put(self, name: str, data: bytes) -> None:
        """Put a file or an object in the place of one that is there, if one is."""
        if self.is_local:
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_bytes(data)
            return
        store = store_at(self.url, self.options)
        store.delete([name])
        store.create(name, [data])

    def remove(self) -> None:
        """Remove the queue with all that is there."""
        if self.is_local:
            shutil.rmtree(self.path)
            return
        store_at(self.url, self.options).delete([*self.files()])

    def copy_to(self, other: Layout) -> None:
        """Copy all files, as people do, to a place that may be on this machine or in a store."""
        for name, data in self.files().items():
            other.put(name, data)

    def faults(self) -> list[str]:
        """Return what `cec-store verify` finds wrong with all records decoded."""
        verified = verify_place(place_at(self.url, self.options), records=True)
        assert verified.logs
        return [str(fault) for fault in verified.faults]


@dataclass
class Opened:
    """An open queue of any layout."""

    layout: Layout
    queue: OutputQueue | PartitionedQueue
    held: list[OpenConsumer] = field(default_factory=list)
    """Consumers to be let go of."""

    def append(self, numbers: Collection[int]) -> int:
        """Append these rows and return the number of the append once they are durable."""
        if isinstance(self.queue, PartitionedQueue):
            return self.queue.append(table(numbers))
        return self.queue.append(table(numbers), sync=True)

    def cut(self) -> None:
        """See to it that what comes next is in another part than what came before."""
        if isinstance(self.queue, OutputQueue):
            self.queue.roll()

    def fill(self, appends: int, first: int = 0, rows: int = 2) -> Rows:
        """Append so many times, each a part of its own, and return what is then there of them."""
        added: Rows = {}
        for number in range(appends):
            before = self.ends()
            numbers = range(first + number * rows, first + (number + 1) * rows)
            self.append(numbers)
            self.cut()
            (partition,) = (n for n, end in self.ends().items() if end != before.get(n, 0))
            added.setdefault(partition, []).extend(numbers)
        return added

    def starts(self) -> dict[int, int]:
        if isinstance(self.queue, OutputQueue):
            return {0: self.queue.chain().first_offset()}
        self.queue.refresh()
        return self.queue.starts()

    def ends(self) -> dict[int, int]:
        if isinstance(self.queue, OutputQueue):
            return {0: self.queue.durable_offset}
        self.queue.refresh()
        return self.queue.ends()

    def replay(self, partition: int = 0, *bounds: Any, **more: Any) -> Iterator[pa.RecordBatch]:
        if isinstance(self.queue, OutputQueue):
            assert partition == 0
            return self.queue.replay(*bounds, **more)
        return self.queue.replay(partition, *bounds, **more)

    def numbers(self, partition: int = 0, *bounds: Any, **more: Any) -> list[int]:
        """Return the numbers of a replay."""
        replay = self.replay(partition, *bounds, **more)
        return [n for batch in replay for n in batch.column("n").to_pylist()]

    def trim(self, before: Offsets | None = None, keep: Any = None) -> dict[int, int]:
        """Trim, and return the oldest offset that is left of each partition."""
        if isinstance(self.queue, OutputQueue):
            return {0: self.queue.trim(before[0] if before else None, keep=keep)}
        return self.queue.trim(before=before, keep=keep)

    def consumer(self, name: str, start: Offsets | None = None) -> OpenConsumer:
        """Act under this name; whoever acted under it before is fenced."""
        if isinstance(self.queue, OutputQueue):
            at = start[0] if start else None
            consumer: Any = self.queue.consumer(name, start=at, takeover=True)
        else:
            consumer = self.queue.consumer(name, start=start)
        self.held.append(OpenConsumer(consumer))
        return self.held[-1]

    def lags(self) -> dict[str, int]:
        """Return by consumer how many records it has not received."""
        return {each.name: each.lag_records for each in self.queue.consumers()}

    def close(self) -> None:
        for consumer in self.held:
            consumer.close()
        self.queue.close()

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class OpenConsumer:
    """A consumer of any layout; offsets are by partition."""

    consumer: Consumer | PartitionedConsumer

    def acknowledge(self, **offsets: Offsets) -> None:
        """Acknowledge ``received`` or ``effects_saved``."""
        if isinstance(self.consumer, Consumer):
            self.consumer.acknowledge(**{what: at[0] for what, at in offsets.items()})
        else:
            self.consumer.acknowledge(**offsets)

    @property
    def received(self) -> dict[int, int]:
        return self._by_partition(self.consumer.received)

    @property
    def effects_saved(self) -> dict[int, int]:
        return self._by_partition(self.consumer.effects_saved)

    @staticmethod
    def _by_partition(offsets: int | tuple[int, ...]) -> dict[int, int]:
        return dict(enumerate((offsets,) if isinstance(offsets, int) else offsets))

    def close(self) -> None:
        if isinstance(self.consumer, Consumer):
            self.consumer.close()


def layout_at(name: str, folder: Path, s3_address: Callable[[], str]) -> Layout:
    """Return an empty place of this layout."""
    if name in LOCAL:
        return Layout(name, str(folder / "queue"), {PLAIN: None, ONE: 1, MANY: 3}[name])
    if name == MANY_IN_S3:
        return Layout(name, f"s3://{BUCKET}/{folder.name}/queue", 3, options_of(s3_address()))
    return Layout(name, in_memory(), None if name == PLAIN_IN_STORE else 3)
