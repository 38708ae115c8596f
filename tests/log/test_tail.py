"""The end of a segment: the table of cases, torn tails at every byte, damage at every byte."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from cec_store.errors import CorruptLog, UnsupportedVersion
from cec_store.format.bodies import encode_body
from cec_store.format.checksum import crc32c
from cec_store.format.durable_end import NOTE_BYTES
from cec_store.format.ends import Verdict
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    FrameHeader,
)
from cec_store.inspector.verifying.log import verify
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.frames import FrameMarks
from cec_store.log.reopening import reopen
from cec_store.log.segment import SegmentReader
from cec_store.log.tail import Tail, read_tail
from cec_store.log.writer import LogWriter
from cec_store.storage.names import durable_name, segment_name, torn_name
from support.disks.memory_folder import MemoryFolder
from support.paths import DOCS
from support.vectors import make as make_vectors
from support.vectors.make import SCHEMAS, plain_rows, records_of

FORMAT_PAGE = DOCS / "format.md"
SEGMENT = segment_name(0)
PLAIN = SCHEMAS["plain"]
BATCHES = [records_of(PLAIN, plain_rows((i, i), (i, None))) for i in range(5)]


def append(writer: LogWriter, number: int) -> None:
    writer.append(encode_body(BATCHES[number], 1), FrameMarks())


def segment(*steps: int | str) -> MemoryFolder:
    """A queue of one segment: a number appends that batch, "s" syncs.

    Nothing is noted of its durable end, as a power cut may leave it: the segment alone must tell.
    """
    folder = noted_segment(*steps)
    folder.files[durable_name(0)] = bytes(NOTE_BYTES)
    return folder


def noted_segment(*steps: int | str) -> MemoryFolder:
    folder = MemoryFolder({})
    writer = create(folder, PLAIN, make_vectors.clock_and_entropy())
    for step in steps:
        if step == "s":
            writer.sync()
        else:
            append(writer, int(step))
    return folder


LIVE = segment(0, "s", 1, 2, "s", 3, 4)


def tail_of(folder: MemoryFolder, sealed_end: int | None = None) -> Tail:
    return read_tail(SegmentReader(folder, 0), sealed_end)


def frame_ends(folder: MemoryFolder) -> list[int]:
    return [byte + header.frame_bytes for byte, header in tail_of(folder).frames]


def read_all(folder: MemoryFolder) -> list[pa.RecordBatch]:
    chain = Chain(folder)
    chain.schema()
    return [chain.records(frame) for frame in chain.frames()]


def assert_refused(folder: MemoryFolder, at: int) -> None:
    """Damage is named with file and byte, and nothing at all is changed."""
    before = folder.snapshot()
    for attempt in (
        lambda: tail_of(folder),
        lambda: reopen(folder, None, make_vectors.clock_and_entropy()),
        lambda: read_all(folder),
    ):
        with pytest.raises(CorruptLog) as caught:
            attempt()
        assert caught.value.path == f"{folder.path}/{SEGMENT}"
        assert caught.value.byte == at
        assert str(at) in str(caught.value)
        assert folder.snapshot() == before


# -- torn tails -------------------------------------------------------------------------------


def vouched_end() -> int:
    return tail_of(LIVE).vouched_end


def test_the_live_segment_has_what_the_tests_need() -> None:
    tail = tail_of(LIVE)
    types = [header.type for _, header in tail.frames]
    assert types == [2, 1, 1, 1, 1, 1]
    # The first frame after a sync vouches for all before it, and not for itself.
    assert tail.vouched_end == tail.frames[4][0]
    assert (tail.verdict, tail.end, tail.torn_bytes) == (Verdict.CLEAN_END, tail.file_bytes, 0)


def test_beyond_the_end_of_the_file_or_a_seal_nothing_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A live writer appends there: what it vouches for by then is no damage."""

    def looked(self: SegmentReader, byte: int) -> None:
        raise AssertionError(f"looked beyond byte {byte}")

    monkeypatch.setattr(SegmentReader, "headers_beyond", looked)
    assert tail_of(LIVE).verdict is Verdict.CLEAN_END
    sealed = LIVE.copy()
    sealed_end = sealed.size(SEGMENT)
    sealed.files[SEGMENT] += bytes(500)
    assert tail_of(sealed, sealed_end).end == sealed_end
    torn = segment(0, "s", 1)
    torn.files[SEGMENT] += bytes(500)
    with pytest.raises(AssertionError, match="looked beyond"):
        tail_of(torn)


