"""Whatever happens to the index's files, lookups equal a scan, and no process dies of it.

Each case is looked up in a process of its own, since LMDB answers some damage with a signal.
"""

import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import lmdb
import pytest

from cec_store import open_queue
from cec_store.errors import DiskFull, ReadOnly
from cec_store.format.checksum import crc32c
from cec_store.indexes.entries import FrameEntry, TimestampEntry
from cec_store.indexes.files import Stamp
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.storage.local import LocalFolder
from support.models.index_oracle import (
    append,
    build,
    chain_of,
    files_of,
    make_queue,
    open_for_append,
    published_file,
    rows_of,
)
from support.processes.index_children import (
    FRAMES,
    PAGE,
    damage_while_open,
    flip,
    full_disk,
    look_up,
    look_up_twice,
    timestamps_us,
)

NOBODY = 65534
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["support.processes.index_children"])


class Originals:
    """Made once, copied for each case."""

    def __init__(self, folder: Path) -> None:
        self.queue = make_queue(folder / "queue", map(timestamps_us, range(FRAMES)), 50)
        with open_for_append(self.queue) as queue:
            shutil.copytree(self.queue, folder / "older")
            append(queue, timestamps_us(FRAMES))
        self.older = folder / "older"
        build(self.older).close()
        build(self.queue).close()
        assert published_file(self.queue).stat().st_size >= 8 * PAGE
        self.rows = rows_of(self.queue)
        foreign = (timestamps_us(number, 1) for number in range(FRAMES))
        self.foreign = make_queue(folder / "foreign", foreign, 50)
        build(self.foreign).close()


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Originals:
    return Originals(tmp_path_factory.mktemp("originals"))


@pytest.fixture
def queue_path(originals: Originals, tmp_path: Path) -> Path:
    return Path(shutil.copytree(originals.queue, tmp_path / "queue"))


# -- a process of its own -------------------------------------------------------------------------


def in_a_child(path: Path, uid: int = 0) -> list[dict[str, object]]:
    """What readers and then the writer found; fails where the child died or got a wrong answer."""
    descriptor, report = tempfile.mkstemp()
    os.close(descriptor)
    os.chmod(report, 0o666)
    process = CONTEXT.Process(target=look_up_twice, args=(path, uid, report))
    process.start()
    process.join(60)
    text = Path(report).read_text()
    Path(report).unlink()
    assert process.exitcode == 0, f"the child ended with {process.exitcode}"
    facts: list[dict[str, object]] = json.loads(text)
    return facts


def assert_mended(path: Path, originals: Originals) -> None:
    index = TimestampIndex(chain_of(path))
    assert (index.stored_frames, index.problem) == (FRAMES + 1, "")
    index.close()
    assert rows_of(path) == originals.rows


# -- kinds of damage ------------------------------------------------------------------------------

Damage = Callable[[Path, Originals], None]
DAMAGES: dict[str, Damage] = {}


def damage(function: Damage) -> Damage:
    DAMAGES[function.__name__] = function
    return function


def cut(name: str, size: Callable[[int], int]) -> None:
    def function(path: Path, _: Originals) -> None:
        file = published_file(path)
        os.truncate(file, size(file.stat().st_size))

    DAMAGES[f"cut_{name}"] = function


