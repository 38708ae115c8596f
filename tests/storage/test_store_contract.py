"""What every store promises, tried on local files, in memory, on a real S3 server and WebHDFS."""

from __future__ import annotations

import os
import random
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store import Entry, Store, check_object_name
from support.stores.counting import CountingStore
from support.stores.needed import need
from support.stores.s3_server import BUCKET, options_of
from support.stores.webhdfs_double import webhdfs_double

HOSTILE = ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", ".a", "a/.b", "a b", "ä",
           "a\0", "a?versionId=1", "a#b", "x" * 128, "s3://b/a", "a\\b", "a\n"]  # fmt: skip


@pytest.fixture(scope="module")
def hdfs_port() -> Iterator[int]:
    with webhdfs_double() as server:
        yield server.port


@pytest.fixture(params=["local", "memory", "s3", "webhdfs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store, whose root is not there yet."""
    if request.param == "local":
        return store_at(tmp_path / "above" / "root")
    need("fsspec")
    root = f"tests/{secrets.token_hex(8)}"
    if request.param == "memory":
        return store_at(f"memory://{root}")
    if request.param == "webhdfs":
        need("requests")
        port = request.getfixturevalue("hdfs_port")
        return store_at(f"webhdfs://127.0.0.1:{port}/{root}", {"user": "me"})
    address = request.getfixturevalue("s3_address")
    return store_at(f"s3://{BUCKET}/{root}", options_of(address))


def test_what_was_made_is_read_in_whole_and_by_range(store: Store) -> None:
    store.create("commits/00001", [b"one", b"", b"two"])
    assert store.size("commits/00001") == 6
    assert store.read("commits/00001") == b"onetwo"
    assert store.read("commits/00001", 2, 2) == b"et"
    assert store.read("commits/00001", 2) == b"etwo"
    assert store.read("commits/00001", 0, 3) == b"one"
    assert store.read("commits/00001", 4, 100) == b"wo"
    assert store.read("commits/00001", 5, 0) == b""


@pytest.mark.parametrize(("byte", "size"), [(6, None), (6, 1), (7, 5), (2**40, 1), (6, 0)])
def test_behind_the_end_there_is_nothing(store: Store, byte: int, size: int | None) -> None:
    store.create("a", [b"onetwo"])
    assert store.read("a", byte, size) == b""


def test_an_object_may_be_empty(store: Store) -> None:
    store.create("a/empty", [])
    assert store.size("a/empty") == 0
    assert store.read("a/empty") == store.read("a/empty", 0, 10) == b""
    assert store.list("a") == [Entry("empty", 0)]


def test_a_name_is_given_once(store: Store) -> None:
    store.create("a/b", [b"first"])
    for other in (b"second", b"first and more", b"fir", b""):
        with pytest.raises(FileExistsError, match="a/b"):
            store.create("a/b", [other])
    assert store.read("a/b") == b"first"
    assert store.list("a") == [Entry("b", 5)]


def test_of_many_who_make_one_object_one_does(store: Store) -> None:
    for number in range(15):
        name = f"commits/{number}"
        won: list[bytes] = []
        barrier = Barrier(6)

        def make(
            data: bytes, name: str = name, won: list[bytes] = won, barrier: Barrier = barrier
        ) -> None:
            barrier.wait()
            try:
                store.create(name, [data])
            except FileExistsError:
                return
            won.append(data)

        threads = [Thread(target=make, args=(b"%d" % n * 5000,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [store.read(name)] == won


@pytest.mark.parametrize("name", ["a", "a/b", "a/b/c", "folder"])
def test_what_is_not_there_is_not_found(store: Store, name: str) -> None:
    store.create("folder/object", [b"x"])
    store.create("a/b/other", [b"x"])
    for call in (store.read, store.size, lambda name: store.read(name, 1, 0)):
        with pytest.raises(FileNotFoundError):
            call(name)


def test_nothing_is_below_an_object(store: Store) -> None:
    store.create("a", [b"x"])
    for call in (store.read, store.size):
        with pytest.raises(FileNotFoundError):
            call("a/b")
    assert store.list("a") == []
    store.delete(["a/b"])
    assert store.read("a") == b"x"


def test_a_listing_has_one_level_in_order(store: Store) -> None:
    assert store.list() == store.list("none") == store.list("none/below") == []
    for name in ("b/z", "b/a", "b/c/d/e", "b-c", "a", "b/a.1", "B"):
        store.create(name, [name.encode()])
    assert store.list() == [("B", 1), ("a", 1), ("b", None), ("b-c", 3)]
    assert store.list("b") == [("a", 3), ("a.1", 5), ("c", None), ("z", 3)]
    assert store.list("b/c") == [Entry("d", None)]
    assert store.list("b/c")[0].is_folder
    assert store.list("B") == []


def test_a_listing_is_never_an_old_one(store: Store) -> None:
    for number in range(3):
        store.create(f"a/{number}", [b"x"])
        assert len(store.list("a")) == number + 1
    store.delete(["a/1"])
    assert [entry.name for entry in store.list("a")] == ["0", "2"]


def test_a_listing_may_be_longer_than_a_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "3")  # a thousand, without
    names = [f"many/{number}{kind}" for number in range(10) for kind in ("", "-x", "/below")]
    names = [name for name in names if name.count("/") == 2 or "-x" in name]
    for name in names:
        store.create(name, [b"x"])
    found = [name for number in range(10) for name in ((f"{number}", None), (f"{number}-x", 1))]
    assert store.list("many") == found
    store.delete(names)
    assert [entry for entry in store.list("many") if not entry.is_folder] == []


def test_more_are_deleted_than_one_request_takes(store: Store) -> None:
    names = [f"many/{number:04d}" for number in range(1100)]
    for name in (names[0], names[-1]):
        store.create(name, [b"x"])
    store.delete(names)
    assert store.list("many") == []


def test_deleting_what_is_not_there_is_no_error(store: Store) -> None:
    store.create("a/b", [b"x"])
    store.create("c", [b"y"])
    store.delete([])
    store.delete(["none", "a/none", "none/none", "a/b", "a/b"])
    store.delete(["a"])  # a folder is no object
    assert store.list("a") == []
    assert store.read("c") == b"y"
    store.create("a/b", [b"again"])
    assert store.read("a/b") == b"again"


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_a_hostile_name_is_refused_by_every_call(store: Store, name: str) -> None:
    calls = [
        lambda: store.create(name, [b"x"]),
        lambda: store.read(name),
        lambda: store.size(name),
        lambda: store.delete(["ok", name]),
    ]
    calls += [lambda: store.list(name)] if name else []
    for call in calls:
        with pytest.raises(ValueError, match="not a file name"):
            call()
    assert store.list() == []


def test_a_range_before_the_object_is_refused(store: Store) -> None:
    store.create("a", [b"x"])
    for byte, size in ((-1, None), (0, -1)):
        with pytest.raises(ValueError, match="no range"):
            store.read("a", byte, size)


def test_large_objects_come_back(store: Store) -> None:
    parts = [random.Random(7).randbytes(1 << 20), b"", bytes(3 << 20), b"end"]
    store.create("large", parts)
    whole = b"".join(parts)
    assert store.size("large") == len(whole)
    assert store.read("large") == whole
    assert store.read("large", len(whole) - 3) == b"end"
    assert store.read("large", 1000, 1 << 20) == whole[1000 : 1000 + (1 << 20)]


def test_a_listing_beside_deletes_has_what_stays(store: Store) -> None:
    names = [f"gone-{number:02}" for number in range(20)]
    store.create("stays", [b"x"])
    is_over = False

    def makes_and_deletes() -> None:
        while not is_over:
            for name in names:
                store.create(name, [b"y"])
            store.delete(names)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    other = Thread(target=makes_and_deletes)
    other.start()
    try:
        found = [{entry.name for entry in store.list()} for _ in range(100)]
    finally:
        sys.setswitchinterval(interval)
        is_over = True
        other.join()
    assert all("stays" in each for each in found)
    assert set().union(*found) <= {"stays", *names}


def test_a_child_of_a_fork_uses_the_store_on_its_own(store: Store) -> None:
    store.create("a", [b"parent"])
    if store.url.startswith("memory"):
        pytest.skip("its objects are in the parent's memory")
    child = os.fork()
    if not child:
        status = 1
        try:
            store.create("b", [store.read("a") + b"'s child"])
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.read("b") == b"parent's child"
    store.create("c", [b"parent"])
    assert [entry.name for entry in store.list()] == ["a", "b", "c"]


def test_calls_are_counted_by_kind(store: Store) -> None:
    counted = CountingStore(store)
    counted.create("a", [b"x"])
    assert (counted.read("a"), counted.size("a")) == (b"x", 1)
    counted.delete(["a", "b"])
    assert counted.list() == []
    assert counted.counts() == {"create": 1, "read": 1, "size": 1, "delete": 2, "list": 1}
    assert counted.calls[0] == ("create", "a")
    assert (counted.url, counted.appends) == (store.url, store.appends)
    assert counted.creates_exclusively


@given(st.text("ab09._-/A ä~\\\0", max_size=12))
def test_a_name_that_is_taken_stays_inside(name: str) -> None:
    try:
        check_object_name(name)
    except ValueError:
        return
    assert os.path.normpath(f"/root/{name}") == f"/root/{name}"


def test_flags_say_what_a_store_can(tmp_path: Path) -> None:
    need("fsspec")
    local, memory = store_at(tmp_path), store_at("memory://x")
    assert (local.appends, local.creates_exclusively) == (True, True)
    assert (memory.appends, memory.creates_exclusively) == (False, True)
