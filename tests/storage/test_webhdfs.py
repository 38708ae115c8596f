"""HDFS over WebHDFS: a hidden name and a rename, whose answer says who has made the object."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cec_store.errors import ReadOnly, StoreUnreachable
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.fsspec_store import FsspecStore
from cec_store.storage.stores.retrying import Retries
from support.stores.needed import need
from support.stores.webhdfs_double import WebHdfs, webhdfs_double

need("fsspec", "requests")

from cec_store.storage.stores.webhdfs import WebHdfsFileSystem  # noqa: E402

FEW = Retries(attempts=3, first_pause_s=0.01)


@pytest.fixture
def hdfs() -> Iterator[WebHdfs]:
    with webhdfs_double() as server:
        yield server


def store_of(hdfs: WebHdfs) -> FsspecStore:
    store = store_at(f"webhdfs://127.0.0.1:{hdfs.port}/q", {"user": "me"}, retries=FEW)
    assert isinstance(store, FsspecStore)
    return store


def test_an_object_is_written_under_another_name_and_renamed(hdfs: WebHdfs) -> None:
    store = store_of(hdfs)
    store.create("a/b", [b"one", b"two"])
    assert hdfs.operations == ["GETFILESTATUS", "CREATE", "CREATE", "RENAME"]
    assert hdfs.files == {"/q/a/b": b"onetwo"}


def test_a_rename_that_is_refused_is_a_name_that_is_taken(hdfs: WebHdfs) -> None:
    store = store_of(hdfs)

    def taken_meanwhile(operation: str) -> str:
        if operation == "RENAME":
            hdfs.files["/q/a"] = b"another's"
        return ""

    hdfs.fault = taken_meanwhile
    with pytest.raises(FileExistsError):
        store.create("a", [b"mine"])
    assert hdfs.files == {"/q/a": b"another's"}


@pytest.mark.parametrize("fault", ["lost", "standby"])
@pytest.mark.parametrize("at", range(4))
def test_any_call_that_fails_once_changes_nothing(hdfs: WebHdfs, at: int, fault: str) -> None:
    store = store_of(hdfs)
    hdfs.fault = lambda operation: fault if len(hdfs.operations) == at + 1 else ""
    store.create("a/b", [b"mine"])
    assert hdfs.files["/q/a/b"] == b"mine"
    assert store.list("a") == [("b", 4)]
    with pytest.raises(FileExistsError):
        store.create("a/b", [b"another's"])


def test_a_node_that_refuses_the_bytes_is_no_passing_failure(hdfs: WebHdfs) -> None:
    store = store_of(hdfs)
    hdfs.fault = lambda operation: "denied" if len(hdfs.operations) == 3 else ""
    with pytest.raises(ReadOnly, match="Permission denied"):
        store.create("a", [b"x"])
    assert hdfs.files == {}


def test_a_node_that_stays_in_standby_is_unreachable(hdfs: WebHdfs) -> None:
    store = store_of(hdfs)
    hdfs.fault = lambda operation: "standby"
    for call in (lambda: store.create("a", [b"x"]), lambda: store.read("a"), store.list):
        with pytest.raises(StoreUnreachable, match="not supported"):
            call()
    assert hdfs.files == {}


def test_fewer_bytes_than_a_file_has_are_not_taken_for_its_end(
    hdfs: WebHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(hdfs)
    store.create("a", [b"whole"])
    real = store._calls.size
    monkeypatch.setattr(store._calls, "size", lambda path: real(path) + 1)
    with pytest.raises(StoreUnreachable, match="5 of 6 bytes came"):
        store.read("a")


@pytest.mark.parametrize(
    ("url", "given", "asked"),
    [
        ("webhdfs://node:50070/q", {}, "webhdfs://node:50070/q"),
        ("webhdfs://node/q", {}, "webhdfs://node:9870/q"),
        ("hdfs://node:8020/q", {}, "webhdfs://node:9870/q"),
        ("hdfs://me@node/q", {"port": 9871}, "webhdfs://me@node:9871/q"),
        ("hdfs://service/q/r", {"host": "node"}, "webhdfs://node:9870/q/r"),
    ],
)
def test_webhdfs_is_asked_at_its_own_port(url: str, given: dict[str, object], asked: str) -> None:
    where, options = WebHdfsFileSystem.address(url, {**given, "user": "x"})
    assert (where, options) == (asked, {"user": "x"})


def test_a_request_does_not_wait_for_ever(hdfs: WebHdfs) -> None:
    store = store_of(hdfs)
    session = store._calls.calls.session
    assert session.request.keywords["timeout"] == (10.0, 60.0)
