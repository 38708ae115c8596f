"""The one room that touches the file system: names that cannot leave it, modes, errors, locks."""

from __future__ import annotations

import errno
import os
import random
import resource
import socket
import stat
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store import open_queue
from cec_store.errors import DiskFull, Forked, NotAQueue, QueueLocked, ReadOnly, StorageError
from cec_store.storage import local_files as files
from cec_store.storage.folder import check_name
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import manifest_epoch_of, manifest_name, segment_id_of, segment_name
from cec_store.storage.publishing import write_file
from cec_store.storage.stores.local_store import LocalStore
from cec_store.storage.system_errors import os_errors_of
from cec_store.storage.trees import new_tree
from support.disks.open_files import open_below

HOSTILE = [
    "", ".", "..", "../x", "/x", "a/b", "a/../../x", "x\0", "\0", "-x", ".x", "x.",
    "a\n", "ä", "a b", "x" * 128, "\u0663" * 20 + ".seg", "con:", "a\\b", "~", "\ud800",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    made = LocalFolder(tmp_path / "queue")
    made.make()
    return made


# -- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_a_hostile_name_is_refused_by_every_call(folder: LocalFolder, name: str) -> None:
    calls = (
        lambda: folder.size(name),
        lambda: folder.read(name, 0, 1),
        lambda: folder.create(name),
        lambda: folder.truncate(name, 0),
        lambda: folder.rename(name, "ok"),
        lambda: folder.rename("ok", name),
        lambda: folder.unlink(name),
        lambda: folder.lock(name),
        lambda: folder.folder(name),
    )
    for call in calls:
        with pytest.raises(ValueError, match="not a file name"):
            call()
    assert folder.names() == []
    assert sorted(os.listdir(Path(folder.path).parent)) == ["queue"]


def test_ten_thousand_random_names_stay_inside(folder: LocalFolder) -> None:
    generator = random.Random(10_000)
    alphabet = "ab09._-/\\\0 ~AZ\nä\u0663"
    taken = 0
    for _ in range(10_000):
        name = "".join(generator.choices(alphabet, k=generator.randint(0, 12)))
        try:
            check_name(name)
        except ValueError:
            continue
        path = os.path.realpath(os.path.join(folder.path, name))
        assert os.path.dirname(path) == os.path.realpath(folder.path)
        assert name not in ("", ".", "..")
        taken += 1
    assert taken > 100


@given(st.text())
def test_only_ascii_digits_are_numbers(name: str) -> None:
    for text in (f"{name}.seg", f"manifest-{name}"):
        number = segment_id_of(text) if text.endswith(".seg") else manifest_epoch_of(text)
        assert number is None or text in (segment_name(number), manifest_name(number))


@pytest.mark.parametrize("digit", ["\u0663", "\u0969", "\u00b3", "\uff17"])
def test_digits_of_other_scripts_name_no_segment(digit: str) -> None:
    assert segment_id_of(digit * 20 + ".seg") is None
    assert manifest_epoch_of("manifest-" + digit * 10) is None


# -- reading and writing ----------------------------------------------------------------------


def test_bytes_come_back(folder: LocalFolder) -> None:
    file = folder.create("a")
    file.write([b"one", b"", b"two"])
    file.write([])
    file.sync()
    file.close()
    folder.sync_names()
    assert folder.size("a") == 6
    assert folder.read("a", 0, 100) == b"onetwo"
    assert folder.read("a", 2, 2) == b"et"
    assert folder.read("a", 6, 5) == folder.read("a", 2**40, 5) == b""
    folder.truncate("a", 4)
    assert folder.read("a", 0, 100) == b"onet"
    folder.rename("a", "b")
    assert folder.names() == ["b"]
    folder.unlink("b")
    assert folder.names() == []


@pytest.mark.parametrize("byte", [2**63 - 1, 2**63, 2**64 - 1])
def test_a_place_beyond_every_file_is_empty(folder: LocalFolder, byte: int) -> None:
    write_file(folder, "a", b"data")
    assert folder.read("a", byte, 128) == b""


def test_a_short_write_is_finished(folder: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.os, "writev", lambda fd, parts: os.write(fd, b"".join(parts)[:4]))
    real = os.write
    monkeypatch.setattr(files.os, "write", lambda fd, data: real(fd, bytes(data)[:4]))
    file = folder.create("a")
    file.write([b"0123456", b"", b"789"])
    file.close()
    assert folder.read("a", 0, 100) == b"0123456789"


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
def test_modes_are_what_the_umask_leaves(tmp_path: Path, mask: int) -> None:
    (tmp_path / "there").mkdir(mode=0o751)
    old = os.umask(mask)
    try:
        folder = LocalFolder(tmp_path / "there" / "above" / "queue")
        folder.make()
        folder.create("a").close()
        folder.lock("b").close()
        LocalStore(folder.path).create("c/d", [b"x"])
    finally:
        os.umask(old)
    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "there").rglob("*")}
    assert modes.pop("above") == modes.pop("queue") == modes.pop("c") == 0o777 & ~mask
    assert modes == dict.fromkeys("abd", 0o666 & ~mask)
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o751


