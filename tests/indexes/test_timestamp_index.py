"""What the index answers, pinned at the edges and compared with a scan for any history."""

import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store import open_queue
from cec_store.errors import CorruptLog, ReadOnly
from cec_store.indexes import timestamp
from cec_store.indexes.entries import BadIndex, Coverage, FrameEntry, TimestampEntry
from cec_store.indexes.recent import RecentFrames
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.log.chain import Chain
from cec_store.storage.local import LocalFolder
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US
from support.models.index_oracle import (
    append,
    assert_equals_scan,
    build,
    chain_of,
    files_of,
    forget_last_note,
    make_queue,
    open_for_append,
    published_file,
    rows_of,
)


@pytest.fixture
def queue_path(tmp_path: Path) -> Path:
    return tmp_path / "queue"


# -- the edges, pinned ----------------------------------------------------------------------------

EDGES = [[10, 20], [20, 20], [15], [30, 25], [30], [5], [40]]


@pytest.mark.parametrize(
    ("moment", "seq"),
    [
        (MIN_TIMESTAMP_US - 1, 0), (MIN_TIMESTAMP_US, 0), (9, 0),  # before the first
        (10, 0), (15, 0), (20, 0),  # of the frames that reach 20 the first
        (21, 3), (25, 3), (30, 3),  # between, equal; going back to 15 hides nothing
        (31, 6), (40, 6),
        (41, None), (MAX_TIMESTAMP_US, None), (MAX_TIMESTAMP_US + 1, None),  # after the last
    ],
)  # fmt: skip
def test_edges(queue_path: Path, moment: int, seq: int | None) -> None:
    make_queue(queue_path, EDGES, roll_every=3)
    index = build(queue_path)
    assert index.stored_frames == len(EDGES)
    for lookups in (index, TimestampIndex(chain_of(queue_path))):
        found = lookups.find_timestamp(moment)
        assert (found.header.seq if found else None) == seq
    index.close()


def test_queue_without_records(queue_path: Path) -> None:
    make_queue(queue_path, [])
    index = build(queue_path)
    assert_equals_scan(index, chain_of(queue_path))
    index.close()
    assert not list(queue_path.glob("index/*.mdb"))


def test_extreme_timestamps(queue_path: Path) -> None:
    make_queue(queue_path, [[MIN_TIMESTAMP_US], [0], [MAX_TIMESTAMP_US], [MAX_TIMESTAMP_US, 1]])
    index = build(queue_path)
    assert_equals_scan(index, chain_of(queue_path))
    index.close()
    assert_equals_scan(TimestampIndex(chain_of(queue_path)), chain_of(queue_path))


# -- any history ----------------------------------------------------------------------------------

TIMESTAMPS = st.one_of(
    st.integers(-5, 5), st.integers(-1000, 1000),
    st.integers(MIN_TIMESTAMP_US, MAX_TIMESTAMP_US),
    st.sampled_from([MIN_TIMESTAMP_US, MAX_TIMESTAMP_US]),
)  # fmt: skip
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(TIMESTAMPS, min_size=1, max_size=3)),
        st.tuples(st.just("append"), st.lists(TIMESTAMPS, min_size=1, max_size=3)),
        st.tuples(st.just("roll"), st.none()),
        st.tuples(st.just("trim"), st.floats(0, 1)),
        st.tuples(st.sampled_from(["follow", "look", "reopen", "reopen index", "lose commit"]),
                  st.none()),
    ),
    max_size=25,
)  # fmt: skip


