"""Segment files: frames forward, bodies and headers at any place, and what lies beyond damage."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cec_store.errors import CorruptLog, DiskFull, OutOfRange, UnsupportedVersion
from cec_store.format.bodies import decode_body, encode_body
from cec_store.format.checksum import crc32c
from cec_store.format.frame import (
    FRAME_HEADER_BYTES,
    NONE,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameHeader,
    FrameType,
    SegmentHeader,
)
from cec_store.log.creating import create
from cec_store.log.frames import FrameMarks
from cec_store.log.segment import BadFrame, SegmentReader, SegmentWriter
from cec_store.storage.names import segment_name
from support.disks.memory_folder import MemoryFolder
from support.vectors import make as make_vectors
from support.vectors.make import SCHEMAS, plain_rows, records_of, rows_of

PLAIN = SCHEMAS["plain"]
NAME = segment_name(0)
HEADER = SegmentHeader(1, b"log id of 16 byt", 0, 5, 10, NONE, 0, 0, 0, 0)
ROWS = [plain_rows(*[(i, i)] * (1 + 400 * (i % 3 == 0))) for i in range(12)]


def a_queue() -> MemoryFolder:
    """One segment with small and large frames, so that windows end everywhere."""
    folder = MemoryFolder({})
    writer = create(folder, PLAIN, make_vectors.clock_and_entropy())
    for rows in ROWS:
        writer.append(encode_body(records_of(PLAIN, rows), 1), FrameMarks())
        writer.sync()
    writer.close()
    return folder


def frame(seq: int, body: bytes = b"", salt: int = 5, **fields: int) -> tuple[bytes, bytes]:
    header = FrameHeader(
        type=FrameType.BATCH, stream_id=1, seq=seq, salt=salt,
        body_bytes=len(body), raw_bytes=len(body), body_crc=crc32c(body), **fields,
    )  # fmt: skip
    return header.encode(), body


def written(*frames: tuple[bytes, bytes]) -> MemoryFolder:
    folder = MemoryFolder({})
    writer = SegmentWriter(folder, HEADER)
    for header, body in frames:
        writer.append(header, body)
    writer.sync()
    writer.close()
    return folder


def bad_of(folder: MemoryFolder, **arguments: object) -> tuple[int, str]:
    with pytest.raises(BadFrame) as caught:
        list(SegmentReader(folder, 0).frames(**arguments))
    return caught.value.bad.byte, caught.value.bad.reason


# -- what was written is read -----------------------------------------------------------------


def test_a_writer_counts_what_a_reader_finds() -> None:
    folder = MemoryFolder({})
    writer = SegmentWriter(folder, HEADER)
    places = [writer.append(*frame(10 + i, b"x" * i)) for i in range(5)]
    assert writer.synced_bytes == 0
    writer.sync()
    assert writer.synced_bytes == writer.bytes == folder.size(NAME)
    reader = SegmentReader(folder, 0)
    assert reader.header == HEADER
    found = list(reader.frames(stop=writer.bytes, bodies=True))
    assert [byte for byte, _ in found] == places
    assert [header.seq for _, header in found] == [10, 11, 12, 13, 14]


def test_records_come_back_forward_and_backward() -> None:
    folder = a_queue()
    reader = SegmentReader(folder, 0)
    places = [
        (byte, header)
        for byte, header in reader.frames(stop=reader.size())
        if header.type == FrameType.BATCH
    ]
    assert len(places) == len(ROWS)
    forward = list(zip(places, ROWS, strict=True))
    for backward, order in ((False, forward), (True, forward[::-1])):
        reader.reload()
        for (byte, header), rows in order:
            assert reader.header_at(byte) == header
            body = reader.body_at(byte, header, backward)
            schema = reader.schema(header)
            records = decode_body(body, header.codec, header.raw_bytes, schema, len(rows))
            assert rows_of(records) == rows


def test_reading_starts_and_stops_at_frames() -> None:
    folder = a_queue()
    everything = list(SegmentReader(folder, 0).frames(stop=folder.size(NAME)))
    for i in range(len(everything) - 3):
        part = SegmentReader(folder, 0).frames(
            everything[i][0], everything[i + 3][0] if i else None
        )
        assert next(part) == everything[i]
        if i:
            assert list(part) == everything[i + 1 : i + 3]


def test_a_file_that_grows_is_seen_after_a_reload() -> None:
    folder = MemoryFolder({})
    writer = SegmentWriter(folder, HEADER)
    reader = SegmentReader(folder, 0)
    for i in range(3):
        byte = writer.append(*frame(10 + i, b"body"))
        reader.reload()
        assert reader.header_at(byte).seq == 10 + i


# -- the first bad place ----------------------------------------------------------------------


def test_the_end_of_the_file_is_a_bad_place_without_a_stop() -> None:
    folder = written(frame(10), frame(11, b"abc"))
    assert bad_of(folder) == (folder.size(NAME), "frame header cut short at 0 bytes")


@pytest.mark.parametrize("bodies", [False, True])
def test_a_frame_that_is_cut_short_is_bad(bodies: bool) -> None:
    folder = written(frame(10), frame(11, b"abcdef"))
    at = SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES
    data = bytes(folder.files[NAME])
    for size in range(at, len(data)):
        byte, reason = bad_of(MemoryFolder({NAME: data[:size]}), bodies=bodies)
        assert byte == at
        assert "cut short" in reason


def test_a_body_is_checked_when_asked_for() -> None:
    folder = written(frame(10, b"abcdef"), frame(11))
    folder.files[NAME][-FRAME_HEADER_BYTES - 1] ^= 1
    assert bad_of(folder, bodies=True) == (SEGMENT_HEADER_BYTES, "the body fails its checksum")
    assert bad_of(folder)[0] == folder.size(NAME)


def test_a_frame_of_another_segment_is_bad() -> None:
    assert "another segment" in bad_of(written(frame(10), frame(11, salt=6)))[1]


@pytest.mark.parametrize("second", [9, 10, 12, 2**63 - 1])
def test_a_frame_out_of_order_is_bad(second: int) -> None:
    byte, reason = bad_of(written(frame(10), frame(second)))
    assert byte == SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES
    assert reason == f"frame number {second} where 11 is due"


def test_the_first_frame_has_the_number_of_the_segment() -> None:
    assert bad_of(written(frame(11)))[1] == "frame number 11 where 10 is due"


def test_a_frame_beyond_the_stop_is_bad() -> None:
    folder = written(frame(10, b"abc"))
    byte, reason = bad_of(folder, stop=folder.size(NAME) - 1)
    assert (byte, "goes on" in reason) == (SEGMENT_HEADER_BYTES, True)


# -- hostile places and lengths ---------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 127, 129, 2**31, 2**62, 2**63, 2**64 - 1])
def test_a_place_that_is_no_frame_is_refused(place: int) -> None:
    reader = SegmentReader(a_queue(), 0)
    with pytest.raises(BadHeader):
        reader.header_at(place)
    _, header = next(iter(reader.frames()))
    with pytest.raises(BadHeader):
        reader.schema(header._replace(schema_byte=place))


def test_a_schema_must_be_a_schema_frame() -> None:
    reader = SegmentReader(a_queue(), 0)
    byte, header = list(reader.frames(stop=reader.size()))[1]
    with pytest.raises(BadHeader, match=f"no schema at byte {byte}"):
        reader.schema(header._replace(schema_byte=byte))


def test_a_body_beyond_the_file_is_refused_without_reading_it() -> None:
    header, _ = frame(10)
    data = bytearray(header)
    data[112:116] = (64 << 20).to_bytes(4, "little")
    data[124:] = crc32c(bytes(data[:124])).to_bytes(4, "little")
    folder = written((bytes(data), b""))
    assert bad_of(folder) == (SEGMENT_HEADER_BYTES, "the body is cut short")
    assert bad_of(folder, bodies=True) == (SEGMENT_HEADER_BYTES, "the body is cut short")


# -- beyond a bad place -----------------------------------------------------------------------


def test_intact_headers_are_found_at_any_byte() -> None:
    folder = written(frame(10, b"abc"), frame(11, b"CECF" * 9), frame(12, salt=6), frame(13))
    reader = SegmentReader(folder, 0)
    assert [h.seq for h in reader.headers_beyond(0)] == [10, 11, 13]
    assert [h.seq for h in reader.headers_beyond(SEGMENT_HEADER_BYTES + 1)] == [11, 13]
    assert list(reader.headers_beyond(folder.size(NAME))) == []
    assert list(reader.headers_beyond(2**63)) == []


def test_a_log_inside_a_body_is_not_taken_for_frames() -> None:
    inner = b"".join(frame(11, salt=6, durable_upto=10**6))
    folder = written(frame(10, inner), frame(11))
    assert [h.seq for h in SegmentReader(folder, 0).headers_beyond(0)] == [10, 11]


# -- whole files ------------------------------------------------------------------------------


def test_a_segment_under_another_name_is_refused() -> None:
    data = bytes(a_queue().files[NAME])
    with pytest.raises(CorruptLog, match="the file is segment 0"):
        SegmentReader(MemoryFolder({segment_name(1): data}), 1)
    with pytest.raises(CorruptLog, match="missing"):
        SegmentReader(MemoryFolder({}), 0)


def test_a_segment_of_a_later_version_is_refused_by_name() -> None:
    data = a_queue().files[NAME]
    data[8] = 2
    data[124:128] = crc32c(bytes(data[:124])).to_bytes(4, "little")
    with pytest.raises(UnsupportedVersion, match=f"{NAME}.*version 2.*upgrade"):
        SegmentReader(MemoryFolder({NAME: bytes(data)}), 0)


def test_a_segment_that_is_trimmed_under_a_reader_is_out_of_range() -> None:
    folder = a_queue()
    reader = SegmentReader(folder, 0)
    folder.unlink(NAME)
    for attempt in (
        reader.size,
        lambda: reader.header_at(SEGMENT_HEADER_BYTES),
        lambda: list(reader.frames()),
        lambda: list(reader.headers_beyond(SEGMENT_HEADER_BYTES)),
    ):
        with pytest.raises(OutOfRange, match=NAME):
            attempt()


def test_a_segment_that_cannot_be_begun_is_closed() -> None:
    folder = MemoryFolder({})

    def before(call: str, name: str) -> None:
        if call == "write":
            raise DiskFull("full")

    folder.before = before
    with pytest.raises(DiskFull):
        SegmentWriter(folder, HEADER)
    assert [file.closed for file in folder.opened] == [True]


def test_a_schema_body_is_kept_once_read() -> None:
    folder = a_queue()
    reader = SegmentReader(folder, 0)
    _, header = next(iter(reader.frames()))
    assert reader.schema(header) is reader.schema(header)
    assert isinstance(reader.body_at(SEGMENT_HEADER_BYTES, header), pa.Buffer)
