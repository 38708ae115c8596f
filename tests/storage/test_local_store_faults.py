"""Each system call of a local create fails, or is the process' last: whole or not there at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import pytest

from cec_store.errors import DurabilityLost, NoExclusiveCreate, NotAQueue, StorageError
from cec_store.storage.stores.local_store import LocalStore
from support.disks.fault_shim import KINDS, Call, Order, calls_in, library, was_killed
from support.processes.faulted_creator import BEATEN, OBJECTS
from support.processes.writer_processes import Server
from support.runs.counts import crash_cases


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server("faulted_creator", LD_PRELOAD=str(library()))
    yield running
    running.close()


def run(server: Server, folder: Path, order: Order) -> tuple[list[Call], int, dict]:  # type: ignore[type-arg]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    root, log, report = folder / "root", folder / "calls", folder / "report"
    server.send(path=str(root), report=str(report), faults=order.environment(root, log))
    _, status = server.finish()
    return calls_in(log), status, json.loads(report.read_text()) if report.exists() else {}


def require_whole_or_absent(root: Path) -> set[str]:
    """The objects that are there; those that are not can be made, and none is made twice."""
    store = LocalStore(root)
    there = set()
    for name, data in OBJECTS.items():
        try:
            found = store.read(name)
        except FileNotFoundError:
            store.create(name, [data])
            assert store.read(name) == data
            continue
        # Where the first was not made, the second may have been.
        assert found in (data, BEATEN)
        there.add(name)
        with pytest.raises(FileExistsError):
            store.create(name, [b"a third"])
        assert store.read(name) == found
    assert [entry.name for entry in store.list()] == ["a", "three"]
    assert [entry.name for entry in store.list("a/b")] == ["one", "two"]
    return there


@pytest.mark.crash
@pytest.mark.parametrize("kind", crash_cases(("kill", "EIO", "ENOSPC", "short"), KINDS))
def test_whatever_call_fails_an_object_is_whole_or_absent(
    server: Server, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "run"
    calls, _, facts = run(server, folder, Order(kind, -1))
    assert dict(facts["outcomes"]) == dict.fromkeys(OBJECTS, "made")
    assert dict(facts["beaten"]) == dict.fromkeys(OBJECTS, "taken")
    assert len(calls) > (1 if kind == "short" else 15)
    for sticky in (False, True):
        for at in range(len(calls)):
            order = Order(kind, at, sticky)
            hit, status, facts = run(server, folder, order)
            assert any(call.result != "ok" for call in hit) or kind == "kill", f"{order}: no hit"
            there = require_whole_or_absent(folder / "root")
            if was_killed(status):
                assert kind == "kill"
                continue
            assert status == 0, f"{order}: it ended with status {status}"
            assert facts["left_open"] == [], order
            for name, outcome in facts["outcomes"]:
                if outcome in ("made", "DurabilityLost"):
                    assert name in there, f"{order}: {name} is not there"
                else:
                    assert outcome in ("StorageError", "DiskFull"), f"{order}: {outcome}"
            made = [name for name, outcome in facts["outcomes"] if outcome == "made"]
            again = [name for name, outcome in facts["beaten"] if outcome == "made"]
            assert not set(made) & set(again), f"{order}: two have made one object"
            if kind == "short":
                assert made == [*OBJECTS], f"{order}: a write was not completed"


def test_bytes_are_on_disk_before_the_name_and_the_name_before_the_return(
    server: Server, tmp_path: Path
) -> None:
    calls, _, _ = run(server, tmp_path / "run", Order("EIO", -1))
    root = str(tmp_path / "run" / "root")
    for name, data in OBJECTS.items():
        path = os.path.join(root, name)
        folder, last = os.path.split(path)
        hidden = f"{folder}/.{last}."
        linked = next(
            at for at, call in enumerate(calls) if (call.name, call.path) == ("link", path)
        )
        before = [call for call in calls[:linked] if call.path.startswith(hidden)]
        assert [call.size for call in before if "sync" in call.name] == [len(data)]
        assert "sync" in before[-1].name
        after = [call for call in calls[linked:] if call.path in (folder, path)][1:]
        assert after[0].name in ("fsync", "open")
        assert any(call.name == "fsync" for call in after[:2])


def _create(root: str, number: int, barrier: object, results: object) -> None:
    store = LocalStore(root)
    for turn in range(20):
        barrier.wait()  # type: ignore[attr-defined]
        try:
            store.create(f"commits/{turn}", [b"%d" % number * 3000])
            results.put((turn, number))  # type: ignore[attr-defined]
        except FileExistsError:
            pass


def test_of_many_processes_one_makes_an_object(tmp_path: Path) -> None:
    context = get_context("fork")
    barrier, results = context.Barrier(4), context.Queue()
    processes = [
        context.Process(target=_create, args=(str(tmp_path), number, barrier, results))
        for number in range(4)
    ]
    for process in processes:
        process.start()
    won = dict(results.get(timeout=60) for _ in range(20))
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert results.empty()
    assert sorted(won) == list(range(20))
    store = LocalStore(tmp_path)
    for turn, number in won.items():
        assert store.read(f"commits/{turn}") == b"%d" % number * 3000
    assert [path for path in (tmp_path / "commits").iterdir() if path.name.startswith(".")] == []


# -- what stands on disk ----------------------------------------------------------------------


def test_nothing_is_left_beside_them(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.create("a/b", [b"x"])
    assert sorted(p.name for p in (tmp_path / "root").rglob("*")) == ["a", "b"]
    assert (tmp_path / "root" / "a" / "b").stat().st_nlink == 1


def test_what_a_killed_writer_leaves_is_not_listed_and_in_nobodys_way(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("a/b", [b"x"])
    (tmp_path / "a" / ".c.0123456789abcdef.tmp").write_bytes(b"half")
    assert store.list("a") == [("b", 1)]
    store.create("a/c", [b"whole"])
    assert store.list("a") == [("b", 1), ("c", 5)]


def test_a_link_in_the_place_of_an_object_is_not_followed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.create("a", [b"x"])
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "root" / "dangling").symlink_to(tmp_path / "none")
    for name in ("link", "dangling"):
        with pytest.raises(StorageError, match="symbolic link"):
            store.read(name)
        with pytest.raises(FileExistsError):
            store.create(name, [b"y"])
    # Listed as the objects in whose place they are, so that nobody takes those for never made.
    assert [entry.name for entry in store.list()] == ["a", "dangling", "link"]
    assert not (tmp_path / "none").exists()


def test_a_file_in_the_way_of_a_folder_is_said(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("a", [b"x"])
    for name in ("a/b", "a/b/c"):
        with pytest.raises((NotAQueue, StorageError), match=r"in the way|Not a directory"):
            store.create(name, [b"y"])
    assert store.read("a") == b"x"


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.create("a/b", [b"x"])
    shutil.rmtree(tmp_path / "root")
    store.create("a/b", [b"y"])
    assert store.read("a/b") == b"y"


def test_a_file_system_without_hard_links_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(NoExclusiveCreate, match="no hard links"):
        LocalStore(tmp_path).create("a", [b"x"])
    assert list(tmp_path.iterdir()) == []


def test_a_network_file_system_that_lost_the_reply_to_a_link_is_asked_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def link(source: str, target: str) -> None:
        real(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", link)
    store = LocalStore(tmp_path)
    store.create("a", [b"x"])
    assert store.read("a") == b"x"
    with pytest.raises(FileExistsError):
        store.create("a", [b"x"])


def test_a_name_that_could_not_be_put_on_disk_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.create("a", [b"x"])
    real = os.fsync

    def fsync(number: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{number}"):
            raise OSError(errno.EIO, "Input/output error")
        real(number)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(DurabilityLost, match="may go with the power"):
        store.create("b", [b"y"])
    assert store.read("b") == b"y"
