"""Frame and segment headers: bytes and back, and what is refused before a length is believed."""

from __future__ import annotations

from itertools import product
from struct import pack_into

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.format.checksum import crc32c
from cec_store.format.frame import (
    BODY_BYTES_MAX,
    FORMAT_VERSION,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC_BYTES,
    HEADER,
    NONE,
    RAW_BYTES_MAX,
    RECORD_STREAM,
    SEGMENT_HEADER_BYTES,
    BadHeader,
    Codec,
    FrameFlags,
    FrameHeader,
    FrameType,
    NewerVersion,
    SegmentFlags,
    SegmentHeader,
    are_sound,
    body_bytes_max,
    decode_frame_header,
    decode_segment_header,
    extend_running_crc,
    prove_body,
    raw_bytes_max,
)
from support.runs.counts import crash_count

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
U63 = st.integers(0, 2**63 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
FIELDS = st.fixed_dictionaries(
    {
        "stream_id": U32, "chain_crc": U32, "seq": U63,
        "first_offset": st.integers(0, 2**63 - 2**32),
        "prev_segment": U64, "prev_byte": U64, "schema_byte": U64, "durable_upto": U64, "salt": U64,
        "codec": st.sampled_from(Codec), "flags": st.just(FrameFlags.COUNTED.value),
        "min_timestamp_us": I64, "max_timestamp_us": I64,
        "extent_records": U64, "input_upto": U64, "record_count": U32, "open_windows": U32,
        "body_bytes": st.integers(0, BODY_BYTES_MAX), "body_crc": U32,
    }
)  # fmt: skip
PLAIN = {
    "stream_id": 1, "chain_crc": 0, "seq": 0, "first_offset": 0, "prev_segment": 0,
    "schema_byte": 128, "durable_upto": 0, "salt": 5,
}  # fmt: skip
SEGMENT = SegmentHeader(1, bytes(16), 2, 3, 4, 5, 6, 7, 8, 9)


def sealed(data: bytes) -> bytes:
    """With the checksum put right, as a liar would."""
    return data[:-4] + crc32c(data[:-4]).to_bytes(4, "little")


def changed(data: bytes, at: int, layout: str, value: int) -> bytes:
    copy = bytearray(data)
    pack_into(layout, copy, at, value)
    return sealed(bytes(copy))


# -- frame headers ----------------------------------------------------------------------------


@given(st.sampled_from([FrameType.BATCH, FrameType.SCHEMA]), FIELDS, st.integers(0, 1))
def test_a_frame_header_comes_back(frame_type: FrameType, fields: dict, excess: int) -> None:
    raw = raw_bytes_max(fields["body_bytes"]) - 1 + excess
    if frame_type != FrameType.BATCH:
        fields |= {"flags": 0, "open_windows": 0, "extent_records": 0}
    data = FrameHeader(type=frame_type, raw_bytes=raw, **fields).encode()
    assert len(data) == FRAME_HEADER_BYTES
    header = decode_frame_header(b"before" + data + b"behind", 6)
    found = header._asdict()
    assert {name: found[name] for name in fields} == fields
    assert (header.type, header.raw_bytes) == (frame_type, raw)
    assert header.frame_bytes == FRAME_HEADER_BYTES + header.body_bytes
    assert header.end_offset == header.first_offset + header.record_count


def test_every_byte_of_a_frame_header_is_covered() -> None:
    data = FrameHeader(type=FrameType.BATCH, **PLAIN).encode()
    decode_frame_header(data)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadHeader):
            decode_frame_header(bytes(flipped))


def test_a_frame_header_that_is_cut_short_is_refused() -> None:
    data = FrameHeader(type=FrameType.BATCH, **PLAIN).encode()
    for size in range(FRAME_HEADER_BYTES):
        with pytest.raises(BadHeader, match=f"cut short at {size} bytes"):
            decode_frame_header(data[:size])
    with pytest.raises(BadHeader, match="cut short at 0 bytes"):
        decode_frame_header(data, 1_000)


