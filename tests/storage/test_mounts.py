"""Mounts that keep less than a local disk: told once by name, or refused with nothing made."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cec_store import open_queue
from cec_store.errors import NoExclusiveCreate, ReadOnly, StorageError
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.storage import local, mounts
from cec_store.storage.local import LocalFolder
from cec_store.storage.local_files import LocalFile
from cec_store.storage.mounts import Mount, mount_of
from cec_store.storage.stores.local_store import LocalStore
from cec_store.storage.system_errors import os_errors_of
from support.disks.listed_mounts import list_mount

SCHEMA = pa.schema([("n", pa.int64())])
Mounted = Callable[..., Path]


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mounted:
    """Make a folder that the list of mounts says is on a file system of this kind."""
    monkeypatch.setattr(mounts, "_told", set())
    monkeypatch.setattr(local, "_grown", set())

    def mount(kind: str, source: str = "source", options: str = "rw") -> Path:
        table = list_mount(tmp_path, kind, source, options)
        monkeypatch.setattr(mounts, "_MOUNTS", str(table))
        return tmp_path

    return mount


def appended(path: Path, **options: Any) -> None:
    with open_queue(path, "a", schema=SCHEMA, **options) as queue:
        queue.append(pa.table({"n": [1]}))


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("tmpfs", "rw", "kept in memory"),
        ("overlay", "rw,lowerdir=/a,upperdir=/b,volatile", "no sync reaches the disk"),
        ("overlay", "rw,lowerdir=/a,fsync=volatile", "no sync reaches the disk"),
        ("fuse.s3fs", "rw", "give the s3:// URL"),
        ("fuse.rclone", "rw", "in this machine's cache alone"),
        ("fuse.gcsfuse", "rw", "give the gs:// URL"),
        ("fuse.blobfuse2", "rw", "give the abfs:// URL"),
        ("fuse.sshfs", "rw", "locks are this machine's alone"),
        ("fuse.gocryptfs", "rw", "cannot be read after it, whatever was synced in it"),
        ("fuse", "rw", "the program that serves it"),
        ("9p", "rw", "the host shares this folder"),
        ("nfs4", "rw", "the servers of this file system"),
        ("lustre", "rw", "the servers of this file system"),
    ],
)
@pytest.mark.parametrize("partitions", [{}, {"partitions": 2}], ids=["plain", "partitions"])
def test_a_mount_that_keeps_less_is_told_once_by_name(
    mounted: Mounted,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    options: str,
    said: str,
    partitions: dict[str, int],
) -> None:
    folder = mounted(kind, "bucket", options)
    appended(folder / "q", **partitions)
    appended(folder / "q", **partitions)
    appended(folder / "other", **partitions)
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"{folder}/q is on {kind} (bucket at {folder.resolve()}): " in told
    assert said in told


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "fuseblk", "zfs"])
def test_nothing_is_told_of_local_disks(
    mounted: Mounted, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    appended(mounted(kind) / "q")
    appended(mounted(kind) / "p", partitions=2)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_volatile_folder_name_is_no_option(mounted: Mounted) -> None:
    folder = mounted("overlay", options="rw,lowerdir=/volatile,upperdir=/x")
    mount = mount_of(str(folder))
    assert mount is not None
    assert mount.risk() is None


def refuse_places(self: LocalFile, byte: int, data: bytes) -> None:
    with os_errors_of("file"):
        raise OSError(errno.ESPIPE, os.strerror(errno.ESPIPE))


def test_a_mount_where_files_cannot_grow_is_refused_before_anything_is_made(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = mounted("fuse.rclone", ":s3:bucket")
    monkeypatch.setattr(LocalFile, "write_at", refuse_places)
    with pytest.raises(ReadOnly, match=r"fuse\.rclone \(:s3:bucket at .*Illegal seek.*full"):
        appended(folder / "below" / "q")
    assert os.listdir(folder) == ["mountinfo"]


def test_a_mount_where_a_file_is_another_at_each_look_is_refused(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = mounted("fuse.rclone")
    numbers = iter(range(100))
    monkeypatch.setattr(LocalFolder, "identity", lambda self, name: (1, next(numbers)))
    with pytest.raises(ReadOnly, match="another file under the same name"):
        appended(folder / "q")
    assert os.listdir(folder) == ["mountinfo"]


def test_a_mount_that_loses_what_is_appended_is_refused(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = mounted("fuse")
    write = LocalFile.write

    def lose(self: LocalFile, parts: Sequence[bytes]) -> None:
        write(self, [bytes(len(part)) for part in parts])

    monkeypatch.setattr(LocalFile, "write", lose)
    with pytest.raises(ReadOnly, match="other bytes than were written"):
        appended(folder / "q")
    assert os.listdir(folder) == ["mountinfo"]


def test_growth_is_tried_once_a_mount_and_never_on_local_disks(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    fault = LocalFolder._growth_fault
    monkeypatch.setattr(
        LocalFolder, "_growth_fault", lambda self: (tried.append(self.path), fault(self))[1]
    )
    appended(mounted("ext4") / "a")
    assert tried == []
    folder = mounted("fuse.sshfs")
    appended(folder / "b")
    appended(folder / "c")
    assert tried == [str(folder)]
    assert sorted(os.listdir(folder)) == ["a", "b", "c", "mountinfo"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ERANGE])
def test_a_link_that_a_user_space_file_system_lacks_has_its_reason(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", fail)
    place = mounted("fuse.rclone") / "q"
    with pytest.raises(NoExclusiveCreate, match="no hard links"):
        LocalStore(place).create("folder/a", [b"x"])
    assert not place.exists(), "what was made for it is gone again"
    # A local disk that says so is broken, and has links.
    with pytest.raises(StorageError, match=os.strerror(number)) as raised:
        LocalStore(mounted("ext4") / "q").create("a", [b"x"])
    assert not isinstance(raised.value, NoExclusiveCreate)


def test_where_there_is_no_list_of_mounts_nothing_is_remote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "_MOUNTS", str(tmp_path / "none"))
    assert mount_of(str(tmp_path)) is None
    assert not mounts.is_remote(str(tmp_path))


def test_blanks_in_a_source_and_a_point_are_read(mounted: Mounted) -> None:
    folder = mounted("cifs", "//host/a\\040share")
    assert mount_of(str(folder)) == Mount("cifs", "//host/a share", str(folder.resolve()), "rw")


@pytest.mark.parametrize(
    ("kind", "told"), [("exfat", 1), ("vfat", 1), ("cifs", 1), ("ext4", 0), ("nfs4", 0)]
)
def test_modes_that_a_mount_sets_are_told_once_by_verify(
    mounted: Mounted, kind: str, told: int
) -> None:
    folder = mounted(kind)
    appended(folder / "q", partitions=2)
    found = verify_place(place_at(folder / "q"))
    notes = [note.what for note in found.notes if "modes are those of" in note.what]
    assert len(notes) == told
    assert all(f"{kind} (source at {folder.resolve()}), 0" in note for note in notes)
    assert found.faults == ()