def test_a_name_that_is_taken_is_not_opened(folder: LocalFolder) -> None:
    write_file(folder, "a", b"data")
    with pytest.raises(FileExistsError):
        folder.create("a")
    assert folder.read("a", 0, 9) == b"data"


def test_symbolic_links_are_not_followed(folder: LocalFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    os.symlink(outside, f"{folder.path}/a")
    os.symlink(tmp_path / "new", f"{folder.path}/b")
    for call in (
        lambda: folder.read("a", 0, 6),
        lambda: folder.truncate("a", 0),
        lambda: folder.lock("a"),
        lambda: folder.lock("b"),
    ):
        with pytest.raises(StorageError, match=r"/queue/[ab]: "):
            call()
    for name in "ab":
        with pytest.raises(FileExistsError):
            folder.create(name)
    folder.unlink("a")
    assert outside.read_bytes() == b"secret"
    assert not (tmp_path / "new").exists()


def test_a_file_in_the_way_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    for path in (tmp_path / "file", tmp_path / "file" / "deeper", tmp_path / "file" / "x" / "y"):
        folder = LocalFolder(path)
        assert not folder.exists()
        with pytest.raises((NotAQueue, StorageError), match="file") as caught:
            folder.make()
        assert isinstance(caught.value, StorageError)
    assert (tmp_path / "file").read_bytes() == b"mine"


# -- folders that are made -------------------------------------------------------------------


class Names:
    """Which folders' names a power cut leaves, as system calls follow one another."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.unsafe: set[str] = set()
        self.made: list[str] = []
        mkdir, fsync = os.mkdir, os.fsync

        def noted_mkdir(path: str, *rest: int) -> None:
            assert os.path.dirname(path) not in self.unsafe, "made in a folder that may go"
            mkdir(path, *rest)
            self.made.append(path)
            self.unsafe.add(path)

        def noted_fsync(number: int) -> None:
            fsync(number)
            above = os.readlink(f"/proc/self/fd/{number}")
            self.unsafe = {path for path in self.unsafe if os.path.dirname(path) != above}

        monkeypatch.setattr(os, "mkdir", noted_mkdir)
        monkeypatch.setattr(os, "fsync", noted_fsync)


def test_a_power_cut_takes_no_folder_above_one_that_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(monkeypatch)
    deepest = tmp_path / "a" / "b" / "c"
    LocalFolder(deepest).make()
    assert names.made == [str(tmp_path / "a"), str(tmp_path / "a" / "b"), str(deepest)]
    assert not names.unsafe


@pytest.mark.parametrize("left", ["a", "a/b", "a/b/c"])
def test_a_folder_whose_maker_died_gets_its_name_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    names = Names(monkeypatch)
    for path in (*reversed((tmp_path / left).relative_to(tmp_path).parents[:-1]), Path(left)):
        os.mkdir(tmp_path / path)
        names.unsafe.clear()
    names.unsafe.add(str(tmp_path / left))
    LocalFolder(tmp_path / "a/b/c").make()
    assert not names.unsafe
    assert (tmp_path / "a/b/c").is_dir()


def test_a_tree_and_a_queue_of_partitions_are_made_from_the_top_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(monkeypatch)
    with new_tree(tmp_path / "x" / "tree") as tree:
        tree.folder("inside").make()
    assert not names.unsafe
    open_queue(tmp_path / "y" / "queue", "x", schema=pa.schema({"n": pa.int64()}), partitions=2)
    assert len(names.made) > 5
    assert not names.unsafe


# -- what is no file --------------------------------------------------------------------------


def put_fifo(path: str) -> None:
    os.mkfifo(path)


def put_folder(path: str) -> None:
    os.mkdir(path)


def put_link(path: str) -> None:
    os.symlink("/dev/null", path)


def put_socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)


def put_device(path: str) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))


NO_FILES = {
    "a FIFO": put_fifo,
    "a folder": put_folder,
    "a symbolic link": put_link,
    "a socket": put_socket,
    "a device": put_device,
}


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_refused_by_name_and_waits_for_nobody(
    folder: LocalFolder, kind: str
) -> None:
    try:
        NO_FILES[kind](f"{folder.path}/a")
    except PermissionError:
        pytest.skip("making a device needs root")
    calls = (
        lambda: folder.read("a", 0, 1),
        lambda: folder.size("a"),
        lambda: folder.truncate("a", 0),
        lambda: folder.lock("a"),
        lambda: folder.is_held("a"),
    )
    for call in calls:
        with pytest.raises(StorageError, match=f"/queue/a: .*{kind} is in the place of a file"):
            call()
    for create in (folder.create, folder.create_held):
        with pytest.raises(FileExistsError):
            create("a")
    assert not open_below(folder.path)


# -- files that are written in place ---------------------------------------------------------


def test_bytes_are_replaced_in_place(folder: LocalFolder) -> None:
    file = folder.create_held("a")
    file.write_at(4096, b"two")
    file.write_at(0, b"one")
    file.write_at(4097, b"x")
    file.sync()
    file.close()
    assert folder.read("a", 0, 9999) == b"one" + bytes(4093) + b"txo"


# -- errors of the system ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EFBIG, DiskFull),
        (errno.EACCES, ReadOnly), (errno.EPERM, ReadOnly), (errno.EROFS, ReadOnly),
        (errno.EIO, StorageError), (errno.ELOOP, StorageError), (errno.ENOTDIR, StorageError),
        (errno.ENOENT, FileNotFoundError), (errno.EEXIST, FileExistsError),
    ],
)  # fmt: skip
def test_errors_of_the_system_become_the_stores_own(number: int, expected: type) -> None:
    with pytest.raises(expected, match="/the/path") as caught, os_errors_of("/the/path"):
        raise OSError(number, os.strerror(number), "/the/path")
    assert type(caught.value) is expected


def test_a_quota_and_a_limit_are_no_full_disk() -> None:
    for number, words in {
        errno.ENOSPC: "no space left",
        errno.EDQUOT: "the quota of user .* is used up",
        errno.EFBIG: "the file may not grow any more",
    }.items():
        with pytest.raises(DiskFull, match=words) as caught, os_errors_of("/the/path"):
            raise OSError(number, os.strerror(number), "/the/path")
        assert ("no space" in str(caught.value)) == (number == errno.ENOSPC)


def test_a_full_disk_leaves_no_half_file(folder: LocalFolder) -> None:
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, old[1]))
    try:
        with pytest.raises(DiskFull, match=r"/queue/a: the file may not grow .*ulimit -f"):
            write_file(folder, "a", bytes(2_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert folder.names() == []
    assert not open_below(folder.path)
    write_file(folder, "a", bytes(2_000))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(folder: LocalFolder) -> None:
    os.chmod(folder.path, 0o500)
    try:
        with pytest.raises(ReadOnly, match="/queue/a: cannot be written"):
            folder.create("a")
    finally:
        os.chmod(folder.path, 0o700)


def test_closing_twice_does_not_close_what_others_opened(folder: LocalFolder) -> None:
    file = folder.create("a")
    file.close()
    other = os.open(folder.path, os.O_RDONLY)  # gets the number that has become free
    try:
        file.close()
        os.fstat(other)
        with pytest.raises(StorageError):
            file.write([b"x"])
    finally:
        os.close(other)


# -- locks ------------------------------------------------------------------------------------


def test_one_holds_the_lock(folder: LocalFolder) -> None:
    lock = folder.lock("writer.lock")
    for _ in range(3):
        with pytest.raises(QueueLocked, match=f"^{folder.path}: "):
            folder.lock("writer.lock")
    lock.close()
    assert not open_below(folder.path)
    folder.lock("writer.lock").close()


def test_a_lock_ends_with_its_process(folder: LocalFolder) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        folder.lock("writer.lock")
        os.write(writing, b"locked")
        os._exit(0)
    assert os.read(reading, 6) == b"locked"
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)
    folder.lock("writer.lock").close()


def test_closing_a_lock_twice_does_not_close_what_others_opened(folder: LocalFolder) -> None:
    lock = folder.lock("writer.lock")
    lock.close()
    other = os.open(folder.path, os.O_RDONLY)  # gets the number that has become free
    try:
        lock.close()
        os.fstat(other)
    finally:
        os.close(other)


@pytest.mark.parametrize("failure", [OSError(errno.ENOLCK, "no locks"), KeyboardInterrupt()])
def test_a_lock_that_fails_leaves_no_descriptor(
    folder: LocalFolder, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:

    def fail(number: int, how: int) -> None:
        raise failure

    monkeypatch.setattr(files.fcntl, "flock", fail)
    with pytest.raises((StorageError, KeyboardInterrupt)):
        folder.lock("writer.lock")
    assert not open_below(folder.path)


def test_what_nobody_refers_to_is_closed(folder: LocalFolder) -> None:
    held = [folder.lock("writer.lock"), folder.create("a"), folder.create_held("b")]
    assert len(open_below(folder.path)) == 3
    held.clear()
    assert not open_below(folder.path)
    folder.lock("writer.lock").close()


def test_a_child_of_a_fork_holds_no_lock_and_writes_to_no_file(folder: LocalFolder) -> None:
    lock, file = folder.lock("writer.lock"), folder.create("a")
    file.write([b"parents"])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        caught = []
        for call in (lambda: file.write([b"childs"]), file.sync):
            try:
                call()
            except Forked as error:
                caught.append(str(error))
        lock.close()  # lets go of nothing: it is the parent's
        os.write(writing, b"%d" % len(caught))
        os.close(writing)
        time.sleep(60)
        os._exit(0)
    try:
        assert os.read(reading, 9) == b"2"
        with pytest.raises(QueueLocked):
            folder.lock("writer.lock")
        lock.close()
        folder.lock("writer.lock").close()  # though the child lives on
        file.close()
        assert folder.read("a", 0, 99) == b"parents"
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)
