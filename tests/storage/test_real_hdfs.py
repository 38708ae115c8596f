"""Queues on a real HDFS, by WebHDFS: what the stand-in says of it is true."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from cec_store import open_queue, read_queue
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store import Store
from support.stores.hdfs_cluster import Hdfs, hdfs_cluster
from support.stores.needed import need

need("fsspec", "requests")


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


def store_of(hdfs: Hdfs, path: str) -> Store:
    return store_at(hdfs.web_url(path), {"user": "root"})


def test_an_object_is_made_read_listed_and_deleted(hdfs: Hdfs) -> None:
    store = store_of(hdfs, "objects")
    assert store.list() == []
    store.create("a/b", [b"one", b"two"])
    store.create("a/empty", [])
    with pytest.raises(FileExistsError):
        store.create("a/b", [b"three"])
    assert (store.read("a/b"), store.read("a/b", 2, 2)) == (b"onetwo", b"et")
    assert (store.read("a/b", 99), store.read("a/empty")) == (b"", b"")
    assert store.size("a/b") == 6
    assert [(each.name, each.size) for each in store.list("a")] == [("b", 6), ("empty", 0)]
    assert [each.is_folder for each in store.list()] == [True]
    store.delete(["a/b", "a/none"])
    for call in (store.read, store.size):
        with pytest.raises(FileNotFoundError):
            call("a/b")


def test_of_racing_writers_one_makes_each_name(hdfs: Hdfs) -> None:
    won: list[tuple[int, int]] = []

    def write(writer: int) -> None:
        store = store_of(hdfs, "race")
        for number in range(10):
            try:
                store.create(str(number), [b"%d" % writer])
            except FileExistsError:
                continue
            won.append((number, writer))

    threads = [threading.Thread(target=write, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for number, _ in won) == list(range(10))
    store = store_of(hdfs, "race")
    assert {number: int(store.read(str(number))) for number, _ in won} == dict(won)
    assert {each.name for each in store.list()} == {str(n) for n in range(10)}


def test_a_queue_outlives_a_restart_of_its_datanodes_and_namenode(hdfs: Hdfs) -> None:
    url = hdfs.web_url("bids")
    said = {"schema": pa.schema([("n", pa.int64())]), "key_columns": ["n"]}
    user = {"user": "root"}
    queue = open_queue(url, "a", partitions=3, storage_options=user, **said)
    for start in range(3):
        queue.append(pa.table({"n": range(10 * start, 10 * start + 10)}))
    hdfs.restart_datanode(0)
    queue.append(pa.table({"n": range(30, 40)}))
    hdfs.restart_namenode()
    queue.append(pa.table({"n": range(40, 50)}))
    found = read_queue(url, storage_options=user).read_all()["n"].to_pylist()
    assert sorted(found) == list(range(50))