@pytest.mark.parametrize("magic", [b"CECG", b"cecf", b"\0\0\0\0"])
def test_a_frame_header_without_the_magic_is_refused_though_the_checksum_is_right(
    magic: bytes,
) -> None:
    data = sealed(magic + FrameHeader(type=FrameType.BATCH, **PLAIN).encode()[4:])
    with pytest.raises(BadHeader, match="frame magic is wrong"):
        decode_frame_header(data)


def test_what_a_frame_does_not_say_is_nothing() -> None:
    header = decode_frame_header(FrameHeader(type=FrameType.BATCH, **PLAIN).encode())
    assert header.codec == Codec.NONE
    assert (header.min_timestamp_us, header.max_timestamp_us) == (2**63 - 1, -(2**63))
    unsaid = ("extent_records", "input_upto", "record_count", "open_windows", "body_bytes",
              "raw_bytes", "body_crc")  # fmt: skip
    assert {name: getattr(header, name) for name in unsaid} == dict.fromkeys(unsaid, 0)


def test_the_numbers_of_the_format_do_not_change() -> None:
    """Frozen on disk: what reads and what writes would change together, and no other test fail."""
    assert (BODY_BYTES_MAX, RAW_BYTES_MAX) == (64 * 1024 * 1024, 256 * 1024 * 1024)
    assert NONE == 0xFFFF_FFFF_FFFF_FFFF
    assert {flag.name: flag.value for flag in FrameFlags} == {"CONTINUES": 1, "COUNTED": 2}
    assert (RECORD_STREAM, FORMAT_VERSION) == (1, 1)
    assert {kind.name: kind.value for kind in FrameType} == {"BATCH": 1, "SCHEMA": 2, "COMMIT": 3}
    assert {codec.name: codec.value for codec in Codec} == {
        "NONE": 0,
        "ZSTD": 1,
        "BLOCKS": 2,
        "COLUMNS": 3,
    }


@pytest.mark.parametrize("number", range(256))
def test_types_that_are_not_known(number: int) -> None:
    data = changed(FrameHeader(type=FrameType.BATCH, **PLAIN).encode(), 4, "<B", number)
    if number in (FrameType.BATCH, FrameType.SCHEMA):
        assert decode_frame_header(data).type == number
    else:
        with pytest.raises(NewerVersion, match=f"frame type {number} "):
            decode_frame_header(data)


def test_a_frame_of_one_record_may_be_larger_and_no_other() -> None:
    most = 2**31 - 65_536
    assert (body_bytes_max(1), raw_bytes_max(most, 1)) == (most, most)
    for count in (0, 2, 2**32 - 1):
        assert (body_bytes_max(count), raw_bytes_max(most, count)) == (64 << 20, 256 << 20)

    def header(**lengths: int) -> FrameHeader:
        return FrameHeader(type=FrameType.BATCH, **{**PLAIN, "record_count": 1, **lengths})

    assert decode_frame_header(header(body_bytes=most, raw_bytes=most).encode()).raw_bytes == most
    with pytest.raises(BadHeader, match="is over"):
        decode_frame_header(header(body_bytes=most + 1).encode())
    with pytest.raises(BadHeader, match="impossible"):
        decode_frame_header(header(body_bytes=most, raw_bytes=most + 1).encode())
    with pytest.raises(BadHeader, match="is over"):
        decode_frame_header(header(body_bytes=(64 << 20) + 1, record_count=2).encode())


def test_a_step_goes_on_only_in_a_batch_whose_windows_are_not_counted() -> None:
    def header(frame_type: FrameType, flags: int, **fields: int) -> FrameHeader:
        data = FrameHeader(type=frame_type, **{**PLAIN, "flags": flags, **fields}).encode()
        return decode_frame_header(data)

    found = {flags: header(FrameType.BATCH, flags) for flags in range(3)}
    assert [each.continues for each in found.values()] == [False, True, False]
    assert [each.is_counted for each in found.values()] == [False, False, True]
    with pytest.raises(BadHeader, match="no open windows to count"):
        header(FrameType.BATCH, FrameFlags.CONTINUES | FrameFlags.COUNTED)
    for flags, field in product((0, FrameFlags.CONTINUES), ("open_windows", "extent_records")):
        with pytest.raises(BadHeader, match="not counted"):
            header(FrameType.BATCH, flags, **{field: 1})
    for unknown in (4, 8, 1 << 15, 4 | FrameFlags.COUNTED):
        with pytest.raises(NewerVersion, match=f"flags {unknown:#x}"):
            header(FrameType.BATCH, unknown)
    for flags in range(1, 4):
        with pytest.raises(NewerVersion, match="unknown"):
            header(FrameType.SCHEMA, flags)


