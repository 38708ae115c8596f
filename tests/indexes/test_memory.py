"""Frames that the index has in memory against plain lists, and what its rows and maps refuse."""

import random
from pathlib import Path

import pytest

from cec_store.format.checksum import crc32c
from cec_store.format.frame import FrameHeader, FrameType, decode_frame_header
from cec_store.indexes import entries, lmdb_file
from cec_store.indexes.entries import (
    NOTHING_REACHED,
    BadIndex,
    Coverage,
    FrameEntry,
    TimestampEntry,
    seq_key,
)
from cec_store.indexes.lmdb_file import LmdbFile
from cec_store.indexes.recent import RecentFrames
from cec_store.log.frames import Frame
from cec_store.storage.local import LocalFolder
from cec_store.values import Address

LOG_ID = bytes(range(16))


def frame(number: int, moment: int) -> Frame:
    """Frame ``7 + number``, two records each, three frames a segment."""
    header = FrameHeader(
        type=FrameType.BATCH, stream_id=1, seq=7 + number, first_offset=50 + 2 * number,
        prev_segment=0, salt=5, min_timestamp_us=moment, max_timestamp_us=moment, record_count=2,
    )  # fmt: skip
    address = Address(4 + number // 3, 128 + 200 * (number % 3))
    return Frame(address, decode_frame_header(header.encode()))


def entry_of(at: Frame) -> FrameEntry:
    header = at.header
    return FrameEntry(
        header.seq, at.address.segment_id, at.address.byte, header.first_offset, header.header_crc
    )


def timestamp_entries_of(frames: list[Frame], before_us: int) -> list[TimestampEntry]:
    found = []
    for at in frames:
        header = at.header
        moment = header.max_timestamp_us
        if moment > before_us:
            address = at.address
            found.append(
                TimestampEntry(moment, header.seq, address.segment_id, address.byte,
                               header.header_crc, before_us + 1)
            )  # fmt: skip
            before_us = moment
    return found


def require_equal(recent: RecentFrames, frames: list[Frame], before_us: int) -> None:
    places, reaches = [entry_of(at) for at in frames], timestamp_entries_of(frames, before_us)
    assert len(recent) == len(frames)
    assert recent.reached_us == (reaches[-1].upto_us if reaches else before_us)
    by_seq = {place.seq: place for place in places}
    for seq in range(5, 45):
        assert recent.frame_entry(seq) == by_seq.get(seq)
    for offset in range(45, 130):
        before = [place for place in places if place.first_offset <= offset]
        assert recent.entry_of_offset(offset) == (before[-1] if before else None)
    for moment in range(before_us + 1, before_us + 60) if before_us > 0 else range(-20, 60):
        wanted = next((reach for reach in reaches if reach.upto_us >= moment), None)
        assert recent.timestamp_entry(moment) == wanted
    rows, timestamps = recent.rows(LOG_ID)
    assert [FrameEntry.decode(row, LOG_ID) for row in rows] == places
    assert [TimestampEntry.decode(row, LOG_ID) for row in timestamps] == reaches
    if places:
        assert recent.coverage() == Coverage(places[-1], recent.reached_us)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("before_us", [NOTHING_REACHED, 12])
def test_frames_in_memory_answer_as_lists_do(seed: int, before_us: int) -> None:
    generator = random.Random(seed)
    frames = [frame(number, number + generator.randrange(-9, 9)) for number in range(30)]
    recent = RecentFrames(7, None, before_us)
    require_equal(recent, [], before_us)
    for count, at in enumerate(frames, 1):
        recent.add(at)
        if count % 6 == 0:
            require_equal(recent, frames[:count], before_us)
    assert (recent.first_seq, recent.next_seq) == (7, 37)
    assert recent.next_address == frames[-1].next_address
    after = recent.after(99)
    require_equal(after, [], 99)
    assert (after.next_seq, after.next_address) == (37, recent.next_address)


def test_trimmed_frames_are_forgotten_once_they_are_most() -> None:
    frames = [frame(number, 30 - number) for number in range(30)]
    recent = RecentFrames()
    for at in frames:
        recent.add(at)
    recent.forget(4 + 5)  # fifteen of thirty
    require_equal(recent, frames, NOTHING_REACHED)
    recent.forget(4 + 6)
    require_equal(recent, frames[18:], NOTHING_REACHED)
    recent.add(frame(30, 99))
    require_equal(recent, [*frames[18:], frame(30, 99)], NOTHING_REACHED)
    recent.forget(4 + 11)
    assert (len(recent), recent.next_seq) == (0, 38)


# -- rows -----------------------------------------------------------------------------------------


def test_an_index_of_another_version_is_refused_though_its_checksum_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    about = Coverage(FrameEntry(1, 2, 3, 4, 5), 6)
    assert Coverage.decode(about.encode(LOG_ID), LOG_ID) == about
    monkeypatch.setattr(entries, "VERSION", 2)
    later = about.encode(LOG_ID)
    monkeypatch.undo()
    with pytest.raises(BadIndex, match="index version 2, not 1"):
        Coverage.decode(later, LOG_ID)


def test_a_key_of_another_length_is_refused_though_its_checksum_is_right() -> None:
    key, value = FrameEntry(1, 2, 3, 4, 5).encode(LOG_ID)
    body = value[:-4]
    for other in (key[1:], b"\0" + key):
        sealed = body + crc32c(LOG_ID + b"frame" + other + body).to_bytes(4, "little")
        with pytest.raises(BadIndex, match=f"a key of {len(other)} bytes"):
            FrameEntry.decode((other, sealed), LOG_ID)


# -- maps -----------------------------------------------------------------------------------------


def rows_of(numbers: range) -> list[tuple[bytes, bytes]]:
    return [(seq_key(number), number.to_bytes(40, "little")) for number in numbers]


def new_file(path: Path) -> LmdbFile:
    (path / "a.mdb").touch()
    return LmdbFile(LocalFolder(path), "a.mdb", writable=True)


def test_a_map_that_is_full_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdb_file, "_MAP_BYTES_MIN", 1 << 16)
    opened = new_file(tmp_path)
    for first in range(0, 20_000, 5_000):
        numbers = range(first, first + 5_000)
        opened.append(rows_of(numbers), rows_of(numbers), b"about %d" % first)
    opened.close()
    assert (tmp_path / "a.mdb").stat().st_size > 1 << 20
    reader = LmdbFile(LocalFolder(tmp_path), "a.mdb", writable=False)
    assert reader.coverage() == b"about 15000"
    with reader.frames() as get:
        assert all(get(key) == value for key, value in rows_of(range(20_000)))
        assert get(seq_key(20_000)) is None
    assert reader.timestamp(seq_key(19_999)) == rows_of(range(19_999, 20_000))[0]
    assert reader.timestamp(seq_key(20_000)) is None
    reader.close()


