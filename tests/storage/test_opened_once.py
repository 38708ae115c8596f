"""Files that a process opens once: who shares them, and when they are closed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cec_store.storage.local import LocalFolder
from cec_store.storage.opened_once import OpenedOnce


class Opened:
    """Counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_one_file_by_two_paths_is_opened_once_and_closed_by_its_last_user(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    files: OpenedOnce[Opened] = OpenedOnce()
    first, second = (
        files.share(LocalFolder(tmp_path / name), "file", Opened) for name in ("a", "b")
    )
    assert first is second
    files.release(first)
    assert first.opened.closed == 0
    files.release(second)
    assert first.opened.closed == 1
    again = files.share(LocalFolder(tmp_path / "a"), "file", Opened)
    assert again is not first
    files.release(again)


def test_a_file_that_opening_makes_is_shared_as_well(tmp_path: Path) -> None:
    files: OpenedOnce[Opened] = OpenedOnce()
    folder = LocalFolder(tmp_path)

    def made() -> Opened:
        (tmp_path / "file").write_bytes(b"")
        return Opened()

    shared = files.share(folder, "file", made)
    assert files.share(folder, "file", made) is shared
    with pytest.raises(FileNotFoundError):
        files.share(folder, "other", Opened)


def test_a_child_closes_what_its_parent_has_open_and_opens_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    folder = LocalFolder(tmp_path)
    files: OpenedOnce[Opened] = OpenedOnce()
    shared = files.share(folder, "file", Opened)
    child = os.fork()
    if child == 0:  # its status says what it has seen
        own = files.share(folder, "file", Opened)
        files.release(shared)  # as a collector may, later
        is_right = shared.opened.closed >= 1 and own is not shared and own.opened.closed == 0
        os._exit(0 if is_right and files.share(folder, "file", Opened) is own else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert shared.opened.closed == 0
