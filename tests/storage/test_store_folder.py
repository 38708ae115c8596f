"""A folder of a store: the bytes that are there, few requests, and nothing older than a listing."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from cec_store.errors import ReadOnly
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import segment_name
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.folders import folder_at, folders_at, store_of
from cec_store.storage.stores.new_trees import check_new_folder, new_folder
from cec_store.storage.stores.read_ahead import BLOCK_BYTES, ReadAhead
from cec_store.storage.stores.store_folder import StoreFolder
from support.stores.copies import contents, in_memory
from support.stores.counting import CountingStore
from support.stores.needed import need

need("fsspec")
NAME = segment_name(7)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(store_at(f"memory://{secrets.token_hex(8)}"))


@pytest.fixture
def folder(store: CountingStore) -> StoreFolder:
    return StoreFolder(store)


def replace(store: CountingStore, name: str, data: bytes) -> None:
    store.store.delete([name])
    store.store.create(name, [data])


# -- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize("forward", [True, False])
def test_many_small_reads_in_a_row_are_a_few_requests(
    store: CountingStore, folder: StoreFolder, forward: bool
) -> None:
    data = random.Random(1).randbytes(20 * BLOCK_BYTES + 12_345)
    store.store.create(NAME, [data])
    places = range(0, len(data), 10_000)
    for byte in places if forward else reversed(places):
        assert folder.read(NAME, byte, 10_000) == data[byte : byte + 10_000]
    assert folder.size(NAME) == len(data)
    assert store.counts()["read"] <= 6
    assert store.counts().get("size", 0) <= 1


def test_reads_anywhere_are_those_of_the_object(store: CountingStore) -> None:
    generator = random.Random(2)
    for size in (0, 1, 99, 100, 101, 1000, 1007):
        data, name = generator.randbytes(size), segment_name(size)
        store.create(name, [data])
        blocks = ReadAhead(store, block_bytes=100, blocks_max=4)
        for _ in range(300):
            byte, wanted = generator.randrange(size + 150), generator.randrange(1, 350)
            assert blocks.read(name, byte, wanted) == data[byte : byte + wanted]
            assert blocks.end_of(name) in (None, size)
            if generator.random() < 0.05:
                blocks.forget("")


def test_a_hostile_place_is_behind_the_end(folder: StoreFolder, store: CountingStore) -> None:
    store.create(NAME, [b"abc"])
    assert folder.read(NAME, 2**63, 128) == b""
    assert folder.read(NAME, 2**40, 128) == b""
    assert folder.read(NAME, 1, 128) == b"bc"


def test_a_small_file_costs_one_request(folder: StoreFolder, store: CountingStore) -> None:
    store.create("manifest-0000000001", [b"x" * 64])
    store.calls.clear()
    assert folder.read("manifest-0000000001", 0, folder.size("manifest-0000000001")) == b"x" * 64
    assert store.counts() == {"read": 1}


def test_what_size_has_read_is_for_the_next_call_only(
    folder: StoreFolder, store: CountingStore
) -> None:
    store.create("a", [b"old"])
    for between in (
        lambda: folder.exists() or folder.names(),
        lambda: folder.read("b", 0, 1),
        folder.folders,
    ):
        store.store.delete(["a", "b"])
        store.store.create("a", [b"old"])
        store.store.create("b", [b"other"])
        assert folder.size("a") == 3
        between()
        replace(store, "a", b"new")
        assert folder.read("a", 0, 3) == b"new"


def test_a_large_file_has_its_size(folder: StoreFolder, store: CountingStore) -> None:
    store.create("9.compact", [b"x" * 100_000])
    assert folder.size("9.compact") == 100_000
    assert folder.read("9.compact", 0, 100_000) == b"x" * 100_000


@pytest.mark.parametrize("size", [100, BLOCK_BYTES, 3 * BLOCK_BYTES + 5])
def test_after_a_listing_nothing_older_is_read(
    folder: StoreFolder, store: CountingStore, size: int
) -> None:
    """One that has grown, one that was replaced: both as they are by then."""
    inner = folder.folder("partition-00001")
    name = f"partition-00001/{NAME}"
    store.create(name, [b"a" * size])
    assert inner.names() == [NAME]
    assert inner.read(NAME, size - 10, 100) == b"a" * 10
    replace(store, name, b"a" * size + b"b" * 50)
    assert inner.names() == [NAME]
    assert inner.read(NAME, size - 10, 100) == b"a" * 10 + b"b" * 50
    assert inner.size(NAME) == size + 50
    replace(store, name, b"c" * (size + 50))
    folder.names()
    assert inner.read(NAME, 0, 10) == b"c" * 10


def test_a_read_that_a_listing_overtakes_is_not_kept(store: CountingStore) -> None:
    store.create(NAME, [b"old"])
    blocks = ReadAhead(store)

    def read_late(name: str, byte: int = 0, size: int | None = None) -> bytes:
        data = store.store.read(name, byte, size)
        replace(store, NAME, b"newer")
        blocks.forget("")
        return data

    plain, store.read = store.read, read_late  # type: ignore[method-assign]
    assert blocks.read(NAME, 0, 10) == b"old"
    store.read = plain  # type: ignore[method-assign]
    assert blocks.read(NAME, 0, 10) == b"newer"


def test_what_is_gone_is_not_found(folder: StoreFolder, store: CountingStore) -> None:
    assert not folder.exists()
    assert folder.names() == []
    assert folder.folders() == {}
    for name in (NAME, "manifest-0000000001"):
        with pytest.raises(FileNotFoundError):
            folder.read(name, 0, 1)
        with pytest.raises(FileNotFoundError):
            folder.size(name)
    store.create("folder/a", [b"x"])
    with pytest.raises(FileNotFoundError):
        folder.size("folder")


def test_whether_it_is_there_is_asked_with_its_names(
    folder: StoreFolder, store: CountingStore
) -> None:
    store.store.create("a", [b"x"])
    store.store.create("_metadata/schema", [b"x"])
    assert (folder.exists(), folder.names()) == (True, ["_metadata", "a"])
    assert store.counts() == {"list": 1}
    store.store.create("b", [b"x"])
    assert (folder.exists(), folder.names()) == (True, ["_metadata", "a", "b"])
    assert store.counts() == {"list": 2}


# -- where it is ------------------------------------------------------------------------------


def test_folders_inside_and_above_have_their_paths() -> None:
    url = in_memory()
    store_at(url).create("state/0/_metadata/metadata", [b"x"])
    folder = folder_at(url)
    assert isinstance(folder, StoreFolder)
    inner = folder.folder("state").folders()["0"].folders()["_metadata"]
    assert inner.path == f"{url}/state/0/_metadata"
    assert inner.above().above().above().path == url
    assert folder.above().path == url.rpartition("/")[0]
    assert folder.above().folder("place").folder("state").names() == ["0"]
    assert folder.above().above().path == folder.above().path
    assert store_of(inner) is None
    assert store_of(folder) is not None


def test_a_file_url_is_a_local_path(tmp_path: Path) -> None:
    folder = folder_at(f"file://{tmp_path}")
    assert isinstance(folder, LocalFolder)
    assert folder.path == folder_at(tmp_path).path == str(tmp_path)
    assert folder_at(folder) is folder


def test_options_are_for_urls(tmp_path: Path) -> None:
    for path in (tmp_path, LocalFolder(tmp_path)):
        with pytest.raises(ValueError, match="storage_options"):
            folder_at(path, {"anon": True})
    with pytest.raises(ValueError, match="no storage_options"):
        folders_at((tmp_path, tmp_path), {"anon": True})
    first, second = folders_at((tmp_path, in_memory()), {"use_listings_cache": False})
    assert isinstance(first, LocalFolder)
    assert isinstance(second, StoreFolder)


# -- writing ----------------------------------------------------------------------------------

REFUSED: list[Callable[[StoreFolder], object]] = [
    lambda folder: folder.create("a"), lambda folder: folder.create_held("a"),
    lambda folder: folder.is_held("a"), lambda folder: folder.truncate("a", 1),
    lambda folder: folder.rename("a", "b"), lambda folder: folder.unlink("a"),
    lambda folder: folder.lock("writer.lock"), lambda folder: folder.remove(),
]  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_what_a_store_cannot_do_is_refused_by_name(
    folder: StoreFolder, store: CountingStore, call: Callable[[StoreFolder], object]
) -> None:
    with pytest.raises(ReadOnly, match=r"memory://.*: a store of objects has no "):
        call(folder)
    assert store.calls == []


def test_a_new_folder_is_left_whole_or_not_at_all() -> None:
    url = in_memory()
    folder = folder_at(url)

    def interrupted() -> None:
        with new_folder(folder) as tree:
            tree.write("offsets", "0", b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert contents(store_at(url)) == {}
    with new_folder(folder) as tree:
        tree.write("state/0/_metadata", "metadata", b"v1")
        tree.write("", "metadata", b"{}")
    there = {"state/0/_metadata/metadata": b"v1", "metadata": b"{}"}
    assert contents(store_at(url)) == there
    with pytest.raises(FileExistsError, match="is there already"):
        check_new_folder(folder_at(url))
    with pytest.raises(FileExistsError), new_folder(folder_at(url)):
        pass
    assert contents(store_at(url)) == there


def test_what_somebody_else_has_made_meanwhile_stays() -> None:
    url = in_memory()

    def raced() -> None:
        with new_folder(folder_at(url)) as tree:
            tree.write("offsets", "0", b"mine")
            store_at(url).create("offsets/1", [b"theirs"])
            tree.write("offsets", "1", b"mine")

    with pytest.raises(FileExistsError):
        raced()
    assert contents(store_at(url)) == {"offsets/1": b"theirs"}


def test_new_folder_that_another_is_making_is_refused_by_name() -> None:
    url = in_memory()
    with new_folder(folder_at(url)) as tree:
        tree.write("offsets", "0", b"x")
        making = contents(store_at(url))
        for refused in (check_new_folder, lambda folder: new_folder(folder).__enter__()):
            with pytest.raises(FileExistsError, match=f"{url}: .* is making it.*delete the folder"):
                refused(folder_at(url))
        assert contents(store_at(url)) == making
    assert contents(store_at(url)) == {"offsets/0": b"x"}


def test_of_two_that_make_a_new_folder_at_once_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both have seen that nothing is there."""
    url = in_memory()
    monkeypatch.setattr("cec_store.storage.stores.new_trees.check_new_folder", lambda folder: None)
    with new_folder(folder_at(url)) as tree:
        with pytest.raises(FileExistsError, match="is making it"), new_folder(folder_at(url)):
            pytest.fail("the second has begun")
        tree.write("", "metadata", b"{}")
    with pytest.raises(FileExistsError, match="is there already"), new_folder(folder_at(url)):
        pytest.fail("a later one has begun")
    assert contents(store_at(url)) == {"metadata": b"{}"}