def test_a_tail_torn_at_any_byte_is_the_end_of_the_log() -> None:
    ends = frame_ends(LIVE)
    data = bytes(LIVE.files[SEGMENT])
    # From behind the header that vouches: before it, the file says nothing of what was on disk.
    start = vouched_end() + FRAME_HEADER_BYTES
    cuts = range(start, len(data))
    assert len(cuts) > 300
    for cut in cuts:
        folder = MemoryFolder({**LIVE.files, SEGMENT: data[:cut]})
        whole = [end for end in ends if end <= cut]
        tail = tail_of(folder)
        assert tail.verdict is (Verdict.CLEAN_END if cut in ends else Verdict.TORN_TAIL)
        assert (tail.end, len(tail.frames)) == (whole[-1], len(whole))
        assert (tail.vouched_end, tail.torn_bytes) == (vouched_end(), cut - whole[-1])
        assert read_all(folder) == BATCHES[:3]
        writer, report = reopen(folder, None, make_vectors.clock_and_entropy())
        writer.close()
        carried = len(whole) - 4
        assert (report.carried_frames, report.torn_bytes) == (carried, cut - whole[-1])
        assert read_all(folder) == BATCHES[: 3 + carried]
        torn = folder.files.get(torn_name(0), b"")
        assert bytes(torn) == data[whole[-1] : cut]
        assert len(folder.files[SEGMENT]) == vouched_end()


@pytest.mark.parametrize("filling", ["zeros", "ones", "noise", "magic"])
def test_a_file_that_grew_before_its_content_came_is_a_torn_tail(filling: str) -> None:
    generator = random.Random(filling)
    data = bytes(LIVE.files[SEGMENT])
    start = vouched_end() + FRAME_HEADER_BYTES
    for cut in range(start, len(data), 7):
        size = len(data) - cut + generator.choice([0, 1, 512])
        rest = {
            "zeros": bytes(size),
            "ones": b"\xff" * size,
            "noise": generator.randbytes(size),
            "magic": (b"CECF" * size)[:size],
        }[filling]
        folder = MemoryFolder({**LIVE.files, SEGMENT: data[:cut] + rest})
        assert tail_of(folder).verdict is Verdict.TORN_TAIL
        assert read_all(folder) == BATCHES[:3]


def test_the_last_group_and_the_header_behind_it_look_torn_without_the_note() -> None:
    """Nothing is left in the segment that says these bytes were on disk; the note still does."""
    noted = noted_segment(0, "s", 1, 2, "s", 3, 4)
    data = bytes(noted.files[SEGMENT])
    assert data == bytes(LIVE.files[SEGMENT])
    first_vouching = tail_of(LIVE).frames[2][0]
    for cut in range(first_vouching + FRAME_HEADER_BYTES, vouched_end()):
        folder = MemoryFolder({**noted.files, SEGMENT: data[:cut]})
        assert tail_of(folder).verdict in (Verdict.CLEAN_END, Verdict.TORN_TAIL)
        with pytest.raises(CorruptLog, match=f"on disk up to byte {vouched_end()}"):
            read_all(folder)
        folder.files[durable_name(0)] = bytes(NOTE_BYTES)
        assert read_all(folder)[:1] == BATCHES[:1]


def test_what_is_damaged_below_the_note_is_refused_when_it_is_read() -> None:
    """An opening reads from the note on; damage before it is not passed off as whole."""
    noted = noted_segment(0, "s", 1, 2, "s", 3, 4)
    for byte, header in tail_of(noted).frames[1:3]:
        folder = noted.copy()
        folder.flip(SEGMENT, 8 * byte + 100)
        writer, _ = reopen(folder, None, make_vectors.clock_and_entropy())
        writer.close()
        with pytest.raises(CorruptLog, match=f"byte {byte}"):
            read_all(folder)
        assert {fault.byte for fault in verify(folder).faults} >= {byte}, header


def test_a_bad_frame_is_not_skipped_though_whole_ones_follow() -> None:
    folder = LIVE.copy()
    byte, _ = tail_of(LIVE).frames[4]
    folder.files[SEGMENT][byte + 130] ^= 1
    tail = tail_of(folder)
    assert (tail.verdict, tail.end) == (Verdict.TORN_TAIL, byte)
    writer, report = reopen(folder, None, make_vectors.clock_and_entropy())
    writer.close()
    assert report.carried_frames == 0
    assert report.torn_bytes == len(LIVE.files[SEGMENT]) - byte
    assert "checksum" in report.torn_reason
    assert read_all(folder) == BATCHES[:3]


# -- damage -----------------------------------------------------------------------------------