cut("to_nothing", lambda size: 0)
cut("to_a_byte", lambda size: 1)
cut("to_a_page", lambda size: PAGE)
cut("to_two_pages", lambda size: 2 * PAGE)
cut("to_half", lambda size: size // 2 // PAGE * PAGE)
cut("inside_a_page", lambda size: size // 2 + 17)
cut("by_a_page", lambda size: size - PAGE)
cut("by_a_byte", lambda size: size - 1)
cut("grown", lambda size: size + PAGE)


def edit(name: str, change: Callable[[bytearray], object]) -> None:
    def function(path: Path, _: Originals) -> None:
        file = published_file(path)
        data = bytearray(file.read_bytes())
        change(data)
        file.write_bytes(data)

    DAMAGES[name] = function


def leaf_row(data: bytearray) -> tuple[int, int]:
    """Where the key and the value of the row of frame 100 stand."""
    at = data.index((100).to_bytes(8, "big"))
    return at, at + 8


edit("flip_in_value", lambda data: flip(data, leaf_row(data)[1] + 3))
edit("flip_in_key", lambda data: flip(data, leaf_row(data)[0] + 6, 3))
edit("flip_in_meta_0", lambda data: flip(data, 16 + 8, 2))
edit("flip_in_meta_1", lambda data: flip(data, PAGE + 16 + 8 + 8, 6))
edit("flip_in_page_header", lambda data: flip(data, 5 * PAGE + 10, 2))
edit("flip_in_page_bounds", lambda data: flip(data, 6 * PAGE + 13, 5))
edit("zero_meta", lambda data: data.__setitem__(slice(0, 2 * PAGE), bytes(2 * PAGE)))
edit("zero_page", lambda data: data.__setitem__(slice(4 * PAGE, 5 * PAGE), bytes(PAGE)))
edit("zero_all", lambda data: data.__setitem__(slice(None), bytes(len(data))))
edit("text", lambda data: data.__setitem__(slice(None), b"not LMDB at all\n" * 999))


@damage
def data_missing(path: Path, _: Originals) -> None:
    published_file(path).unlink()


@damage
def data_is_a_folder(path: Path, _: Originals) -> None:
    file = published_file(path)
    file.unlink()
    file.mkdir()


@damage
def data_is_a_link(path: Path, _: Originals) -> None:
    file = published_file(path)
    file.rename(path / "elsewhere.mdb")
    file.symlink_to(path / "elsewhere.mdb")


@damage
def data_of_another_time(path: Path, originals: Originals) -> None:
    shutil.copy(published_file(originals.older), published_file(path))


@damage
def stamp_missing(path: Path, _: Originals) -> None:
    (path / "index" / "stamp").unlink()


@damage
def stamp_cut(path: Path, _: Originals) -> None:
    os.truncate(path / "index" / "stamp", 40)


@damage
def stamp_of_another_time(path: Path, originals: Originals) -> None:
    shutil.copy(originals.older / "index" / "stamp", path / "index" / "stamp")


@damage
def stamp_of_older_version(path: Path, _: Originals) -> None:
    stamp = path / "index" / "stamp"
    body = bytearray(stamp.read_bytes()[:-4])
    body[8] = 0
    stamp.write_bytes(body + crc32c(bytes(body)).to_bytes(4, "little"))


@damage
def foreign_index(path: Path, originals: Originals) -> None:
    shutil.rmtree(path / "index")
    shutil.copytree(originals.foreign / "index", path / "index")


@damage
def folder_missing(path: Path, _: Originals) -> None:
    shutil.rmtree(path / "index")


@damage
def folder_is_empty(path: Path, _: Originals) -> None:
    shutil.rmtree(path / "index")
    (path / "index").mkdir()


@damage
def another_programs_files(path: Path, _: Originals) -> None:
    shutil.rmtree(path / "index")
    lmdb.open(str(path / "index"), map_size=1 << 20).close()


@pytest.mark.parametrize("kind", sorted(DAMAGES))
def test_damage(queue_path: Path, originals: Originals, kind: str) -> None:
    DAMAGES[kind](queue_path, originals)
    reading, writing = in_a_child(queue_path)
    assert (reading["loaded"], reading["kept"], writing["loaded"]) == (0, 0, 0)
    assert reading["problem"]
    assert kind != "foreign_index" or "another queue" in str(reading["problem"])
    assert writing["kept"] == FRAMES + 1
    assert_mended(queue_path, originals)


def test_there_are_enough_kinds() -> None:
    assert len(DAMAGES) >= 30


def test_every_bit_of_the_stamp(queue_path: Path) -> None:
    stamp = queue_path / "index" / "stamp"
    whole = stamp.read_bytes()
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flip(flipped, bit // 8, bit % 8)
        stamp.write_bytes(flipped)
        assert TimestampIndex(chain_of(queue_path)).stored_frames == 0
    stamp.write_bytes(whole)
    assert TimestampIndex(chain_of(queue_path)).stored_frames == FRAMES + 1


# -- sound, but not of this log's end -------------------------------------------------------------


def test_older_copy_is_followed_on(queue_path: Path, originals: Originals) -> None:
    shutil.rmtree(queue_path / "index")
    shutil.copytree(originals.older / "index", queue_path / "index")
    reading, writing = in_a_child(queue_path)
    assert (reading["loaded"], reading["problem"], reading["dropped"]) == (FRAMES, "", 0)
    assert (writing["loaded"], writing["kept"], writing["dropped"]) == (FRAMES, FRAMES + 1, 0)
    assert_mended(queue_path, originals)


def test_index_ahead_of_the_log(tmp_path: Path, originals: Originals) -> None:
    path = Path(shutil.copytree(originals.older, tmp_path / "queue"))
    shutil.rmtree(path / "index")
    shutil.copytree(originals.queue / "index", path / "index")
    reading, writing = in_a_child(path)
    assert (reading["loaded"], writing["loaded"], writing["kept"]) == (0, 0, FRAMES)
    assert reading["problem"]
    assert TimestampIndex(chain_of(path)).stored_frames == FRAMES


# -- folders that cannot be used ------------------------------------------------------------------


@pytest.fixture
def other_users_path(originals: Originals) -> Iterator[Path]:
    """A queue that can be read but not written, whoever runs the test."""
    top = Path(tempfile.mkdtemp())
    path = Path(shutil.copytree(originals.queue, top / "queue"))
    for item in (*path.rglob("*"), path, top):
        item.chmod(0o555 if item.is_dir() else 0o444)
    yield path
    for item in (top, path, path / "index"):
        if item.is_dir():
            item.chmod(0o755)
    shutil.rmtree(top)


def nobody() -> int:
    return NOBODY if os.getuid() == 0 else 0


def test_folder_that_cannot_be_written(other_users_path: Path) -> None:
    before = files_of(other_users_path)
    for facts in in_a_child(other_users_path, nobody()):
        assert (facts["loaded"], facts["kept"]) == (FRAMES + 1, FRAMES + 1)
    assert files_of(other_users_path) == before


@pytest.mark.parametrize("what", ["data", "stamp"])
def test_index_that_cannot_be_read(other_users_path: Path, what: str) -> None:
    stamp = other_users_path / "index" / "stamp"
    file = published_file(other_users_path) if what == "data" else stamp
    file.chmod(0)
    for facts in in_a_child(other_users_path, nobody()):
        assert (facts["loaded"], facts["kept"]) == (0, 0)
        assert facts["problem"]


def test_folder_is_a_file(queue_path: Path) -> None:
    shutil.rmtree(queue_path / "index")
    (queue_path / "index").write_text("in the way")
    before = files_of(queue_path)
    for facts in in_a_child(queue_path):
        assert facts["kept"] == 0
    assert files_of(queue_path) == before


@pytest.mark.parametrize("limit_bytes", [0, PAGE, 3 * PAGE, 6 * PAGE])
@pytest.mark.parametrize("is_new", [False, True])
def test_full_disk(tmp_path: Path, originals: Originals, limit_bytes: int, is_new: bool) -> None:
    path = Path(shutil.copytree(originals.queue, tmp_path / "queue"))
    shutil.rmtree(path / "index")
    if not is_new:
        shutil.copytree(originals.older / "index", path / "index")
    process = CONTEXT.Process(target=full_disk, args=(path, limit_bytes))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    build(path).close()
    assert_mended(path, originals)


def test_an_index_is_made_anew_once_its_disk_has_room_again(
    queue_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(queue_path / "index")

    def full(*facts: object) -> None:
        raise DiskFull("no space left")

    with open_queue(queue_path, "a") as queue:
        with monkeypatch.context() as patched:
            patched.setattr(LocalFolder, "make", full)
            with pytest.raises(ReadOnly, match=r"cannot write an index: .*no space left"):
                queue.reindex()
        assert queue.reindex() >= FRAMES


@pytest.mark.parametrize(
    ("room_bytes", "words"),
    [(4096, "no space left for .*; free some"), (1 << 30, "LMDB: mdb_txn_commit: Input/output")],
)
def test_a_full_disk_is_told_as_one_whatever_lmdb_says(
    queue_path: Path, monkeypatch: pytest.MonkeyPatch, room_bytes: int, words: str
) -> None:
    def cut_short(*_: object, **__: object) -> None:
        raise lmdb.Error("mdb_txn_commit: Input/output error")

    shutil.rmtree(queue_path / "index")
    with open_queue(queue_path, "a") as queue:
        with monkeypatch.context() as patched:
            room = SimpleNamespace(f_bavail=room_bytes // 512, f_frsize=512)
            patched.setattr(os, "statvfs", lambda _: room)
            patched.setattr(lmdb, "open", cut_short)
            with pytest.raises(ReadOnly, match=f"cannot write an index: {words}"):
                queue.reindex()
        assert queue.reindex() >= FRAMES


# -- rows that lie although the file is as it was stamped -----------------------------------------


def stamp_again(path: Path) -> None:
    """Make the stamp vouch for the file as it is now."""
    stamp = path / "index" / "stamp"
    data = published_file(path).read_bytes()
    old = Stamp.decode(stamp.read_bytes())
    stamp.write_bytes(old._replace(size=len(data), crc=crc32c(data)).encode())


def edit_rows(path: Path, change: Callable[[lmdb.Transaction, lmdb._Database], None],
              database: str = "frames") -> None:  # fmt: skip
    file = str(published_file(path))
    with lmdb.open(file, subdir=False, lock=False, max_dbs=2) as environment:
        opened = environment.open_db(database.encode())
        with environment.begin(opened, write=True) as rows:
            change(rows, opened)
    stamp_again(path)


def keys_of(rows: lmdb.Transaction) -> list[bytes]:
    return [bytes(key) for key, _ in rows.cursor()]


def swap(rows: lmdb.Transaction, _: object) -> None:
    one, other = keys_of(rows)[20], keys_of(rows)[30]
    values = rows.get(one), rows.get(other)
    rows.put(one, values[1])
    rows.put(other, values[0])


def remove(rows: lmdb.Transaction, _: object) -> None:
    for key in keys_of(rows)[10:40:3]:
        rows.delete(key)


def remove_last(rows: lmdb.Transaction, _: object) -> None:
    rows.delete(keys_of(rows)[-1])


def empty(rows: lmdb.Transaction, database: lmdb._Database) -> None:
    rows.drop(database, delete=False)


def invent(rows: lmdb.Transaction, _: object) -> None:
    key = (int.from_bytes(keys_of(rows)[20], "big") - 1).to_bytes(8, "big")
    rows.put(key, rows.get(keys_of(rows)[20]))


def flip_value(rows: lmdb.Transaction, _: object) -> None:
    for at, key in enumerate(keys_of(rows)[1:]):
        value = bytearray(rows.get(key))
        flip(value, at % len(value), at % 8)
        rows.put(key, bytes(value))


def shorten(rows: lmdb.Transaction, _: object) -> None:
    rows.put(keys_of(rows)[25], rows.get(keys_of(rows)[25])[:-1])


def long_key(rows: lmdb.Transaction, _: object) -> None:
    key = keys_of(rows)[20]
    rows.put(key[:-1], rows.get(key))


CHANGES = [swap, remove, remove_last, empty, invent, flip_value, shorten, long_key]


@pytest.mark.parametrize("database", ["frames", "timestamps"])
@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_lie(
    queue_path: Path, originals: Originals, database: str, change: Callable[..., None]
) -> None:
    edit_rows(queue_path, change, database)
    reading, writing = in_a_child(queue_path)
    assert reading["loaded"] or database == "frames"
    if writing["dropped"]:
        assert_mended(queue_path, originals)
    else:  # rows that answer nothing, or whose answers a scan of one segment gives
        assert change in (invent, long_key, remove, remove_last, empty)


@pytest.mark.parametrize("row", [FrameEntry, TimestampEntry])
def test_rows_forged_with_sound_checksums(
    queue_path: Path, originals: Originals, row: type[FrameEntry] | type[TimestampEntry]
) -> None:
    """Rows that name another frame of this log: only the frame itself can tell."""
    log_id = chain_of(queue_path).manifest.log_id

    def forge(rows: lmdb.Transaction, _: object) -> None:
        known = [row.decode((key, rows.get(key)), log_id) for key in keys_of(rows)]
        for one, other in zip(known[5:50:5], known[6:51:5], strict=True):
            address = {"segment_id": other.segment_id, "byte": other.byte}
            rows.put(*one._replace(**address).encode(log_id))
            rows.put(*other._replace(byte=other.byte + 1).encode(log_id))

    edit_rows(queue_path, forge, "frames" if row is FrameEntry else "timestamps")
    reading, writing = in_a_child(queue_path)
    assert (reading["dropped"], writing["dropped"]) == (1, 1)
    assert_mended(queue_path, originals)


@pytest.mark.parametrize("kind", ["missing", "flipped", "of an older version"])
def test_row_about_the_index(queue_path: Path, originals: Originals, kind: str) -> None:
    file = str(published_file(queue_path))
    log_id = chain_of(queue_path).manifest.log_id
    environment = lmdb.open(file, subdir=False, lock=False, max_dbs=2)
    with environment, environment.begin(write=True) as rows:
        value = bytearray(rows.get(b"about"))
        if kind == "flipped":
            flip(value, 20)
        elif kind == "of an older version":
            value[0] = 0
            crc = crc32c(log_id + b"about" + b"about" + bytes(value[:-4]))
            value[-4:] = crc.to_bytes(4, "little")
        rows.put(b"about", bytes(value))
        if kind == "missing":
            rows.delete(b"about")
    stamp_again(queue_path)
    reading, writing = in_a_child(queue_path)
    assert (reading["loaded"], writing["loaded"], writing["kept"]) == (0, 0, FRAMES + 1)
    assert_mended(queue_path, originals)


# -- damage while it is open ----------------------------------------------------------------------


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("kind", ["cut", "cut to nothing", "unlink", "flip", "remove the folder"])
def test_damage_while_open(queue_path: Path, kind: str, writable: bool) -> None:
    process = CONTEXT.Process(target=damage_while_open, args=(str(queue_path), kind, writable))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    build(queue_path).close()
    assert look_up(queue_path, writable=False)["loaded"] == FRAMES + 2