def test_rows_come_behind_all_others(tmp_path: Path) -> None:
    opened = new_file(tmp_path)
    opened.append(rows_of(range(5, 9)), [], b"first")
    for frames, timestamps in ((range(8, 9), range(0)), (range(4, 5), range(0))):
        with pytest.raises(BadIndex, match="rows beyond its end"):
            opened.append(rows_of(frames), rows_of(timestamps), b"second")
    assert opened.coverage() == b"first"
    assert opened.first_frame() == rows_of(range(5, 6))[0]
    opened.close()


def test_a_trim_removes_what_is_below_and_nothing_else(tmp_path: Path) -> None:
    opened = new_file(tmp_path)
    opened.append(rows_of(range(10)), rows_of(range(10)), b"before")
    opened.trim(seq_key(4), seq_key(7), [(seq_key(6), b"put back")], b"after")
    with opened.frames() as get:
        kept = [number for number in range(10) if get(seq_key(number)) is not None]
    assert kept == [4, 5, 6, 7, 8, 9]
    assert opened.first_frame() == rows_of(range(4, 5))[0]
    assert opened.timestamp(seq_key(0)) == (seq_key(6), b"put back")
    assert opened.timestamp(seq_key(7)) == rows_of(range(7, 8))[0]
    assert opened.coverage() == b"after"
    opened.trim(lmdb_file.ABOVE_ALL_KEYS, lmdb_file.ABOVE_ALL_KEYS, [], b"none")
    assert opened.first_frame() is None
    assert opened.timestamp(seq_key(0)) is None
    opened.close()


def test_readers_of_one_file_share_it_until_the_last_is_closed(tmp_path: Path) -> None:
    writer = new_file(tmp_path)
    writer.append(rows_of(range(3)), [], b"all")
    writer.close()
    first = LmdbFile(LocalFolder(tmp_path), "a.mdb", writable=False)
    second = LmdbFile(LocalFolder(tmp_path), "a.mdb", writable=False)
    first.close()
    assert second.coverage() == b"all"
    second.close()
    third = LmdbFile(LocalFolder(tmp_path), "a.mdb", writable=True)  # nobody has it open
    assert third.coverage() == b"all"
    third.close()


def test_a_file_cut_short_is_refused_before_and_while_it_is_open(tmp_path: Path) -> None:
    writer = new_file(tmp_path)
    writer.append(rows_of(range(2_000)), [], b"all")
    writer.close()
    path = tmp_path / "a.mdb"
    whole = path.read_bytes()
    reader = LmdbFile(LocalFolder(tmp_path), "a.mdb", writable=False)
    path.write_bytes(whole[:-4096])
    with pytest.raises(BadIndex, match=f"{len(whole) - 4096} bytes and needs {len(whole)}"):
        reader.coverage()
    reader.close()
    with pytest.raises(BadIndex, match=f"{len(whole) - 4096} bytes and needs {len(whole)}"):
        LmdbFile(LocalFolder(tmp_path), "a.mdb", writable=False)
    path.write_bytes(b"")
    with pytest.raises(BadIndex, match="is empty"):
        LmdbFile(LocalFolder(tmp_path), "a.mdb", writable=False)