def test_damage_at_any_vouched_byte_is_refused() -> None:
    frames = tail_of(LIVE).frames
    vouched = [(byte, header) for byte, header in frames if byte < vouched_end()]
    assert len(vouched) == 4
    tried = 0
    for byte, header in vouched:
        for at in range(byte, byte + header.frame_bytes, 3):
            folder = LIVE.copy()
            folder.files[SEGMENT][at] ^= 0x40
            with pytest.raises(CorruptLog) as caught:
                tail_of(folder)
            assert caught.value.byte == byte
            tried += 1
    assert tried > 300


def test_damage_is_named_alike_by_everyone_and_changes_nothing() -> None:
    for byte, header in tail_of(LIVE).frames[:4]:
        for at in (byte, byte + 100, byte + 127, byte + header.frame_bytes - 1):
            folder = LIVE.copy()
            folder.files[SEGMENT][at] ^= 1
            assert_refused(folder, byte)


def test_a_segment_header_that_is_damaged_is_refused() -> None:
    for at in (0, 8, 40, 127):
        folder = LIVE.copy()
        folder.files[SEGMENT][at] ^= 1
        assert_refused(folder, 0)
    for size in (0, 1, SEGMENT_HEADER_BYTES - 1):
        folder = MemoryFolder({**LIVE.files, SEGMENT: bytes(LIVE.files[SEGMENT])[:size]})
        assert_refused(folder, 0)


def test_a_published_segment_without_its_schema_is_refused() -> None:
    data = bytes(LIVE.files[SEGMENT])
    for size in (SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + 1, SEGMENT_HEADER_BYTES + 383):
        folder = MemoryFolder({**LIVE.files, SEGMENT: data[:size]})
        before = folder.snapshot()
        for attempt in (
            lambda folder=folder: reopen(folder, None, make_vectors.clock_and_entropy()),
            lambda folder=folder: read_all(folder),
        ):
            with pytest.raises(CorruptLog, match="byte 128"):
                attempt()
        assert folder.snapshot() == before


# -- seals ------------------------------------------------------------------------------------


def test_a_successor_says_where_a_segment_ends() -> None:
    ends = frame_ends(LIVE)
    for end in ends:
        tail = tail_of(LIVE, sealed_end=end)
        assert (tail.verdict, tail.end, tail.vouched_end) == (Verdict.COMPLETE, end, end)
        assert len(tail.frames) == ends.index(end) + 1


def test_a_seal_that_is_no_frame_end_is_damage() -> None:
    ends = frame_ends(LIVE)
    for end in (ends[3] + 1, ends[3] + 127, ends[3] + 128, ends[4] - 1):
        with pytest.raises(CorruptLog) as caught:
            tail_of(LIVE, sealed_end=end)
        assert caught.value.byte == ends[3]
    with pytest.raises(CorruptLog) as caught:
        tail_of(LIVE, sealed_end=ends[-1] + 1)
    assert caught.value.byte == ends[-1]


# -- a later format ---------------------------------------------------------------------------


def with_foreign_frame(number: int, behind: tuple[int | str, ...]) -> tuple[MemoryFolder, int]:
    """A sound frame of a type that is not known, at the end or with acknowledged ones behind."""
    folder = MemoryFolder({})
    writer = create(folder, PLAIN, make_vectors.clock_and_entropy())
    append(writer, 0)
    writer.sync()
    header = FrameHeader(
        type=number, stream_id=1, chain_crc=writer._segment.running_crc, seq=1, first_offset=2,
        durable_upto=writer._segment.synced_bytes, salt=writer._segment.header.salt,
        body_bytes=3, raw_bytes=3, body_crc=crc32c(b"new"),
    )  # fmt: skip
    byte = writer._segment.append(header.encode(), b"new")
    for step in behind:
        if step == "s":
            writer.sync()
        else:
            append(writer, int(step))
    return folder, byte


@pytest.mark.parametrize("number", [3, 9, 0x29])
@pytest.mark.parametrize("behind", [(), (1,), (1, "s")], ids=["last", "torn", "vouched"])
def test_an_unknown_frame_type_is_refused_as_such(
    behind: tuple[int | str, ...], number: int
) -> None:
    """Upgrading mends this, so it must not be called damage."""
    folder, byte = with_foreign_frame(number, behind)
    del folder.files[durable_name(0)]  # else an opening begins behind it, and reading refuses it
    before = folder.snapshot()
    for attempt in (
        lambda: tail_of(folder),
        lambda: reopen(folder, None, make_vectors.clock_and_entropy()),
        lambda: read_all(folder),
    ):
        with pytest.raises(UnsupportedVersion, match=f"byte {byte}: frame type {number}") as caught:
            attempt()
        assert SEGMENT in str(caught.value)
        assert folder.snapshot() == before