def test_lengths_beyond_their_limits_are_refused_though_the_checksum_is_right() -> None:
    data = FrameHeader(type=FrameType.BATCH, **PLAIN).encode()

    def lengths(body: int, raw: int) -> FrameHeader:
        return decode_frame_header(changed(changed(data, 112, "<I", body), 116, "<I", raw))

    assert lengths(BODY_BYTES_MAX, RAW_BYTES_MAX).raw_bytes == 256 << 20
    with pytest.raises(BadHeader, match="is over"):
        lengths(BODY_BYTES_MAX + 1, 0)
    with pytest.raises(BadHeader, match="is over"):
        lengths(2**32 - 1, 0)
    with pytest.raises(BadHeader, match="impossible"):
        lengths(BODY_BYTES_MAX, RAW_BYTES_MAX + 1)
    assert lengths(1000, 200_000 + 65_536).raw_bytes == 265_536
    with pytest.raises(BadHeader, match="impossible"):
        lengths(1000, 200_000 + 65_537)
    with pytest.raises(BadHeader, match="impossible"):
        lengths(0, 2**32 - 1)


def test_numbers_leave_room_for_the_next() -> None:
    data = FrameHeader(type=FrameType.BATCH, **PLAIN).encode()
    for at in (16, 24):
        assert decode_frame_header(changed(data, at, "<Q", 2**63 - 1))
        for value in (2**63, 2**64 - 1):
            with pytest.raises(BadHeader, match="over 63 bits"):
                decode_frame_header(changed(data, at, "<Q", value))
    last = changed(data, 24, "<Q", 2**63 - 2)
    assert decode_frame_header(changed(last, 104, "<I", 1)).end_offset == 2**63 - 1
    with pytest.raises(BadHeader, match="over 63 bits"):
        decode_frame_header(changed(last, 104, "<I", 2))


@pytest.mark.parametrize(("at", "layout", "value"), [(5, "<B", 4), (6, "<H", 127), (6, "<H", 256)])
def test_an_unknown_codec_or_flag_is_of_a_later_format(at: int, layout: str, value: int) -> None:
    data = FrameHeader(type=FrameType.BATCH, **PLAIN).encode()
    with pytest.raises(NewerVersion, match="unknown"):
        decode_frame_header(changed(data, at, layout, value))


def test_headers_as_columns_are_sound_where_one_by_one_they_are() -> None:
    dice, count = np.random.default_rng(52), crash_count(10_000, 200_000)
    headers = np.zeros(count, HEADER)
    headers["magic"] = int.from_bytes(FRAME_MAGIC_BYTES, "little")
    headers["type"] = 1
    for name, values in {
        "type": (0, 1, 2, 3), "codec": (0, 1, 2, 3, 4), "flags": (0, 1, 2, 3, 4, 1 << 15),
        "seq": (2**63 - 1, 2**63), "first_offset": (0, 2**63 - 2, 2**63, 2**64 - 2),
        "record_count": (0, 1, 2), "open_windows": (0, 1), "extent_records": (0, 1),
        "body_bytes": (1, BODY_BYTES_MAX, BODY_BYTES_MAX + 1, 2**31 - 65_536, 2**31 - 65_535),
        "raw_bytes": (0, 65_536, 65_537, 65_736, 65_737, RAW_BYTES_MAX, RAW_BYTES_MAX + 1,
                      2**31 - 65_536, 2**31 - 65_535),
    }.items():  # fmt: skip
        is_changed = dice.random(count) < 0.3
        headers[name][is_changed] = dice.choice(np.array(values, "u8"), is_changed.sum())
    flags = [decodes(sealed(header.tobytes())) for header in headers]
    assert are_sound(headers).tolist() == flags
    assert 0.02 < np.mean(flags) < 0.6