class History:
    """A queue with its index, a reader in memory and a reader of what is published."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.queue = open_for_append(path, "x")
        self.open_indexes()

    def open_indexes(self) -> None:
        self.index = TimestampIndex(self.queue.chain(), writable=True)
        self.readers = [TimestampIndex(self.queue.chain())]

    def step(self, name: str, value: Sequence[int] | float | None) -> None:
        if name == "append":
            append(self.queue, value)
        elif name == "roll":
            self.queue.roll()
        elif name == "trim":
            self.queue.sync()
            self.queue.trim(int(value * self.queue.end_offset))
        elif name == "follow":
            self.index.follow(self.queue.chain())
        elif name == "look":
            self.queue.sync()
            self.check()
        elif name == "reopen index":
            self.index.close()
            self.readers.append(TimestampIndex(self.queue.chain()))
            self.index = TimestampIndex(self.queue.chain(), writable=True)
        else:
            self.queue.close()
            if name == "lose commit":
                forget_last_note(self.path)
            self.queue = open_for_append(self.path)

    def check(self) -> None:
        chain = self.queue.chain()
        for lookups in (self.index, *self.readers, TimestampIndex(chain)):
            assert_equals_scan(lookups, chain)

    def close(self) -> None:
        self.queue.sync()
        self.index.follow(self.queue.chain())
        self.check()
        assert self.index.problem == ""
        self.index.close()
        self.queue.close()
        last = TimestampIndex(chain_of(self.path))
        if chain_of(self.path).end.last is not None:
            assert last.problem == ""
            assert last.stored_frames == len(list(chain_of(self.path).frames()))
        assert_equals_scan(last, chain_of(self.path))


@given(STEPS, st.sampled_from([1, 3, 1 << 10]))
def test_any_history_equals_a_scan(
    steps: list[tuple[str, Sequence[int] | float | None]], frames_per_publishing: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(timestamp, "_FRAMES_PER_PUBLISHING", frames_per_publishing)
        patch.setattr(timestamp, "_FRAMES_PER_WRITE", 4)
        history = History(Path(folder, "queue"))
        for step in steps:
            history.step(*step)
        history.close()


def test_rows_do_not_depend_on_the_history(queue_path: Path, tmp_path: Path) -> None:
    with open_for_append(queue_path, "x") as queue:
        for number in range(40):
            append(queue, [number * 7 % 23, -number])
            if number % 6 == 0:
                queue.roll()
            if number % 5 == 0:
                index = TimestampIndex(queue.chain(), writable=True)
                index.follow()
                index.close()
        queue.sync()
        queue.trim(queue.end_offset // 2)
    build(queue_path).close()
    grown = rows_of(queue_path)
    shutil.rmtree(queue_path / "index")
    build(queue_path).close()
    assert rows_of(queue_path) == grown
    assert len(grown["frames"]) == len(list(chain_of(queue_path).frames())) < 40


# -- trimming -------------------------------------------------------------------------------------


def test_trim_lets_hidden_frames_shine(queue_path: Path) -> None:
    with open_for_append(queue_path, "x") as queue:
        append(queue, [1000])
        queue.roll()
        for moment in (5, 8, 3, 9):
            append(queue, [moment])
        queue.sync()
        index = TimestampIndex(queue.chain(), writable=True)
        index.follow(queue.chain())
        stale = TimestampIndex(queue.chain())
        stale.find_timestamp(2000)
        queue.trim(1)
        chain = queue.chain()
        assert list(chain.segments) == [1]
        for lookups in (index, stale):
            found = lookups.find_timestamp(7, chain)
            assert found is not None
            assert found.header.seq == 2
            assert lookups.find_timestamp(10, chain) is None
            assert_equals_scan(lookups, chain)
        index.follow(chain)
        assert index.stored_frames == 4
        assert index.dropped == 0
        assert_equals_scan(index, chain)
        index.close()


def test_index_that_covers_only_trimmed_frames(queue_path: Path) -> None:
    make_queue(queue_path, [[1], [2]])
    build(queue_path).close()
    with open_for_append(queue_path) as queue:
        append(queue, [1])
        queue.sync()
        queue.trim(queue.end_offset)
        assert_equals_scan(TimestampIndex(queue.chain()), queue.chain())
        index = TimestampIndex(queue.chain(), writable=True)
        index.follow()
        assert index.stored_frames == 1
        assert_equals_scan(index, queue.chain())
        index.close()


# -- takeovers, copies, other processes -----------------------------------------------------------


def test_carried_frames_are_found_where_they_are_now(queue_path: Path) -> None:
    make_queue(queue_path, [[1], [2], [3]])
    build(queue_path).close()
    open_index = build(queue_path)
    forget_last_note(queue_path)
    with open_for_append(queue_path) as queue:
        assert queue.report.carried_frames == 3
        reader = TimestampIndex(queue.chain())
        assert reader.problem
        assert reader.stored_frames == 0
        for lookups in (reader, open_index):
            assert_equals_scan(lookups, queue.chain())
        assert open_index.dropped == 1
        found = reader.find_timestamp(2)
        assert found is not None
        assert found.address.segment_id == 1


def test_frames_left_behind_by_a_takeover_are_not_found(queue_path: Path) -> None:
    make_queue(queue_path, [[1], [2], [3]])
    build(queue_path).close()
    open_index = build(queue_path)
    segment = queue_path / f"{0:020d}.seg"
    whole = segment.read_bytes()
    forget_last_note(queue_path)
    with open_for_append(queue_path) as queue:
        # As after a crash before the old segment was cut, or by a writer that lives on.
        segment.write_bytes(whole)
        for lookups in (TimestampIndex(queue.chain()), open_index):
            assert_equals_scan(lookups, queue.chain())
            found = lookups.find_seq(0, queue.chain())
            assert found.address.segment_id == 1


@pytest.mark.parametrize("later", [[], [[7], [9]]], ids=["ahead", "another future"])
def test_log_restored_from_an_older_copy(
    queue_path: Path, tmp_path: Path, later: list[list[int]]
) -> None:
    make_queue(queue_path, [[1], [2]])
    shutil.copytree(queue_path, tmp_path / "older")
    with open_for_append(queue_path) as queue:
        append(queue, [8])
        append(queue, [9])
    build(queue_path).close()
    shutil.move(queue_path / "index", tmp_path / "older" / "index")
    with open_for_append(tmp_path / "older") as queue:
        for timestamps_us in later:
            append(queue, timestamps_us)
    reader = TimestampIndex(chain_of(tmp_path / "older"))
    assert reader.stored_frames == 0
    assert_equals_scan(reader, chain_of(tmp_path / "older"))
    index = build(tmp_path / "older")
    assert_equals_scan(index, chain_of(tmp_path / "older"))
    assert index.stored_frames == 2 + len(later)
    index.close()


def test_index_published_ahead_of_a_readers_chain(queue_path: Path) -> None:
    make_queue(queue_path, [[1], [5]])
    early = chain_of(queue_path)
    with open_for_append(queue_path) as queue:
        append(queue, [9])
    build(queue_path).close()
    reader = TimestampIndex(early)
    assert reader.stored_frames == 3
    assert reader.find_timestamp(6) is None
    assert_equals_scan(reader, early)
    assert_equals_scan(reader, chain_of(queue_path))
    assert reader.dropped == 0


def test_readers_beside_a_writer(queue_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timestamp, "_FRAMES_PER_PUBLISHING", 8)
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                chain = chain_of(queue_path)
                assert_equals_scan(TimestampIndex(chain), chain)
                assert_equals_scan(shared, chain)
        except BaseException as error:
            failures.append(error)

    with open_for_append(queue_path, "x") as queue:
        shared = TimestampIndex(queue.chain(), writable=True)
        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(60):
            append(queue, [number * 13 % 31])
            queue.sync()
            shared.follow(queue.chain())
        done.set()
        for thread in threads:
            thread.join()
        shared.close()
    assert failures == []
    assert shared.dropped == 0


def test_reading_writes_nothing(queue_path: Path) -> None:
    make_queue(queue_path, [[1], [2], [3]])
    before = files_of(queue_path)
    chain = chain_of(queue_path)
    index = TimestampIndex(chain)
    assert_equals_scan(index, chain)
    index.follow(chain)
    index.close()
    assert files_of(queue_path) == before
    build(queue_path).close()
    before = files_of(queue_path)
    index = TimestampIndex(chain)
    assert index.stored_frames == 3
    index.follow(chain)
    assert_equals_scan(index, chain)
    index.close()
    assert files_of(queue_path) == before
    with pytest.raises(ReadOnly, match="index"):
        index.rebuild()


def test_modes_are_what_the_umask_leaves(queue_path: Path) -> None:
    make_queue(queue_path, [[1]])
    umask = os.umask(0o027)
    try:
        build(queue_path).close()
    finally:
        os.umask(umask)
    assert (queue_path / "index").stat().st_mode & 0o777 == 0o750
    names = sorted((queue_path / "index").iterdir())
    assert [file.suffix for file in names] == [".mdb", ""]
    assert {file.stat().st_mode & 0o777 for file in names} == {0o640}


def test_a_crash_leaves_the_published_index(queue_path: Path) -> None:
    make_queue(queue_path, [[1], [2]])
    build(queue_path).close()
    published = published_file(queue_path)
    with open_for_append(queue_path) as queue:
        append(queue, [3])
    index = build(queue_path)  # never closed: its own file stays behind
    assert len(list(queue_path.glob("index/*.mdb"))) == 2
    reader = TimestampIndex(chain_of(queue_path))
    assert reader.stored_frames == 2
    assert_equals_scan(reader, chain_of(queue_path))
    build(queue_path).close()
    assert published_file(queue_path) != published
    assert_equals_scan(index, chain_of(queue_path))


# -- where no index can be ------------------------------------------------------------------------


class OtherFolder:
    """Some other implementation of a folder."""

    def __init__(self, path: Path) -> None:
        self._folder = LocalFolder(path)

    def __getattr__(self, name: str) -> object:
        return getattr(self._folder, name)


def test_folder_that_is_not_local(queue_path: Path) -> None:
    make_queue(queue_path, EDGES)
    chain = Chain(OtherFolder(queue_path))
    index = TimestampIndex(chain, writable=True)
    index.follow()
    assert_equals_scan(index, chain)
    assert not (queue_path / "index").exists()


@pytest.mark.parametrize(
    ("kind", "remote"),
    [("ext4", False), ("tmpfs", False), ("overlay", False), ("fuseblk", False),
     ("nfs4", True), ("cifs", True), ("smb3", True), ("fuse.sshfs", True), ("9p", True),
     ("fuse", True), ("vboxsf", True), ("drvfs", True), ("fakeowner", True), ("prl_fs", True),
     ("ocfs2", True), ("gfs2", True)],
)  # fmt: skip
def test_remote_file_systems(
    queue_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, remote: bool
) -> None:
    blank = tmp_path / "with blank"
    make_queue(blank / "queue", EDGES)
    mounts = tmp_path / "mountinfo"
    point = str(blank.resolve()).replace(" ", "\\040")
    mounts.write_text(
        "22 1 0:1 / / rw - ext4 /dev/a rw\n"
        f"23 22 {device_of(tmp_path)} / {point} rw shared:1 - {kind} b rw\n"
    )
    monkeypatch.setattr("cec_store.storage.mounts._MOUNTS", str(mounts))
    assert not LocalFolder(tmp_path).is_remote()
    index = build(blank / "queue")
    assert (index.stored_frames == 0) == remote
    assert (blank / "queue" / "index").exists() != remote
    assert_equals_scan(index, chain_of(blank / "queue"))
    index.close()


def device_of(path: Path) -> str:
    """As the list of mounts has it."""
    device = os.stat(path).st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def test_a_mount_hidden_below_a_later_one_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = device_of(tmp_path)
    (tmp_path / "q").mkdir()
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr("cec_store.storage.mounts._MOUNTS", str(mounts))
    below, above = f"{tmp_path.resolve()}/q", tmp_path.resolve()
    for hidden, shown in (("nfs4", "ext4"), ("ext4", "fuse")):
        mounts.write_text(
            f"22 1 0:1 / {below} rw - {hidden} a rw\n23 1 {here} / {above} rw - {shown} b rw\n"
        )
        assert LocalFolder(tmp_path / "q").is_remote() == (shown == "fuse")


def test_rebuilding_on_a_remote_mount_says_why_there_is_no_index(
    queue_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_queue(queue_path, EDGES)
    monkeypatch.setattr(LocalFolder, "is_remote", lambda self: True)
    index = TimestampIndex(chain_of(queue_path), writable=True)
    with pytest.raises(ReadOnly, match="not in a folder of a local file system"):
        index.rebuild()
    index.close()


def test_damaged_log_is_reported_only_where_it_is_met(queue_path: Path) -> None:
    make_queue(queue_path, [[number] for number in range(9)], roll_every=3)
    frames = list(chain_of(queue_path).frames())
    address = frames[4].address
    with open(queue_path / f"{address.segment_id:020d}.seg", "r+b") as file:
        file.seek(address.byte + 40)
        file.write(b"\xff")
    for writable in (False, True):
        index = TimestampIndex(chain_of(queue_path), writable)
        index.follow()
        assert ("damage at byte" in index.problem) == writable
        for number in range(4):
            assert index.find_timestamp(number) == frames[number]
        with pytest.raises(CorruptLog):
            index.find_timestamp(4)
        for number in (0, 3, 6, 8):
            assert index.find_offset(number) == frames[number]
            assert index.find_seq(number) == frames[number]
        index.close()


def test_rebuild(queue_path: Path) -> None:
    make_queue(queue_path, EDGES)
    index = build(queue_path)
    assert index.rebuild() == len(EDGES)
    assert index.dropped == 0
    reader = TimestampIndex(chain_of(queue_path))
    assert reader.stored_frames == len(EDGES)
    index.close()


def test_frames_in_memory_have_no_gap(queue_path: Path) -> None:
    make_queue(queue_path, [[1], [2], [3]])
    first, second, third = chain_of(queue_path).frames()
    recent = RecentFrames()
    recent.add(first)
    for other in (first, third):
        with pytest.raises(BadIndex):
            recent.add(other)
    recent.add(second)
    assert (len(recent), recent.next_seq) == (2, 2)


# -- rows -----------------------------------------------------------------------------------------


def test_rows_are_bound_to_key_kind_and_log() -> None:
    log, other = b"l" * 16, b"o" * 16
    place = FrameEntry(7, 1, 128, 70, 0xDEAD)
    reach = TimestampEntry(-3, 7, 1, 128, 0xDEAD, MIN_TIMESTAMP_US)
    about = Coverage(place, MAX_TIMESTAMP_US)
    assert FrameEntry.decode(place.encode(log), log) == place
    assert TimestampEntry.decode(reach.encode(log), log) == reach
    assert Coverage.decode(about.encode(log), log) == about
    for row in (place.encode(log), reach.encode(log)):
        decode = FrameEntry.decode if len(row[1]) == 32 else TimestampEntry.decode
        for bit in range(8 * len(row[1])):
            flipped = bytearray(row[1])
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises(BadIndex):
                decode((row[0], bytes(flipped)), log)
        for bad in ((row[0][:-1] + b"\xff", row[1]), (row[0][:-1], row[1]), (row[0], b"")):
            with pytest.raises(BadIndex):
                decode(bad, log)
        with pytest.raises(BadIndex):
            decode(row, other)
    for value in (None, b"", about.encode(log)[:-1], about.encode(other)):
        with pytest.raises(BadIndex):
            Coverage.decode(value, log)


def test_a_trim_between_a_look_and_a_lookup_leaves_the_index(tmp_path: Path) -> None:
    """The frame that it names is gone: that says nothing against the index."""
    rows = pa.record_batch({"n": [1, 2, 3]})
    with open_queue(tmp_path / "q", "a", schema=rows.schema) as queue:
        for _ in range(6):
            queue.append(rows, sync=True)
            queue.roll()
        index = queue._timestamp_index()
        index.follow(queue.chain())
        stored = index.stored_frames
        assert stored > 0
        replay = queue.replay(since=datetime(1970, 1, 1, tzinfo=timezone.utc))
        queue.trim(before=12)
        assert next(replay).num_rows == 3
        assert (index.stored_frames, index.dropped) == (stored, 0)
