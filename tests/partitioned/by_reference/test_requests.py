"""How often a store is asked: what a long history costs to open, to search and to follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cec_store import PartitionedQueue
from cec_store.format.schema import RecordSchema
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.proving import prove_exclusive_creates
from support.places.layouts import put_into_objects
from support.places.long_histories import RECORDS, SCHEMA, STEP_US, long_history
from support.stores.counting import CountingStore
from support.stores.faulty_proxy import FaultyProxy, proxy_to
from support.stores.s3_server import BUCKET, options_of, s3_server

COMMITS = 100_000


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultyProxy]:
    with s3_server() as address, proxy_to(address) as found:
        yield found


def kinds(proxy: FaultyProxy) -> dict[str, int]:
    return dict(Counter(request.kind for request in proxy.requests))


def test_a_queue_of_100_000_commits_opens_and_is_searched_in_ten_requests_each(
    proxy: FaultyProxy,
) -> None:
    url = f"s3://{BUCKET}/long"
    long_history(store_at(url, options_of(proxy.address)), COMMITS)
    store = store_at(url, options_of(proxy.address))
    store.list("nothing")  # connected
    proxy.requests.clear()
    queue = ReferenceQueue(store)
    assert queue.state.number == COMMITS
    assert queue.ends() == {0: COMMITS * RECORDS}
    assert sum(kinds(proxy).values()) <= 10, kinds(proxy)
    proxy.requests.clear()
    moment = 77_777 * STEP_US
    assert queue.offset_at(0, moment) is not None
    assert sum(kinds(proxy).values()) <= 10, kinds(proxy)
    proxy.requests.clear()
    queue.refresh()
    assert kinds(proxy) == {"get": 1}


def test_who_makes_a_queue_needs_three_requests_of_a_proven_store(proxy: FaultyProxy) -> None:
    store = store_at(f"s3://{BUCKET}/new", options_of(proxy.address))
    prove_exclusive_creates(store)
    proxy.requests.clear()
    PartitionedQueue(store, "a", SCHEMA, partitions=2, clock_us=lambda: 5)
    # Listings find nothing; commit 0 is made, and read for its columns.
    assert kinds(proxy) == {"list": 1, "put": 1, "get": 1}
    proxy.requests.clear()
    PartitionedQueue(store, "a", partitions=2, clock_us=lambda: 5)
    assert "put" not in kinds(proxy)


def test_a_small_append_to_200_partitions_is_one_object(proxy: FaultyProxy) -> None:
    url = f"s3://{BUCKET}/small"
    schema = RecordSchema(SCHEMA.data, key_columns=("n",))
    store = store_at(url, options_of(proxy.address))
    queue = PartitionedQueue(store, "a", schema, partitions=200, clock_us=lambda: 5)
    proxy.requests.clear()
    queue.append(pa.table({"n": np.arange(1_000)}))
    assert kinds(proxy) == {"put": 1, "get": 1}  # the commit before is looked at
    assert sum(queue.ends().values()) == 1_000


def test_a_large_append_to_200_partitions_is_200_objects_and_one_commit(
    proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_into_objects(monkeypatch)
    url = f"s3://{BUCKET}/wide"
    schema = RecordSchema(SCHEMA.data, key_columns=("n",))
    store = store_at(url, options_of(proxy.address))
    queue = PartitionedQueue(store, "a", schema, partitions=200, clock_us=lambda: 5)
    proxy.requests.clear()
    queue.append(pa.table({"n": np.arange(20_000)}))
    assert kinds(proxy) == {"put": 201, "get": 1}  # the commit before is looked at


def test_a_thousand_partitions_commit_in_one_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_into_objects(monkeypatch)
    store = CountingStore(store_at(tmp_path))
    schema = RecordSchema(SCHEMA.data, key_columns=("n",))
    queue = PartitionedQueue(store, "a", schema, partitions=1000, clock_us=lambda: 5)
    before = len(store.calls)
    queue.append(pa.table({"n": np.arange(50_000)}))
    calls = store.calls[before:]
    made = [name for kind, name in calls if kind == "create"]
    assert len(made) == 1001
    assert [name for name in made if name.endswith(".commit")] == [commit_object_name(1)]
    looks = [(kind, name) for kind, name in calls if kind != "create"]
    assert looks == [("read", commit_object_name(0))] * 3  # before rows, before and behind a commit
    assert sum(queue.ends().values()) == 50_000
