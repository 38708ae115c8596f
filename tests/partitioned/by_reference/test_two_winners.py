"""Where a store let two writers make one commit, whoever sees it says that the store did it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence

import pyarrow as pa
import pytest

from cec_store.errors import CorruptLog, QueueReplaced
from cec_store.format.schema import RecordSchema
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store import Racing
from support.stores.counting import CountingStore
from support.stores.needed import need

need("fsspec")

SCHEMA = RecordSchema(pa.schema([("n", pa.int64())]))


class Promising(CountingStore):
    """A server whose race is fair, and which may make the next commit over one that is there."""

    def __init__(self, url: str) -> None:
        super().__init__(store_at(url))
        self.replaces = False

    @property
    def racing(self) -> Racing:
        return self

    def server(self) -> str:
        return f"promising://{self.url}"

    def race(self, name: str, bodies: Sequence[bytes]) -> int:
        return 1

    def create(self, name: str, parts: Sequence[bytes]) -> None:
        if self.replaces and name == commit_object_name(1):
            self.store.delete([name])
        super().create(name, parts)


def opened(url: str) -> tuple[Promising, PartitionedQueue]:
    store = Promising(url)
    queue = PartitionedQueue(store, "a", SCHEMA, partitions=1, clock_us=lambda: 5)
    return store, queue


def rows() -> pa.Table:
    return pa.table({"n": [1]})


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4()}/q"


def blame(url: str) -> str:
    return re.escape(f"promising://{url} let two writers make commit 1, and what one of them")


def test_a_writer_whose_commit_was_replaced_blames_the_store(url: str) -> None:
    _, first = opened(url)
    store, second = opened(url)
    reader = PartitionedQueue(Promising(url), "r", clock_us=lambda: 5)
    first.append(rows())
    reader.refresh()
    store.replaces = True
    second.append(rows())
    second.append(rows())
    with pytest.raises(QueueReplaced, match=blame(url)):
        first.append(rows())
    with pytest.raises(QueueReplaced, match=blame(url)):
        reader.refresh()


def test_a_reader_of_a_history_that_does_not_fit_blames_the_store(url: str) -> None:
    _, first = opened(url)
    store, second = opened(url)
    first.append(rows())
    first.append(rows())
    store.replaces = True
    second.append(rows())
    with pytest.raises(CorruptLog, match=blame(url)) as caught:
        PartitionedQueue(Promising(url), "r", clock_us=lambda: 5)
    assert "restore the file" not in str(caught.value)
