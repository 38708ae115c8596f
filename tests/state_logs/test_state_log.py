"""State logs read by Python: random trees against a dict, every rule of a version, all damage."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cec_store import (
    CecError,
    CorruptLog,
    NotAQueue,
    OutOfRange,
    OutputQueue,
    ReadOnly,
    SchemaMismatch,
    StateLog,
    UnsupportedVersion,
    open_queue,
)
from cec_store.cli import app
from cec_store.format.frame import FRAME_HEADER_BYTES, NONE, SEGMENT_HEADER_BYTES, FrameType
from cec_store.format.schema import STATE_SCHEMA, RecordKind
from cec_store.inspector.measuring.extents import inspect_extent
from cec_store.inspector.showing.dump_filter import DumpFilter
from cec_store.inspector.showing.dump_rows import FrameRow
from cec_store.inspector.showing.dumping import dump
from cec_store.inspector.verifying.log import verify
from cec_store.log.segment import SegmentReader
from cec_store.state_logs.segments import StateSegment, is_state_log
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import WRITER_LOCK, segment_name
from cec_store.values import Position
from support.disks.memory_folder import MemoryFolder
from support.places.state_logs import (
    EMPTY,
    SCHEMA,
    Commit,
    Grown,
    Key,
    Writer,
    contents,
    encode_again,
    grow,
    merge,
)

A, B, C = (1, b"a"), (1, b"b"), (2, b"c")


def log_of(folder: MemoryFolder) -> StateLog:
    log = open_queue(folder)
    assert isinstance(log, StateLog)
    return log


def name_of(commit: Commit) -> str:
    return segment_name(commit.segment_id)


# -- random trees -----------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(1, 20))
def test_every_version_equals_the_model(seed: int, steps: int) -> None:
    folder = MemoryFolder({})
    grown = grow(folder, Random(seed), steps)
    before = folder.snapshot()
    log, expected = log_of(folder), grown.versions()
    assert log.versions() == list(expected)
    for version, commit in expected.items():
        found = log.rebuild(at=version)
        assert contents(found) == commit.state
        assert (found.seq, found.end_offset) == (commit.seq - 1, commit.offset)
        assert found.extent.records == commit.extent_records
        assert found.extent == log.extent(at=version)
        assert found.replay_upto.tolist() == [version]
        footprints = dict(zip(contents(found), found.offsets.tolist(), strict=True))
        assert footprints == commit.footprints
    newest = log.rebuild()
    assert contents(newest) == expected[max(expected)].state
    assert folder.snapshot() == before, "a reader writes nothing"


@given(st.integers(0, 2**32))
def test_every_attempt_has_an_id_of_its_own(seed: int) -> None:
    folder = MemoryFolder({})
    grown = grow(folder, Random(seed))
    log = log_of(folder)
    assert len({commit.unique_id for commit in grown.attempts}) == len(grown.attempts)
    for commit in grown.attempts:
        assert contents(log.rebuild(at=commit.unique_id)) == commit.state
        assert log.extent(at=commit.unique_id).records == commit.extent_records


@given(st.integers(0, 2**32))
def test_a_replay_tells_how_each_version_came_about(seed: int) -> None:
    folder = MemoryFolder({})
    grown = grow(folder, Random(seed))
    log = log_of(folder)
    for version, commit in grown.versions().items():
        state: dict[Key, bytes] = {}
        offsets = []
        for batch in log.replay(at=version, include_metadata=True):
            for row in batch.to_pylist():
                assert row["version"] <= version
                offsets.append(row["_offset"])
                key = row["family"], row["key"]
                if row["_kind"] == RecordKind.RESULT:
                    assert row["value"] is None
                    del state[key]
                else:
                    assert (key in state) == (row["_kind"] == RecordKind.CHECK)
                    state[key] = row["value"]
        assert state == commit.state
        assert offsets == sorted(set(offsets))


@given(st.integers(0, 2**32))
def test_verify_finds_nothing_and_counts_every_commit(seed: int) -> None:
    folder = MemoryFolder({})
    grown = grow(folder, Random(seed))
    found = verify(folder)
    assert found.faults == ()
    frames = [row for row in dump(folder, DumpFilter(records=False)) if isinstance(row, FrameRow)]
    batches = [row for row in frames if row.type == "BATCH"]
    assert found.frames == len(batches)
    assert found.recounted_frames == len([b for b in batches if b.open_windows is not None])
    assert found.recounted_frames >= len(grown.attempts)
    assert (found.versions, found.segments) == (len(grown.versions()), len(folder.files))
    assert sum(found.kinds.values()) == found.records == sum(b.record_count for b in batches)


@settings(max_examples=max(10, settings.default.max_examples // 3))
@given(st.integers(0, 2**32))
def test_extents_and_dumps_are_those_of_the_version(seed: int) -> None:
    folder = MemoryFolder({})
    grown = grow(folder, Random(seed))
    for version, commit in grown.versions().items():
        report = inspect_extent(folder, at=version, top=3)
        assert report.state is not None
        assert (report.version, report.damage) == (version, "")
        assert report.state.extent.open_windows == len(commit.state)
        assert report.state.extent.records == commit.extent_records
        oldest = sorted(commit.footprints.values())[:3]
        assert [window.offset for window in report.state.oldest_windows] == oldest
        rows = list(dump(folder, DumpFilter(at=version, records=False)))
        batches = [row for row in rows if isinstance(row, FrameRow) and row.type == "BATCH"]
        assert [row.seq for row in batches] == list(range(commit.seq))
        assert batches[-1].input_upto == version


# -- which attempt a version is ---------------------------------------------------------------


def two_twins() -> tuple[MemoryFolder, Commit, Commit]:
    """Two attempts at version 2 that began at once; both whole, one behind the other in number."""
    folder, random = MemoryFolder({}), Random(7)
    first = Writer(folder, random).commit(EMPTY, {A: b"1"})
    twins = [Writer(folder, random), Writer(folder, random)]
    made = [
        writer.commit(first, {B: value}) for writer, value in zip(twins, (b"x", b"y"), strict=True)
    ]
    low, high = sorted(made, key=lambda commit: commit.segment_id)
    assert low.segment_id >> 32 == high.segment_id >> 32
    return folder, low, high


def test_of_two_attempts_the_segment_of_the_higher_number_counts() -> None:
    folder, low, high = two_twins()
    assert contents(log_of(folder).rebuild(at=2)) == high.state != low.state
    assert contents(log_of(folder).rebuild(at=low.unique_id)) == low.state
    assert log_of(folder).unique_id(at=2) == log_of(folder).unique_id() == high.unique_id


class BegunMeanwhile(MemoryFolder):
    """A segment that is written just after its header has been looked for."""

    late = ""

    def read(self, name: str, byte: int, size: int) -> bytes:
        if name == self.late:
            self.late = ""
            return b""
        return super().read(name, byte, size)


def test_segment_that_is_begun_while_it_is_looked_at_is_no_damage() -> None:
    folder, random = BegunMeanwhile({}), Random(7)
    first = Writer(folder, random).commit(EMPTY, {A: b"1"})
    second = Writer(folder, random).commit(first, {B: b"2"})
    assert first.segment_id < second.segment_id
    log = log_of(folder)
    for at, due in ((1, first), (2, second), (None, second)):
        folder.late = name_of(second)
        assert contents(log.rebuild(at)) == due.state
        assert folder.late == "", "it was not looked at"


def test_a_torn_twin_leaves_the_version_to_the_other() -> None:
    folder, low, high = two_twins()
    del folder.files[name_of(high)][high.end - 10 :]
    assert contents(log_of(folder).rebuild(at=2)) == low.state
    assert verify(folder).is_sound


def test_a_twin_damaged_in_its_last_header_does_not_leave_the_version_to_the_other() -> None:
    folder, low, high = two_twins()
    for bit in range(8 * high.byte, 8 * (high.byte + FRAME_HEADER_BYTES), 11):
        folder.flip(name_of(high), bit)
        with pytest.raises(CorruptLog, match="newest sound one is 1"):
            log_of(folder).rebuild(at=2)
        assert contents(log_of(folder).rebuild(at=low.unique_id)) == low.state
        assert not verify(folder).is_sound
        folder.flip(name_of(high), bit)


@pytest.mark.parametrize("left", [None, 0, 36, 300])
def test_where_a_lost_segment_is_built_on_no_other_attempt_answers(left: int | None) -> None:
    """Version 2 was there twice; what is lost also held version 3, on which version 4 builds."""
    folder, low, high = two_twins()
    later = Writer(folder, Random(8))
    third = later.commit(high, {A: b"3"})
    later.roll()
    fourth = later.commit(third, {C: b"4"})
    middle, data = name_of(third), bytes(folder.files[name_of(third)])
    for name in (name_of(high), middle):
        whole = bytes(folder.files[name])
        if left is None:
            del folder.files[name]
        else:
            folder.files[name] = bytearray(whole[:left])
        with pytest.raises(CorruptLog):
            log_of(folder).rebuild(at=2)
        assert contents(log_of(folder).rebuild(at=low.unique_id)) == low.state
        folder.files[name] = bytearray(whole)
    assert bytes(folder.files[middle]) == data
    assert contents(log_of(folder).rebuild(at=4)) == fourth.state


def test_a_commit_of_several_frames_is_a_version_only_when_all_are_there() -> None:
    folder, random = MemoryFolder({}), Random(1)
    writer = Writer(folder, random)
    first = writer.commit(EMPTY, {A: b"1"})
    second = writer.commit(first, {A: b"2", B: b"3", C: b"4"}, frames=3)
    assert contents(log_of(folder).rebuild(at=2)) == second.state
    del folder.files[name_of(second)][second.byte :]
    assert log_of(folder).versions() == [1]
    with pytest.raises(OutOfRange, match=r"version 2 is not .* newest sound one is 1"):
        log_of(folder).rebuild(at=2)
    found = verify(folder)
    assert found.is_sound
    assert any("unfinished commit" in note.what for note in found.notes)


def test_a_commit_that_changes_nothing_is_a_version() -> None:
    folder, random = MemoryFolder({}), Random(1)
    writer = Writer(folder, random)
    made = EMPTY
    for changes in ({}, {A: b"1"}, {}, {A: None}, {}):
        made = writer.commit(made, changes)
        found = log_of(folder).rebuild()
        assert contents(found) == made.state
        assert found.replay_upto.tolist() == [made.version]
    assert log_of(folder).versions() == [1, 2, 3, 4, 5]


def test_a_version_whose_own_object_is_there_is_read_from_it() -> None:
    """As Spark loads it: a damaged copy, into which it was merged, loses nothing."""
    folder, made = MemoryFolder({}), [EMPTY]
    for number in range(4):
        writer = Writer(folder, Random(number))
        made.append(writer.commit(made[-1], {A: b"%d" % number}))
        writer.close()
    merged = merge(folder, [commit.segment_id for commit in made[1:4]])
    assert merged == made[3].segment_id | 1
    folder.flip(segment_name(merged), 8 * 300)
    assert contents(log_of(folder).rebuild(made[3].unique_id)) == made[3].state


def test_where_objects_were_merged_their_originals_may_go() -> None:
    folder = MemoryFolder({})
    writer = Writer(folder, Random(3), object_per_commit=True)
    made = [EMPTY]
    for number in range(6):
        made.append(writer.commit(made[-1], {(1, bytes([number % 3])): b"%d" % number}, renew=1))
    merged = merge(folder, [commit.segment_id for commit in made[2:5]])
    assert merged == made[4].segment_id | 1
    for commit in made[2:5]:
        del folder.files[name_of(commit)]
    log = log_of(folder)
    assert log.versions() == [1, 2, 3, 4, 5, 6]
    for commit in made[1:]:
        assert contents(log.rebuild(at=commit.version)) == commit.state
    # Of the segments that were merged only the last has a name that leads to the merged one.
    assert contents(log.rebuild(at=made[4].unique_id)) == made[4].state
    with pytest.raises(CorruptLog, match="missing"):
        log.rebuild(at=made[2].unique_id)
    assert verify(folder).is_sound


def test_forgotten_segments_are_no_fault_where_nothing_needs_them() -> None:
    folder = MemoryFolder({})
    writer = Writer(folder, Random(3), object_per_commit=True)
    made = [EMPTY]
    for number in range(8):
        made.append(writer.commit(made[-1], {A: b"%d" % number}))
    for commit in made[1:4]:
        del folder.files[name_of(commit)]
    assert log_of(folder).versions() == [4, 5, 6, 7, 8]
    assert [batch.num_rows for batch in log_of(folder).replay()] == [1] * 5
    found = verify(folder)
    assert found.is_sound
    assert found.versions == 5
    with pytest.raises(CecError, match=r"version 3 .* newest sound one is 8"):
        log_of(folder).rebuild(at=3)


# -- what is refused --------------------------------------------------------------------------


def test_versions_that_are_not_there_are_refused_by_name() -> None:
    folder, _, high = two_twins()
    log = log_of(folder)
    for at in (0, 3, 99):
        with pytest.raises(OutOfRange, match=f"version {at} .* newest sound one is 2"):
            log.rebuild(at=at)
    with pytest.raises(ValueError, match="no unique id"):
        log.rebuild(at="two")
    wrong_salt = f"{high.segment_id:016x}-{high.salt ^ 1:016x}-{high.seq - 1:x}"
    with pytest.raises(CorruptLog, match=r"salt.*newest sound one is 2"):
        log.extent(at=wrong_salt)
    beyond = f"{high.segment_id:016x}-{high.salt:016x}-{high.seq:x}"
    with pytest.raises(CorruptLog, match=name_of(high)):
        log.rebuild(at=beyond)


def test_only_spark_writes_a_state_log() -> None:
    folder, _, _ = two_twins()
    for mode in ("a", "x"):
        with pytest.raises(ReadOnly, match="Spark alone"):
            open_queue(folder, mode, schema=SCHEMA)
    with pytest.raises(SchemaMismatch):
        open_queue(folder, schema=pa.schema([("n", pa.int64())]))
    with pytest.raises(ValueError, match="mode"):
        open_queue(folder, "w")
    assert SCHEMA == STATE_SCHEMA


def test_a_queue_is_no_state_log_even_without_its_manifest(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    with open_queue(tmp_path / "q", "x", schema=schema) as queue:
        assert isinstance(queue, OutputQueue)
        assert not is_state_log(queue.folder)
    next((tmp_path / "q").glob("manifest-*")).unlink()
    with pytest.raises(NotAQueue):
        open_queue(tmp_path / "q")
    (tmp_path / "q" / WRITER_LOCK).unlink()
    with pytest.raises(NotAQueue):
        open_queue(tmp_path / "q")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotAQueue):
        open_queue(tmp_path / "empty")


def changes_of(number: int, letter: bytes = b"v") -> dict[Key, bytes | None]:
    changes: dict[Key, bytes | None] = {(2, b"old"): b""} if number == 0 else {}
    return {**changes, (1, bytes([number % 2])): letter + b"%d" % number}


def two_segments() -> tuple[MemoryFolder, list[Commit]]:
    """Six versions of one writer, in two segments, each synced; the last needs the first."""
    folder = MemoryFolder({})
    writer = Writer(folder, Random(5))
    made = [EMPTY]
    for number in range(6):
        if number == 3:
            writer.roll()
        made.append(writer.commit(made[-1], changes_of(number)))
    assert made[3].segment_id != made[4].segment_id
    assert made[6].extent_records == made[6].offset
    return folder, made


def test_a_missing_base_is_named_with_the_newest_sound_version() -> None:
    folder, made = two_segments()
    del folder.files[name_of(made[1])]
    for at in (None, 6, 5, 4, 3):
        with pytest.raises(CorruptLog) as caught:
            log_of(folder).rebuild(at=at)
        assert caught.value.path.endswith(name_of(made[1]))
        assert "missing" in str(caught.value)
        assert f"version {at}" in str(caught.value) or at is None
        assert "none is sound" in str(caught.value)
    found = verify(folder)
    assert {fault.kind for fault in found.faults} == {"segment-missing"}
    assert found.versions == 0


def test_a_version_between_sound_ones_may_be_forgotten() -> None:
    """An attempt that led nowhere: it stood above, so it counts, and what it built on is gone."""
    folder = MemoryFolder({})
    first = Writer(folder, Random(5)).commit(EMPTY, changes_of(0))
    beside = Writer(folder, Random(6)).commit(first, changes_of(1))
    alive, last = Writer(folder, Random(7)), first
    for number in (2, 3, 4):
        last = alive.commit(last, changes_of(number))
    Writer(folder, Random(8)).commit(beside, changes_of(5))
    del folder.files[name_of(beside)]
    with pytest.raises(CorruptLog, match="missing"):
        log_of(folder).rebuild(at=3)
    found = verify(folder)
    assert found.is_sound, found.faults
    assert found.versions == 2
    assert any("2 older versions can no longer be rebuilt" in note.what for note in found.notes)


def test_damage_in_the_extent_is_named_with_the_newest_sound_version() -> None:
    folder, made = two_segments()
    folder.flip(name_of(made[5]), 8 * (made[5].byte + FRAME_HEADER_BYTES + 3))
    for at in (5, 6, None):
        with pytest.raises(CorruptLog) as caught:
            log_of(folder).rebuild(at=at)
        assert caught.value.path.endswith(name_of(made[5]))
        assert caught.value.byte == made[5].byte
        assert "newest sound one is 4" in str(caught.value)
    assert contents(log_of(folder).rebuild(at=4)) == made[4].state


def test_a_damaged_schema_leaves_the_versions_of_older_segments() -> None:
    folder, made = two_segments()
    newest, older = name_of(made[-1]), name_of(made[1])
    assert newest != older
    folder.flip(newest, 8 * (SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 3))
    kept = [commit for commit in made if name_of(commit) == older]
    for commit in kept:
        assert contents(log_of(folder).rebuild(at=commit.version)) == commit.state
        assert log_of(folder).checked_version_reader(commit.version).version == commit.version
    reads: list[Callable[[StateLog], object]] = [StateLog.rebuild, StateLog.checked_version_reader]
    for read in reads:
        with pytest.raises(CorruptLog, match=f"newest sound one is {kept[-1].version}") as caught:
            read(log_of(folder))
        assert caught.value.path.endswith(newest)
        assert caught.value.byte == SEGMENT_HEADER_BYTES
    folder.flip(older, 8 * (SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 3))
    with pytest.raises(CorruptLog) as caught:
        log_of(folder)
    assert caught.value.path.endswith(newest)


def test_an_older_attempt_does_not_stand_in_for_one_whose_schema_is_damaged() -> None:
    folder, random = MemoryFolder({}), Random(5)
    first = Writer(folder, random, level=0)
    one = first.commit(EMPTY, changes_of(0))
    first.commit(one, changes_of(1))
    newest = Writer(folder, random, level=0).commit(one, changes_of(2))
    name = name_of(newest)
    half_of_schema = SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 100
    size = len(folder.files[name])
    folder.files[name] = folder.files[name][:half_of_schema] + bytes(size - half_of_schema)
    assert contents(log_of(folder).rebuild(at=1)) == one.state
    with pytest.raises(CorruptLog, match="newest sound one is 1") as caught:
        log_of(folder).rebuild(at=2)
    assert caught.value.path.endswith(name)


def test_a_replayed_file_of_another_life_is_refused() -> None:
    folder, made = two_segments()
    elsewhere = MemoryFolder({})
    foreign = Writer(elsewhere, Random(99)).commit(EMPTY, {A: b"1"})
    folder.files[name_of(made[1])] = elsewhere.files[name_of(foreign)]
    with pytest.raises(CorruptLog):
        log_of(folder).rebuild()
    assert not verify(folder).is_sound


def test_a_base_rewritten_in_place_is_refused_by_its_chain() -> None:
    """All checksums are right and the sizes, too; only the chain CRC tells."""
    folder, made = two_segments()
    again = MemoryFolder({})
    writer = Writer(again, Random(5))
    last = EMPTY
    for number in range(3):
        last = writer.commit(last, changes_of(number, b"w"))
    assert (last.segment_id, last.salt, last.end) == (
        made[3].segment_id, made[3].salt, made[3].end
    )  # fmt: skip
    folder.files[name_of(last)] = bytearray(again.files[name_of(last)])
    with pytest.raises(CorruptLog, match="chain CRC"):
        log_of(folder).rebuild(at=6)
    assert "chain" in {fault.kind for fault in verify(folder).faults}


# -- damage to every place --------------------------------------------------------------------


def damaged_copies(
    folder: MemoryFolder, random: Random, flips: int
) -> Iterator[tuple[str, MemoryFolder]]:
    for name, data in folder.files.items():
        copy = folder.copy()
        del copy.files[name]
        yield f"{name} missing", copy
        for cut in {0, 60, SEGMENT_HEADER_BYTES, len(data) // 2, len(data) - 1}:
            copy = folder.copy()
            del copy.files[name][cut:]
            yield f"{name} cut at {cut}", copy
        for _ in range(flips):
            copy = folder.copy()
            bit = random.randrange(8 * len(data))
            copy.flip(name, bit)
            yield f"{name} flipped at bit {bit}", copy


def outcome(folder: MemoryFolder, version: int) -> dict[Key, bytes] | None:
    """The state, or none where it is refused."""
    try:
        return contents(log_of(folder).rebuild(at=version))
    except (CorruptLog, OutOfRange, NotAQueue):
        return None


def states_of(grown: Grown, version: int) -> list[dict[Key, bytes]]:
    return [commit.state for commit in grown.attempts if commit.version == version]


@settings(max_examples=max(8, settings.default.max_examples // 6))
@given(st.integers(0, 2**32))
def test_damage_anywhere_is_refused_or_does_not_matter(seed: int) -> None:
    """Where twins exist and the one that counts is gone without a trace, the other may answer."""
    folder, random = MemoryFolder({}), Random(seed)
    grown = grow(folder, random, 7)
    versions = grown.versions()
    refused = 0
    for what, copy in damaged_copies(folder, random, flips=6):
        for version in versions:
            found = outcome(copy, version)
            assert found is None or found in states_of(grown, version), what
            refused += found is None
    assert refused


def test_no_flipped_bit_gives_another_state() -> None:
    """Without twins there is one right answer; every byte of the log, one bit of it at a time."""
    folder, made = two_segments()
    refused = kept = 0
    for name, data in folder.files.items():
        for byte in range(len(data)):
            folder.flip(name, 8 * byte + byte % 8)
            for version in (3, 6) if byte % 3 == 0 else (6,):
                found = outcome(folder, version)
                assert found in (None, made[version].state), (name, byte)
                refused += found is None
                kept += found is not None
            folder.flip(name, 8 * byte + byte % 8)
    assert refused > kept > 0


def three_branches() -> tuple[MemoryFolder, list[Commit]]:
    """Two twins at version 2, of which the one with the lower number led on to the newest."""
    folder = MemoryFolder({})
    first = Writer(folder, Random(5))
    made = [EMPTY, first.commit(EMPTY, changes_of(0))]
    other = Writer(folder, Random(6))
    made.append(first.commit(made[-1], changes_of(1)))
    other.commit(made[1], changes_of(9))
    for number in (2, 3):
        made.append(first.commit(made[-1], changes_of(number)))
    return folder, made


@pytest.mark.parametrize("make", [two_segments, three_branches])
def test_no_flipped_bit_makes_an_older_version_the_newest(
    make: Callable[[], tuple[MemoryFolder, list[Commit]]],
) -> None:
    folder, made = make()
    refused = 0
    for name, data in folder.files.items():
        for byte in range(len(data)):
            folder.flip(name, 8 * byte + byte % 8)
            said = ""
            try:
                found = log_of(folder).rebuild()
            except (CorruptLog, NotAQueue, UnsupportedVersion) as error:
                said = str(error)
            if said:
                assert name in said, (name, byte)
                refused += 1
            else:
                assert contents(found) == made[-1].state, (name, byte)
                assert log_of(folder).version_reader().version == made[-1].version
            folder.flip(name, 8 * byte + byte % 8)
    assert refused > 100


def test_no_cut_gives_another_state() -> None:
    folder, made = two_segments()
    name = name_of(made[6])
    whole = bytes(folder.files[name])
    ends = [commit.end for commit in made[4:]]
    for cut in range(0, len(whole), 7):
        folder.files[name] = bytearray(whole[:cut])
        reached = 3 + sum(end <= cut for end in ends)
        assert log_of(folder).versions() == list(range(1, reached + 1))
        assert contents(log_of(folder).rebuild()) == made[reached].state
        if reached < 6:
            with pytest.raises((CorruptLog, OutOfRange), match=f"sound one is {reached}"):
                log_of(folder).rebuild(at=6)
        assert verify(folder).is_sound, "an unfinished write is no damage"


@settings(max_examples=max(5, settings.default.max_examples // 10))
@given(st.integers(0, 2**32))
@example(2452)  # damage in the only commit there is
def test_verify_tells_what_keeps_a_version_from_being_rebuilt(seed: int) -> None:
    folder, random = MemoryFolder({}), Random(seed)
    grown = grow(folder, random, 6, merges=False)
    newest = max(grown.versions())
    for what, copy in damaged_copies(folder, random, flips=4):
        if " cut " in what or not is_state_log(copy):
            continue  # as after the death of a writer
        found = verify(copy)
        try:
            state = contents(log_of(copy).rebuild())
        except CorruptLog:
            assert not found.is_sound, what
        else:
            reached = found.versions and max(log_of(copy).versions())
            assert found.is_sound is False or state in states_of(grown, reached or newest), what


# -- headers that lie, with every checksum right ------------------------------------------------


def rewritten(folder: MemoryFolder, commit: Commit, **fields: int) -> MemoryFolder:
    """The frame that ends a commit with other values in its header."""
    reader = SegmentReader(folder, commit.segment_id)
    header = reader.header_at(commit.byte)
    body = reader.body_at(commit.byte, header).to_pybytes()
    previous = header.prev_segment, header.prev_byte
    changed = header._replace(**fields)
    data = encode_again(changed, previous, commit.salt, changed.chain_crc) + body
    folder.files[name_of(commit)][commit.byte : commit.end] = data
    return folder


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"open_windows": 2}, "open-windows"),
        ({"extent_records": 5}, "extent"),
        ({"input_upto": 7}, "inputs"),
        ({"min_timestamp_us": 1}, "timestamps"),
    ],
)
def test_verify_counts_for_itself(fields: dict[str, int], kind: str) -> None:
    folder, made = two_segments()
    assert verify(folder).is_sound
    found = verify(rewritten(folder, made[6], **fields))
    assert kind in {fault.kind for fault in found.faults}
    assert all(fault.byte == made[6].byte for fault in found.faults)


@pytest.mark.parametrize("number", [4, 6])
def test_verify_finds_a_frame_that_does_not_follow_the_one_before(number: int) -> None:
    """By the chain CRC in its header, whether it is the last of its segment or not."""
    folder, made = two_segments()
    assert verify(folder).is_sound
    reader = SegmentReader(folder, made[number].segment_id)
    link = reader.header_at(made[number].byte).chain_crc
    found = verify(rewritten(folder, made[number], chain_crc=link ^ 1))
    bytes_of_links = {fault.byte for fault in found.faults if fault.kind == "link"}
    assert made[number].byte in bytes_of_links


def test_frames_say_what_they_build_on() -> None:
    folder, made = two_segments()
    for before, commit in pairwise(made):
        reader = SegmentReader(folder, commit.segment_id)
        header = reader.header_at(commit.byte)
        assert header.type == FrameType.BATCH
        assert header.input_upto == commit.version
        link = (before.segment_id, before.byte)
        assert (header.prev_segment, header.prev_byte) == link
    assert SegmentReader(folder, made[1].segment_id).header.prev_segment == NONE


# -- the command line -------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, list[Commit]]:
    folder, made = two_segments()
    path = tmp_path / "state" / "0" / "1"
    path.mkdir(parents=True)
    for name, data in folder.files.items():
        (path / name).write_bytes(data)
        (path / f".{name}.crc").write_bytes(b"crc")
    (path / "_metadata").mkdir()
    return path, made


def run(*arguments: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == status, result.output
    return result.output


def test_every_verb_takes_a_state_store(store: tuple[Path, list[Commit]]) -> None:
    path, made = store
    assert "sound" in run("verify", path)
    document = json.loads(run("verify", path, "--json"))
    assert (document["totals"]["versions"], document["notes"]) == (6, [])
    assert "version" in run("extent", path, "--at", 4)
    document = json.loads(run("extent", path, "--at", made[2].unique_id, "--json"))
    assert document["version"] == 2
    assert document["logs"][0]["state"]["extent"]["open_windows"] == len(made[2].state)
    rows = [json.loads(line) for line in run("replay", path, "--at", 2, "--json").splitlines()]
    assert [row["version"] for row in rows] == [1, 1, 2]
    assert rows[0] == {"version": 1, "family": 2, "key": b"old".hex(), "value": ""}
    rows = [json.loads(line) for line in run("dump", path, "--at", 3, "--json").splitlines()]
    assert {row["segment_id"] for row in rows if row["row"] == "frame"} == {made[1].segment_id}
    assert max(row["position"][0] for row in rows if row["row"] == "record") == 3


def test_the_command_line_refuses_by_name(store: tuple[Path, list[Commit]], tmp_path: Path) -> None:
    path, made = store
    for verb in ("extent", "dump", "replay"):
        assert "newest sound one is 6" in run(verb, path, "--at", 9, status=2)
        run(verb, path, "--at", "nine", status=2)
    run("replay", path, "--follow", status=2)
    with open_queue(tmp_path / "q", "x", schema=pa.schema([("n", pa.int64())])):
        pass
    for verb in ("extent", "dump", "replay"):
        run(verb, tmp_path / "q", "--at", 1, status=2)
    (path / name_of(made[1])).unlink()
    run("verify", path, status=1)
    run("extent", path, status=1)
    assert name_of(made[1]) in run("replay", path, "--at", 3, status=1)


def test_positions_are_found_by_time() -> None:
    folder, made = two_segments()
    log = log_of(folder)
    with log:
        rows = [row for b in log.replay(include_metadata=True) for row in b.to_pylist()]
        third = next(row for row in rows if row["version"] == 3)
        moment = third["_timestamp"]
        assert log.position_at(moment) == Position(third["_offset"])
        since = [row for b in log.replay(since=moment) for row in b.to_pylist()]
        assert [row["version"] for row in since] == [3, 4, 5, 6]
        assert log.position_at(moment, at=2) == Position(made[2].offset)


def test_versions_are_listed_in_time_that_grows_with_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames of a segment are gone through once, and not for each version."""
    folder, made = LocalFolder(tmp_path), EMPTY
    writer = Writer(folder, Random(3))
    for version in range(50):
        made = writer.commit(made, {(1, b"key"): b"%d" % version})
    writer.close()
    passes = []
    commits = StateSegment.commits.fget
    monkeypatch.setattr(
        StateSegment, "commits", property(lambda of: passes.append(of) or commits(of))
    )
    assert list(StateLog(folder).versions()) == list(range(1, 51))
    assert len(passes) <= 6
