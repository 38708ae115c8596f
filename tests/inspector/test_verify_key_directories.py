"""`verify --deep` holds key directories to the log: what they say follows from it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cec_store.format.checksum import crc32c
from cec_store.inspector.damage.faults import Note
from cec_store.inspector.verifying.log import verify
from cec_store.inspector.verifying.results import Verification
from cec_store.partitioned.murmur3 import hash_bytes
from cec_store.state_logs.row_times import NEVER_US, NO_TIME_US, TimePlace
from cec_store.storage.local import LocalFolder
from support.places.key_directories import Said, SortedRow, murmur3, sealed, write_directory
from support.places.state_logs import EMPTY, Commit, Writer

PLACE = "value 1/2 us"
"""A row of two columns, of which the second is its time."""


def value_of(time_us: int | None, more: bytes = b"") -> bytes:
    """A value as Spark writes it: encoding, a bit for each null, two columns."""
    nulls = 2 if time_us is None else 0
    return b"\0" + struct.pack("<Qqq", nulls, 7, time_us or 0) + more


def time_in(row: dict[str, Any]) -> int:
    nulls, _, time_us = struct.unpack_from("<Qqq", row["value"], 1)
    return NO_TIME_US if nulls & 2 else int(time_us)


def a_log(folder: LocalFolder) -> list[Commit]:
    """The empty state, and six versions over 300 keys of two families."""
    random = Random(5)
    writer = Writer(folder, random, blocks=True)
    made, versions = EMPTY, [EMPTY]
    for version in range(6):
        keys = [(random.choice([1, 1, 2]), b"key %d" % random.randrange(300)) for _ in range(400)]
        changes: dict[tuple[int, bytes], bytes | None] = {
            key: value_of(random.randrange(1_000_000), b"." * (n % 3))
            for n, key in enumerate(dict.fromkeys(keys))
        }
        gone = [key for key in made.state if key not in changes][: 3 * version]
        changes.update(dict.fromkeys(gone))
        made = writer.commit(made, changes, renew=20, frames=1 + version % 2)
        versions.append(made)
    writer.close()
    return versions


def deep(folder: LocalFolder) -> Verification:
    return verify(folder, records=True, rebuilds=True)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 8, 15, 1000])
def test_hash_is_murmur3(size: int) -> None:
    keys = [Random(n).randbytes(max(0, size - n % 2)) for n in range(20)]
    column = pa.array([b"before", *keys], pa.binary())[1:]
    assert hash_bytes(column, np.zeros(20, np.uint32)).tolist() == list(map(murmur3, keys))
    assert murmur3(b"") == 0
    assert murmur3(b"test") == 0xBA6BD213
    assert murmur3(b"Hello, world!") == 0xC0363E43


def test_times_are_read_where_a_row_has_them() -> None:
    """In structs, in milliseconds, of rows that end too early, and of those that have none."""
    inner = struct.pack("<Qq", 0, 11)
    outer = b"\0" + struct.pack("<QQq", 0, 24 << 32 | len(inner), 5) + inner
    beyond = b"\0" + struct.pack("<QQq", 0, 900 << 32 | 16, 5) + inner
    null = b"\0" + struct.pack("<QQq", 1, 24 << 32 | 16, 5) + inner
    rows = pa.array([b"skipped", outer, beyond, null, outer[:-1], b"", b"\0"], pa.binary())[1:]
    place = TimePlace.named("key 0/2 0/1 us")
    assert place is not None
    assert place.is_in_key
    assert place.times_us(rows).tolist() == [11, *[NO_TIME_US] * 5]
    place = TimePlace.named("value 0/1 ms")
    assert place is not None
    times_ms = [-1, 0, 12, 2**63 - 1, -(2**63), 2**63 // 1000, -5]
    of_ms = pa.array([b"\0" + struct.pack("<Qq", 0, ms) for ms in times_ms], pa.binary())
    expected = [NEVER_US, 0, 12_000, NEVER_US - 1, NO_TIME_US, 2**63 // 1000 * 1000, -5_000]
    assert place.times_us(of_ms).tolist() == expected
    assert place.times_us(of_ms[:0]).tolist() == []


@pytest.mark.parametrize("name", ["", "key", "key 1/1 us", "row 0/1 us", "key 0/1 s", "key 0 us"])
def test_name_of_no_place(name: str) -> None:
    assert TimePlace.named(name) is None


@pytest.mark.parametrize("in_order", [(), (2,), (1, 2)])
@pytest.mark.parametrize("earlier", [[], [5], [1, 2, 5]])
def test_directory_that_follows_from_the_log_is_no_fault(
    tmp_path: Path, earlier: list[int], in_order: tuple[int, ...]
) -> None:
    """Versions that had one before have each a key file, the first with frames of no use now."""
    folder = LocalFolder(tmp_path)
    versions = a_log(folder)
    made = versions[-1]
    assert made.extent_records < made.offset
    before = [versions[version] for version in earlier]
    write_directory(
        folder, made, times_of=PLACE, time_us=time_in, earlier=before, in_order=in_order
    )
    assert len(list(tmp_path.glob("*.keys"))) == 1 + len(earlier)
    found = deep(folder)
    assert found.is_sound, found.faults
    assert not found.notes


def test_times_may_be_below_those_of_the_rows(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    made = a_log(folder)[-1]

    def lower(said: Said) -> None:
        for frame in said.frames:
            frame.least_times_us = [time_us - 1 for time_us in frame.least_times_us]

    write_directory(folder, made, lower, times_of=PLACE, time_us=time_in)
    assert deep(folder).is_sound


def swap_live_row(said: Said) -> None:
    """Another row of the same frame, so that their number is right."""
    frame = said.frames[-1]
    frame.live.add(next(row for row in range(frame.rows) if row not in frame.live))
    frame.live.remove(min(frame.live))


def fewer_live_rows(said: Said) -> None:
    said.frames[0].live.pop()


def another_hash(said: Said) -> None:
    said.frames[1].hashes[7] ^= 1


def another_version(said: Said) -> None:
    said.end[4] += 1


def another_window_count(said: Said) -> None:
    said.end[5] += 1


def another_end(said: Said) -> None:
    said.end[6] += 1


def another_segment(said: Said) -> None:
    said.frames[0].place[0] += 2


def another_byte(said: Said) -> None:
    said.frames[2].place[1] += 8


def another_body(said: Said) -> None:
    said.frames[2].place[2] += 1


def another_codec(said: Said) -> None:
    said.frames[2].place[4] = 1


def more_frame_bytes(said: Said) -> None:
    said.frames[2].frame_bytes += 8


def one_width(said: Said) -> None:
    said.frames[1].widths[1] = 25


def more_key_bytes(said: Said) -> None:
    said.frames[1].sizes[0] += 1


def another_family(said: Said) -> None:
    said.frames[1].families[0] ^= 3


def one_family(said: Said) -> None:
    said.frames[1].families = [1] * said.frames[1].rows


def first_frame_left_out(said: Said) -> None:
    del said.frames[0]


def later_times(said: Said) -> None:
    times_us = said.frames[-1].least_times_us
    times_us[-1] += 1


def fewer_times(said: Said) -> None:
    said.frames[-1].least_times_us.pop()


def more_timed_rows(said: Said) -> None:
    said.frames[-1].timed_rows += 256
    said.frames[-1].least_times_us.append(0)


def time_elsewhere(said: Said) -> None:
    said.times_of = b"elsewhere"


def in_order(change: Callable[[list[SortedRow]], list[SortedRow]]) -> Callable[[Said], None]:
    """Keys of family 2 stand in sorted runs, which are not what they should be."""

    def lie(said: Said) -> None:
        said.in_order, said.runs = (2,), change

    lie.__name__ = change.__name__
    return lie


def turned_round(rows: list[SortedRow]) -> list[SortedRow]:
    return rows[::-1]


def a_key_that_is_not_there(rows: list[SortedRow]) -> list[SortedRow]:
    return [(b"a key", *rows[0][1:]), *rows[1:]]


def a_row_that_is_not_there(rows: list[SortedRow]) -> list[SortedRow]:
    return [*rows[:-1], (*rows[-1][:2], 1 << 20)]


def a_frame_that_is_not_there(rows: list[SortedRow]) -> list[SortedRow]:
    return [*rows[:-1], (rows[-1][0], 99, 0)]


def a_row_at_two_places(rows: list[SortedRow]) -> list[SortedRow]:
    return [rows[0], *rows]


def rows_of_another_family(said: Said) -> None:
    said.in_order = (2,)
    others = [
        (frame.keys[row], number, row)
        for number, frame in enumerate(said.frames)
        for row in range(frame.rows)
        if frame.families[row] == 1
    ]
    said.runs = lambda rows: sorted([*rows, others[0]])


def a_row_in_two_runs(said: Said) -> None:
    said.in_order = (2,)
    seen: list[SortedRow] = []

    def more(rows: list[SortedRow]) -> list[SortedRow]:
        seen.append(rows[0])
        return sorted({*rows, seen[0]})

    said.runs = more


LIES: dict[Callable[[Said], None], str] = {
    in_order(turned_round): "has sorted keys that are in another order",
    in_order(a_row_at_two_places): "has sorted keys that are in another order",
    in_order(a_key_that_is_not_there): "has other sorted keys than the log",
    in_order(a_row_that_is_not_there): "has sorted keys of rows that its frames have not",
    in_order(a_frame_that_is_not_there): "has sorted keys of frames that it has not",
    rows_of_another_family: "has sorted keys of another family",
    a_row_in_two_runs: "has the sorted key of a row twice",
    swap_live_row: "live in the log or in it, and not in both",
    fewer_live_rows: "live in the log or in it, and not in both",
    another_hash: "it has other hashes for keys of the frame",
    another_version: "its version, its windows or its end",
    another_window_count: "its version, its windows or its end",
    another_end: "its version, its windows or its end",
    another_segment: "it has another place for the frame",
    another_byte: "it has another place for the frame",
    another_body: "it has another place for the frame",
    another_codec: "it has another place for the frame",
    more_frame_bytes: "it counts otherwise the rows or bytes of the frame",
    one_width: "it has other lengths for rows of the frame",
    more_key_bytes: "it has other lengths for rows of the frame",
    another_family: "it has other families for rows of the frame",
    one_family: "it has other families for rows of the frame",
    first_frame_left_out: "its frames are not those of the extent",
    later_times: "it passes over rows that are due, in the frame",
    fewer_times: "it has too many or too few times for the frame",
    more_timed_rows: "it speaks of more rows than are in the frame",
    time_elsewhere: "no row has a time at 'elsewhere'",
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_directory_that_says_otherwise_than_the_log_is_a_fault(
    tmp_path: Path, lie: Callable[[Said], None]
) -> None:
    """Its checksums are right, so that a load would believe it."""
    folder = LocalFolder(tmp_path)
    name = write_directory(folder, a_log(folder)[-1], lie, times_of=PLACE, time_us=time_in)
    assert verify(folder, records=True).is_sound
    found = deep(folder)
    assert not found.is_sound
    (fault,) = found.faults
    assert fault.kind == "key-directory"
    assert fault.path.endswith(name)
    assert LIES[lie] in fault.what
    assert "delete the file" in fault.advice


def test_directory_of_another_attempt_is_noted(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    made = a_log(folder)[-1]

    def of_another(said: Said) -> None:
        said.end[3] ^= 1  # the chain CRC

    write_directory(folder, made, of_another)
    found = deep(folder)
    assert found.is_sound
    assert notes_of(found) == ["a key directory of a version that is not here; no load goes by it"]


def test_directory_of_a_segment_that_is_gone_is_noted(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    write_directory(folder, a_log(folder)[-1])
    (segment,) = tmp_path.glob("*.seg")
    writer = Writer(folder, Random(9), blocks=True)
    writer.commit(EMPTY, {(1, b"a"): b"1"})
    writer.close()
    segment.unlink()
    found = deep(folder)
    assert found.is_sound
    assert notes_of(found) == ["a key directory of a version that is not here; no load goes by it"]


def test_directory_whose_key_file_was_replaced_is_passed_over(tmp_path: Path) -> None:
    """As a load passes it over: it is named by its checksums."""
    folder = LocalFolder(tmp_path)
    made = a_log(folder)[-1]
    name = write_directory(folder, made)
    keys = tmp_path / name.replace(".live", ".keys")
    live = (tmp_path / name).read_bytes()
    write_directory(folder, made, another_hash)
    (tmp_path / name).write_bytes(live)
    found = deep(folder)
    assert found.is_sound
    keys.unlink()
    assert deep(folder).is_sound


def test_a_key_file_that_is_none_behind_its_checksums_is_a_fault(tmp_path: Path) -> None:
    """Every load refuses it, and nothing else says so."""
    folder = LocalFolder(tmp_path)
    name = write_directory(folder, a_log(folder)[-1], in_order=[2])
    live = tmp_path / name
    keys = live.with_suffix(".keys")
    data = keys.read_bytes()
    head_bytes = int.from_bytes(data[-20:-12], "little")
    body, head = data[: -28 - head_bytes], data[-28 - head_bytes : -28]
    other = sealed(b"CECK", head, body[:-1])
    keys.write_bytes(other)
    data = live.read_bytes()
    was, now = keys_seal(body, head), keys_seal(body[:-1], head)
    assert data.count(was) == 1
    head_of_live = data[:-28].replace(was, now)
    live.write_bytes(sealed(b"CECL", head_of_live))
    (fault,) = deep(folder).faults
    assert keys.name in fault.what
    assert "bytes of hashes and sorted runs" in fault.what


def test_a_run_without_rows_is_no_fault(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    write_directory(folder, a_log(folder)[-1], in_order(no_rows))
    assert deep(folder).is_sound


def no_rows(rows: list[SortedRow]) -> list[SortedRow]:
    return []


def keys_seal(body: bytes, head: bytes) -> bytes:
    """What a live file says of a key file's checksums."""
    return struct.pack("<II", crc32c(head), crc32c(body))


def notes_of(found: Verification) -> list[str]:
    assert all(isinstance(note, Note) for note in found.notes)
    return [note.what for note in found.notes]