def decodes(data: bytes) -> bool:
    try:
        decode_frame_header(data)
    except BadHeader:
        return False
    return True


# -- bodies, the running CRC -----------------------------------------------------------------


def test_a_body_is_what_the_header_describes() -> None:
    body = b"some bytes"
    data = FrameHeader(
        type=FrameType.BATCH, **PLAIN, body_bytes=len(body), body_crc=crc32c(body)
    ).encode()
    header = decode_frame_header(data)
    prove_body(header, body)
    for other in (body[:-1], body + b"\0", b"some bytez", b""):
        with pytest.raises(BadHeader):
            prove_body(header, other)


def test_the_running_crc_depends_on_every_header_and_their_order() -> None:
    one, two = extend_running_crc(0, 1), extend_running_crc(0, 2)
    assert extend_running_crc(one, 2) == crc32c(b"\1\0\0\0\2\0\0\0")
    assert extend_running_crc(two, 1) != extend_running_crc(one, 2)


# -- segment headers --------------------------------------------------------------------------


@given(
    st.tuples(
        U32, st.binary(min_size=16, max_size=16), U64, U64, U64, U64, U64, U64, U32, I64,
        st.integers(0, 1),
    )
)  # fmt: skip
def test_a_segment_header_comes_back(fields: tuple) -> None:
    header = SegmentHeader._make(fields)
    data = header.encode()
    assert len(data) == SEGMENT_HEADER_BYTES
    assert decode_segment_header(data + b"behind") == header


def test_every_byte_of_a_segment_header_is_covered() -> None:
    data = SEGMENT.encode()
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadHeader):
            decode_segment_header(bytes(flipped))
    for size in range(SEGMENT_HEADER_BYTES):
        with pytest.raises(BadHeader, match=f"cut short at {size} bytes"):
            decode_segment_header(data[:size])


def test_a_segment_of_another_version_is_refused_by_its_version() -> None:
    for version in (0, 2, 2**16 - 1):
        with pytest.raises(NewerVersion, match=f"version {version}"):
            decode_segment_header(changed(SEGMENT.encode(), 8, "<H", version))


@pytest.mark.parametrize("flags", [2, 3, 2**31])
def test_a_segment_with_an_unknown_flag_is_refused_as_one_of_a_later_version(flags: int) -> None:
    with pytest.raises(NewerVersion, match=f"segment flags {flags:#x}: unknown"):
        decode_segment_header(changed(SEGMENT.encode(), 84, "<I", flags))


def test_a_flag_of_a_segment_is_a_part_of_its_chain() -> None:
    compacted = SEGMENT._replace(flags=SegmentFlags.COMPACTED)
    assert decode_segment_header(compacted.encode()).flags == SegmentFlags.COMPACTED
    assert compacted.running_crc != SEGMENT.running_crc


@pytest.mark.parametrize("magic", [b"CECSEGN\0", b"cecsegm\0", bytes(8)])
def test_a_segment_without_the_magic_is_refused_though_the_checksum_is_right(magic: bytes) -> None:
    with pytest.raises(BadHeader, match="segment magic is wrong") as caught:
        decode_segment_header(sealed(magic + SEGMENT.encode()[8:]))
    assert not isinstance(caught.value, NewerVersion)


def test_a_version_counts_only_under_a_sound_checksum() -> None:
    data = bytearray(SEGMENT.encode())
    data[8] ^= 2
    with pytest.raises(BadHeader, match="checksum") as caught:
        decode_segment_header(bytes(data))
    assert not isinstance(caught.value, NewerVersion)


def test_the_magic_is_what_a_hex_dump_shows() -> None:
    assert FrameHeader(type=FrameType.BATCH, **PLAIN).encode().startswith(FRAME_MAGIC_BYTES)
    assert FRAME_MAGIC_BYTES == b"CECF"
