"""The whole queue as readers see it: searching equals a scan, and only what is vouched is shown."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import cec_store.log.chain as chain_room
from cec_store import open_queue
from cec_store.errors import CorruptLog, NotAQueue, OutOfRange, UnsupportedVersion
from cec_store.format.bodies import encode_body
from cec_store.format.checksum import crc32c
from cec_store.format.frame import NONE, FrameType
from cec_store.format.manifest import Manifest
from cec_store.ledger.commit_chain import chain_at
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.epochs import publish_manifest
from cec_store.log.forward_scan import ForwardScan
from cec_store.log.frames import Frame, FrameMarks
from cec_store.log.known_end import KnownEnd
from cec_store.log.reopening import reopen
from cec_store.log.segment import SegmentReader
from cec_store.log.writer import LogWriter
from cec_store.storage.folder import Folder
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import segment_name
from cec_store.values import Address
from support.disks.memory_folder import MemoryFolder
from support.vectors import make as make_vectors
from support.vectors.make import SCHEMAS, plain_rows, records_of, rows_of

PLAIN = SCHEMAS["plain"]


def append(writer: LogWriter, *stamps: int) -> None:
    records = records_of(PLAIN, plain_rows(*[(stamp, stamp) for stamp in stamps]))
    writer.append(encode_body(records, 1), FrameMarks())


def random_queue(seed: int) -> tuple[MemoryFolder, LogWriter]:
    """Rolls, reopenings, trims, empty frames and segments, timestamps that repeat and go back."""
    generator = random.Random(seed)
    folder = MemoryFolder({})
    around = make_vectors.clock_and_entropy()
    writer = create(folder, PLAIN, around)
    for _ in range(generator.randint(5, 40)):
        step = generator.choice(["append"] * 6 + ["sync", "roll", "reopen", "trim"])
        if step == "append":
            append(writer, *[generator.randint(0, 50) for _ in range(generator.randint(0, 4))])
        elif step == "sync":
            writer.sync()
        elif step == "roll":
            writer.roll()
        elif step == "reopen":
            writer, _ = reopen(folder, None, around)
        elif writer.manifest.newest_segment - writer.manifest.first_segment > 4:
            writer.trim(writer.manifest.first_segment + 1)
    writer.sync()
    return folder, writer


QUEUES = [random_queue(seed) for seed in range(40)]
each_queue = pytest.mark.parametrize(
    "chain", [Chain(folder) for folder, _ in QUEUES], ids=lambda chain: f"{len(chain.segments)}"
)


def scan(chain: Chain) -> list[Frame]:
    """By hand: every segment from its first to its last byte that counts."""
    found = []
    for segment_id in chain.segments:
        reader = SegmentReader(chain.folder, segment_id)
        for byte, header in reader.frames(stop=chain.segment_end(segment_id), bodies=True):
            if header.type == FrameType.BATCH:
                found.append(Frame(Address(segment_id, byte), header))
    return found


def test_the_queues_differ() -> None:
    assert len({len(folder.names()) for folder, _ in QUEUES}) > 5
    assert any(Chain(folder).manifest.first_segment > 0 for folder, _ in QUEUES)
    counts = [len(scan(Chain(folder))) for folder, _ in QUEUES]
    assert max(counts) > 15
    assert sum(counts) > 200


# -- searching --------------------------------------------------------------------------------


@each_queue
def test_frames_are_those_of_a_scan(chain: Chain) -> None:
    frames = scan(chain)
    assert list(chain.frames()) == frames
    for i, frame in enumerate(frames):
        assert list(chain.frames(frame.address)) == frames[i:]
        following = list(chain.frames(frame.next_address))
        assert following == frames[i + 1 :]
    assert list(chain.frames(chain.end.address)) == []
    if frames:
        assert chain.last() == frames[-1]
        assert (chain.end.seq, chain.end.offset) == (
            frames[-1].header.seq + 1,
            frames[-1].header.end_offset,
        )


@each_queue
def test_find_offset_equals_a_scan(chain: Chain) -> None:
    frames = scan(chain)
    first = chain.first_offset()
    for offset in range(first, chain.end.offset):
        (expected,) = (f for f in frames if f.header.first_offset <= offset < f.header.end_offset)
        assert chain.find_offset(offset) == expected
    assert chain.find_offset(chain.end.offset) is None
    for offset in (first - 1, chain.end.offset + 1, -1, 2**63):
        with pytest.raises(OutOfRange, match=str(offset)):
            chain.find_offset(offset)


@each_queue
def test_find_seq_equals_a_scan(chain: Chain) -> None:
    frames = {frame.header.seq: frame for frame in scan(chain)}
    for seq in range(-1, chain.end.seq + 2):
        if seq in frames:
            assert chain.find_seq(seq) == frames[seq]
        else:
            with pytest.raises(OutOfRange, match=f"frame {seq} "):
                chain.find_seq(seq)


@each_queue
def test_find_timestamp_equals_a_scan(chain: Chain) -> None:
    frames = scan(chain)
    for stamp in (-(2**63), -1, *range(0, 52, 3), 2**63 - 1):
        fitting = [f for f in frames if f.header.max_timestamp_us >= stamp]
        if stamp == -(2**63):
            fitting = frames
        assert chain.find_timestamp(stamp) == (fitting[0] if fitting else None)
        for start in frames[:: max(1, len(frames) // 3)]:
            behind = [f for f in fitting if f.address >= start.address]
            found = chain.find_timestamp(stamp, start.address)
            assert found == (behind[0] if behind else None)


def backward(chain: Chain) -> Iterator[Frame]:
    frame = chain.last()
    while frame is not None:
        yield frame
        frame = chain.before(frame)


@each_queue
def test_walking_back_visits_every_frame(chain: Chain) -> None:
    frames = scan(chain)
    walk = backward(chain)
    assert [next(walk) for _ in frames] == frames[::-1]
    oldest = frames[0].header.prev_segment if frames else NONE
    if oldest == NONE and frames:
        assert next(walk, None) is None
    elif frames:
        with pytest.raises(OutOfRange, match="trimmed"):
            next(walk)


@each_queue
def test_records_read_alike_in_both_directions(chain: Chain) -> None:
    forward = [rows_of(chain.records(frame)) for frame in chain.frames()]
    frames = list(chain.frames())
    found = [rows_of(chain.records(frame, backward=True)) for frame in reversed(frames)]
    assert found == forward[::-1]
    offsets = [row for rows in forward for row in rows]
    assert len(offsets) == chain.end.offset - chain.first_offset()


# -- what is shown ----------------------------------------------------------------------------


def test_only_vouched_frames_are_shown() -> None:
    folder = MemoryFolder({})
    writer = create(folder, PLAIN, make_vectors.clock_and_entropy())
    chain = Chain(folder)
    assert (chain.end.seq, chain.end.offset, chain.end.last) == (0, 0, None)
    assert (chain.last(), list(chain.frames())) == (None, [])
    shown = 0
    for i in range(6):
        append(writer, i)
        if i == 3:
            writer.roll()
            shown = i + 1
        elif i % 2:
            writer.sync()
            shown = i + 1
        assert chain.refresh().offset == shown
        assert len(list(chain.frames())) == shown
        assert Chain(folder).end == chain.end


def test_a_reader_follows_through_rolls_reopenings_and_trims() -> None:
    folder = MemoryFolder({})
    around = make_vectors.clock_and_entropy()
    writer = create(folder, PLAIN, around)
    chain = Chain(folder)
    for i in range(12):
        append(writer, i)
        if i % 3 == 1:
            writer.roll()
        if i % 4 == 2:
            writer, _ = reopen(folder, None, around)
        writer.sync()
        if i == 8:
            writer.trim(3)
        assert chain.refresh().offset == i + 1
        assert chain.find_offset(i) == chain.last()
        assert chain.end == Chain(folder).end


def test_a_trim_under_a_reader_is_out_of_range() -> None:
    folder = MemoryFolder({})
    writer = create(folder, PLAIN, make_vectors.clock_and_entropy())
    for i in range(4):
        append(writer, i)
        writer.roll()
    known, fresh = Chain(folder), Chain(folder)
    frames = list(known.frames())
    writer.trim(3)
    known.reader(1).reload()  # what it has in memory it may still show
    for chain in (known, fresh):
        with pytest.raises(OutOfRange, match="trimmed"):
            chain.records(frames[1])


class Growing(MemoryFolder):
    """Its writer appends and syncs whenever somebody asks how long a file is."""

    grow = staticmethod(lambda: None)

    def size(self, name: str) -> int:
        self.grow()
        return super().size(name)


def test_a_writer_that_is_always_faster_is_no_damage() -> None:
    folder = Growing({})
    writer = create(folder, PLAIN, make_vectors.clock_and_entropy())
    left = iter(range(20))

    def grow() -> None:
        if next(left, None) is not None:
            append(writer, 1)
            writer.sync()

    folder.grow = grow
    chain = Chain(folder)
    while next(left, None) is not None:
        chain.refresh()
    assert chain.refresh().offset == writer.cursor.offset


# -- what is refused --------------------------------------------------------------------------


def sealed(data: bytearray, start: int, stop: int) -> None:
    data[stop - 4 : stop] = crc32c(bytes(data[start : stop - 4])).to_bytes(4, "little")


def small_queue() -> MemoryFolder:
    folder = MemoryFolder({})
    writer = create(folder, PLAIN, make_vectors.clock_and_entropy())
    for i in range(3):
        append(writer, i)
        append(writer, i)
        writer.roll()
    writer.close()
    return folder


def test_a_missing_segment_is_damage() -> None:
    for segment_id in range(3):
        folder = small_queue()
        folder.unlink(segment_name(segment_id))
        with pytest.raises(CorruptLog, match=rf"{segment_name(segment_id)}.*missing"):
            list(Chain(folder).frames())
        before = folder.snapshot()
        with pytest.raises(CorruptLog, match="missing"):
            reopen(folder, None, make_vectors.clock_and_entropy())
        assert folder.snapshot() == before


def test_a_segment_of_another_queue_is_refused() -> None:
    folder, other = small_queue(), MemoryFolder({})
    around = make_vectors.clock_and_entropy()
    around.entropy(1)
    create(other, PLAIN, around)
    folder.files[segment_name(0)] = other.files[segment_name(0)]
    with pytest.raises(CorruptLog, match="another queue"):
        list(Chain(folder).frames())


def test_an_older_copy_of_a_segment_is_refused() -> None:
    """A backup of one file: sound in itself, of this queue, and not what its successor saw."""
    folder, around = MemoryFolder({}), make_vectors.clock_and_entropy()
    writer = create(folder, PLAIN, around)
    append(writer, 1)
    writer.roll()
    data = folder.files[segment_name(0)]
    data[40:48] = bytes(8)
    sealed(data, 0, 128)
    at = 128
    while at < len(data):
        size = 128 + int.from_bytes(data[at + 112 : at + 116], "little")
        data[at + 64 : at + 72] = bytes(8)
        sealed(data, at, at + 128)
        at += size
    with pytest.raises(CorruptLog, match="salt"):
        list(Chain(folder).frames())


def test_a_previous_frame_that_is_another_is_refused() -> None:
    folder = small_queue()
    chain = Chain(folder)
    frames = list(chain.frames())
    for wrong in (frames[0], frames[2], frames[4]):
        header = frames[4].header._replace(
            prev_segment=wrong.address.segment_id, prev_byte=wrong.address.byte
        )
        with pytest.raises(CorruptLog, match="not the frame before number 4"):
            chain.before(Frame(frames[4].address, header))


@pytest.mark.parametrize("byte", [0, 127, 128, 500, 2**31, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("segment_id", [0, 3, 4, 2**64 - 2])
def test_a_hostile_address_is_refused(segment_id: int, byte: int) -> None:
    chain = Chain(small_queue())
    with pytest.raises(CorruptLog):
        chain.frame_at(Address(segment_id, byte))
    last = chain.last()
    assert last is not None
    header = last.header._replace(schema_byte=byte)
    if byte != 128:
        with pytest.raises(CorruptLog):
            chain.records(Frame(last.address, header))


def test_no_manifest_is_no_queue() -> None:
    for folder in (MemoryFolder(), MemoryFolder({}), MemoryFolder({"a": b"b"})):
        with pytest.raises(NotAQueue, match="/memory"):
            Chain(folder)


def test_a_manifest_that_names_too_much_is_damage() -> None:
    folder = small_queue()
    manifest = Chain(folder).manifest
    for first, newest in ((0, 4), (0, 2**64 - 2), (4, 4)):
        copy = folder.copy()
        publish_manifest(copy, Manifest(1, manifest.log_id, first, newest))
        with pytest.raises(CorruptLog, match="missing"):
            Chain(copy)


def test_records_are_arrow_batches() -> None:
    chain = Chain(small_queue())
    frame = chain.last()
    assert frame is not None
    assert isinstance(chain.records(frame), pa.RecordBatch)


def test_a_frame_of_a_later_format_is_no_damage_to_who_walks_back() -> None:
    folder = MemoryFolder({})
    writer = create(folder, PLAIN, make_vectors.clock_and_entropy())
    for stamp in range(3):
        append(writer, stamp)
    writer.sync()
    first, second, last = scan(Chain(folder))
    byte, data = second.address.byte, folder.files[segment_name(0)]
    data[byte + 4] = 9  # the frame's type
    sealed(data, byte, byte + 128)
    chain = Chain(folder)  # begins at the durable end, and proves the last frame alone
    assert chain.last() == last
    with pytest.raises(UnsupportedVersion, match=f"byte {byte}: frame type 9.*upgrade"):
        chain.before(last)
    with pytest.raises(UnsupportedVersion, match=f"byte {byte}: frame type 9.*upgrade"):
        chain.find_offset(first.header.end_offset)


def test_a_trim_between_two_looks_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The follower is two segments behind, and the next one goes while it looks."""
    rows = pa.record_batch({"n": [1, 2, 3]})
    with open_queue(tmp_path / "q", "a", schema=rows.schema) as queue:

        def segment() -> None:
            queue.append(rows, pa.array([1, 2, 3]), sync=True)
            queue.roll()

        segment()
        segment()
        replay = open_queue(tmp_path / "q").replay(follow=True)
        assert [next(replay).num_rows for _ in range(2)] == [3, 3]
        for _ in range(4):
            segment()
        looked, known_end = [], chain_room.read_known_end

        def trimmed_meanwhile(folder: Folder) -> KnownEnd:
            known = known_end(folder)
            if not looked:
                looked.append(known)  # the trim looks, too
                queue.trim(before=15)
            return known

        monkeypatch.setattr(chain_room, "read_known_end", trimmed_meanwhile)
        with pytest.raises(OutOfRange, match=r"15"):
            next(replay)
        assert looked
        replay.stop()


def test_a_torn_tail_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a follower looks: it may be all of a large frame."""
    rows = pa.record_batch({"n": [1, 2, 3]})
    with open_queue(tmp_path / "q", "a", schema=rows.schema) as queue:
        queue.append(rows, pa.array([1, 2, 3]), sync=True)
    chain = chain_at(LocalFolder(tmp_path / "q"))
    (segment,) = (tmp_path / "q").glob("*.seg")
    with segment.open("ab") as file:
        file.write(b"\1" * 100_000)
    searches = []
    claimed_beyond = ForwardScan.claimed_beyond
    monkeypatch.setattr(
        ForwardScan, "claimed_beyond", lambda scan: searches.append(scan) or claimed_beyond(scan)
    )
    for _ in range(10):
        assert chain.refresh().offset == 3
    assert len(searches) == 1
    with segment.open("ab") as file:
        file.write(b"\1")
    assert chain.refresh().offset == 3
    assert len(searches) == 2
