"""Commits by reference: what is written is read again, and nothing else passes for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.errors import CorruptLog, UnsupportedVersion
from cec_store.format.bodies import encode_body
from cec_store.format.by_reference.commit_body import SEGMENT_COLUMNS, CommitBody, segments_of
from cec_store.format.by_reference.commits import (
    Operation,
    ReferenceCommit,
    ReferenceObject,
    Since,
)
from cec_store.format.by_reference.whole_segment import decode_whole, encode_whole
from cec_store.format.frame import NONE, SEGMENT_HEADER_BYTES, SegmentHeader
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.schema import RecordSchema

PLAIN = RecordSchema(pa.schema([("n", pa.int64()), ("text", pa.string())]))
PATH = "s3://bucket/trades/log/x.commit"
ROW = {
    "partition": 1, "first_offset": 5, "records": 7, "file": "data/q/3/00001-9.seg", "byte": 900,
    "bytes": 77, "least_us": -5, "greatest_us": 8, "frames": 2, "salt": 2**64 - 1, "written_us": 3,
}  # fmt: skip
COMMIT = ReferenceCommit(
    Operation.APPEND, "q", 3, (0, 2), (0, 12), {"q": 3, "old": 9}, {"ab": (4, 0)},
    {"retention": "7d"},
)  # fmt: skip
OBJECT = ReferenceObject(
    17, bytes(range(16)), COMMIT, segments_of([ROW, {**ROW, "removed": True}]), 99,
    after=(16, 2**64 - 3),
)  # fmt: skip


def bytes_of(found: ReferenceObject, salt: int = 5) -> bytes:
    return b"".join(replace(found, salt=salt).encode())


def header(number: int = 4) -> SegmentHeader:
    return SegmentHeader(0, bytes(16), number, 123, 0, NONE, 0, 0, 0, 77)


def segment(*counts: int) -> bytes:
    bodies = []
    for start, count in enumerate(counts):
        batch = pa.record_batch(
            {"n": pa.array(range(start, start + count), pa.int64()), "text": ["x"] * count}
        )
        times = to_timestamps(pa.array(range(count), pa.int64()))
        bodies.append(encode_body(data_records(PLAIN, batch, times), 1))
    return b"".join(encode_whole(header(), PLAIN, bodies))


# -- whole segments ---------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [(), (1,), (3, 1, 250)])
def test_a_whole_segment_is_read_as_it_was_made(counts: tuple[int, ...]) -> None:
    whole = decode_whole(segment(*counts), PATH)
    assert (whole.header, whole.schema) == (header(), PLAIN)
    assert [frame.record_count for _, frame in whole.frames] == list(counts)
    assert [part["n"].to_pylist() for part in whole.records()] == [
        list(range(at, at + count)) for at, count in enumerate(counts)
    ]
    assert [part.schema.names for part in whole.records(["text"])] == [["text"]] * len(counts)
    body = whole.body_bytes
    assert sum(frame.frame_bytes for _, frame in whole.frames) == len(body)


@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_no_flipped_bit_of_a_whole_segment_goes_unseen(at: int, bit: int) -> None:
    data = bytearray(segment(3, 20))
    data[at % len(data)] ^= 1 << bit
    with pytest.raises((CorruptLog, UnsupportedVersion), match=PATH):
        decode_whole(bytes(data), PATH).records()


def test_no_cut_within_a_frame_and_no_byte_more_goes_unseen() -> None:
    data = segment(3, 20)
    ends = [byte + frame.frame_bytes for byte, frame in decode_whole(data, PATH).frames]
    starts = decode_whole(data, PATH).body_bytes.start
    for length in {*range(len(data))} - {starts, *ends}:
        with pytest.raises(CorruptLog, match=PATH):
            decode_whole(data[:length], PATH)
    with pytest.raises(CorruptLog, match="cut short at 1 bytes"):
        decode_whole(data + b"\0", PATH)


def test_no_cut_of_a_commit_goes_unseen() -> None:
    data = b"".join(OBJECT.encode())
    for length in range(len(data)):
        with pytest.raises(CorruptLog, match=PATH):
            ReferenceObject.decode(data[:length], PATH, OBJECT.number)


def test_frames_of_another_segment_or_order_are_refused() -> None:
    data = segment(2, 2)
    (first, one), (second, two) = decode_whole(data, PATH).frames
    swapped = (
        data[:first]
        + data[second : second + two.frame_bytes]
        + (data[first : first + one.frame_bytes] + data[second + two.frame_bytes :])
    )
    with pytest.raises(CorruptLog, match="where 0 is due"):
        decode_whole(swapped, PATH)
    twice = data[:second] + data[first:]
    with pytest.raises(CorruptLog, match="frame number 0 where 1 is due"):
        decode_whole(twice, PATH)


# -- commits ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "base"), [(17, "nothing"), (68, (64, 2**63 + 5)), (64, None)], ids=str
)
def test_a_commit_is_read_as_it_was_made(number: int, base: Any) -> None:
    since = None if base == "nothing" else Since(base, OBJECT.segments.slice(1))
    made = replace(OBJECT, number=number, since=since)
    found = ReferenceObject.decode(bytes_of(made), PATH, number)
    assert found == replace(made, salt=5)
    assert found.segments["removed"].to_pylist() == [False, True]
    at_once = found.at_once()
    if since is None:
        assert at_once == found
    else:
        assert (at_once.since, at_once.after, at_once.segments) == (None, base, since.segments)


@pytest.mark.parametrize(
    ("number", "base"),
    [(68, None), (68, (60, 1)), (64, (0, 1)), (65, (64, 1)), (0, None), (4160, (64, 1))],
    ids=str,
)
def test_a_commit_says_what_came_since_the_one_that_is_due(number: int, base: Any) -> None:
    made = replace(OBJECT, number=number, since=Since(base, OBJECT.segments))
    with pytest.raises(CorruptLog, match="cannot be"):
        ReferenceObject.decode(bytes_of(made), PATH, number)


@pytest.mark.parametrize("salt", ["1", "0" * 15 + "A", " " + "0" * 15, 1, "0" * 17, "g" * 16])
def test_salt_of_the_commit_to_go_on_from_is_written_in_one_way(salt: Any) -> None:
    body = CommitBody({"number": 64, "salt": salt}, (), (), OBJECT.segments)
    with pytest.raises(ValueError, match=r"no salt|no text|fromhex"):
        Since.of(body, 68)
    assert Since.of(body._replace(facts={"number": 64, "salt": "0" * 16}), 68).base == (64, 0)


def test_frames_of_a_commit_stand_in_their_order_and_are_two_at_most() -> None:
    made = replace(OBJECT, number=68, since=Since((64, 1), OBJECT.segments))
    data, alone = bytes_of(made), bytes_of(replace(made, since=None))
    first, second = data[SEGMENT_HEADER_BYTES : len(alone)], data[len(alone) :]
    head = data[:SEGMENT_HEADER_BYTES]
    assert ReferenceObject.decode(head + first, PATH, 68).since is None
    for frames in (b"", second, second + first, first + first, data[128:] + second):
        with pytest.raises(CorruptLog):
            ReferenceObject.decode(head + frames, PATH, 68)


def test_a_commit_that_makes_a_queue_holds_its_schema() -> None:
    commit = ReferenceCommit(Operation.MAKE, starts=(0,), ends=(0,), schema=PLAIN)
    made = ReferenceObject(0, bytes(16), commit, segments_of([]), 1)
    found = ReferenceObject.decode(bytes_of(made), PATH, 0)
    assert found.commit.schema is not None
    assert found.commit.schema.is_as(PLAIN)
    assert found == replace(made, salt=5)


def test_two_objects_of_one_commit_are_not_equal() -> None:
    assert bytes_of(OBJECT, 1) != bytes_of(OBJECT, 2)


def test_a_commit_under_another_number_is_refused() -> None:
    with pytest.raises(CorruptLog, match="the object is number 17"):
        ReferenceObject.decode(bytes_of(OBJECT), PATH, 18)


def test_another_segment_is_no_commit() -> None:
    with pytest.raises(UnsupportedVersion, match="frame type 2"):
        ReferenceObject.decode(segment(3), PATH, 4)


@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_no_flipped_bit_of_a_commit_goes_unseen(at: int, bit: int) -> None:
    data = bytearray(bytes_of(OBJECT))
    data[at % len(data)] ^= 1 << bit
    with pytest.raises((CorruptLog, UnsupportedVersion), match=PATH):
        ReferenceObject.decode(bytes(data), PATH, 17)


@pytest.mark.parametrize(
    "row",
    [
        {"partition": 2}, {"partition": -1}, {"records": 0}, {"first_offset": -1}, {"byte": -1},
        {"least_us": 9},
    ],
    ids=str,
)  # fmt: skip
def test_a_segment_that_cannot_be_is_refused(row: dict[str, Any]) -> None:
    made = replace(OBJECT, segments=segments_of([{**ROW, **row}]))
    with pytest.raises(CorruptLog, match="says what cannot be: a segment"):
        ReferenceObject.decode(bytes_of(made), PATH, 17)


@pytest.mark.parametrize(
    "commit",
    [
        {"starts": (0, 13)}, {"starts": (-1, 0)}, {"starts": (), "ends": ()},
    ],
    ids=str,
)  # fmt: skip
def test_partitions_that_cannot_be_are_refused(commit: dict[str, Any]) -> None:
    made = replace(OBJECT, commit=replace(COMMIT, **commit), segments=segments_of([]))
    with pytest.raises(CorruptLog, match="says what cannot be"):
        ReferenceObject.decode(bytes_of(made), PATH, 17)


def test_an_operation_of_a_later_release_asks_for_an_upgrade() -> None:
    made = replace(OBJECT, commit=replace(COMMIT, operation=77))
    with pytest.raises(UnsupportedVersion, match="upgrade"):
        ReferenceObject.decode(bytes_of(made), PATH, 17)


def test_segments_have_their_columns() -> None:
    assert segments_of([ROW]).schema == SEGMENT_COLUMNS
    assert OBJECT.segments.num_rows == 2
