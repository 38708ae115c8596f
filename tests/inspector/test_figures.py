"""Figures against a naive recount; each kind of damage named rightly, and nothing touched."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cec_store import NotAQueue, QueueOptions, RecoveryError, Targets, open_queue, set_retention
from cec_store.checkpoints.rebuild import rebuild
from cec_store.format.frame import (
    CONTINUES,
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
)
from cec_store.format.schema import RecordKind, RecordSchema
from cec_store.inspector.damage.faults import ADVICE, EFFECTS
from cec_store.inspector.decoding.records import RecordRow
from cec_store.inspector.measuring.extents import inspect_extent
from cec_store.inspector.places.places import place_at
from cec_store.inspector.places.points import PointInTime, seq_at
from cec_store.inspector.showing.dump_filter import DumpFilter
from cec_store.inspector.showing.dump_rows import DamageRow, FrameRow
from cec_store.inspector.showing.dumping import dump
from cec_store.inspector.verifying.log import verify
from cec_store.log.chain import Chain
from cec_store.log.epochs import read_manifest
from cec_store.log.frames import FrameMarks
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.storage.names import RETENTION, segment_name
from support.places import damaged_queues as made


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = made.make_operator_queue(tmp_path_factory.mktemp("sound") / "q", reopen_at=700)
    assert len(made.segments(path)) >= 4
    return path


# -- figures ----------------------------------------------------------------------------------


def naive(path: Path) -> Iterator[tuple[int, int, int, dict[str, tuple[int, int, int]]]]:
    """(end offset, N, q, key → (offset, input, timestamp)) after each frame, record by record."""
    windows: dict[str, tuple[int, int, int]] = {}
    end = 0
    pending: FrameRow | None = None
    for row in dump(made.folder_of(path)):
        if isinstance(row, RecordRow):
            if row.kind in ("OPEN", "CHECK"):
                windows[str(row.key)] = (row.offset, row.position[0], row.timestamp_us)
            elif row.kind == "RESULT":
                windows.pop(str(row.key), None)
            end = row.offset + 1
            assert pending is not None
            if end == pending.end_offset:
                oldest = min((offset for offset, _, _ in windows.values()), default=end)
                yield end, len(windows), end - oldest, dict(windows)
        elif isinstance(row, FrameRow) and row.record_count:
            pending = row


@settings(max_examples=settings.default.max_examples // 4)
@given(
    window=st.one_of(
        st.integers(1, 30).map(CountWindow),
        st.integers(2, 12).map(lambda n: CountWindow(n, max(1, n // 3))),
        st.integers(1, 30).map(lambda n: TimeWindow(n * 1_000_000_000)),
    ),
    factor=st.one_of(st.none(), st.floats(1.0, 4.0)),
    replay_rows=st.one_of(st.none(), st.integers(50, 500)),
    seed=st.integers(0, 1000),
    step_rows=st.integers(5, 200),
)
def test_extent_equals_a_naive_recount(
    tmp_path_factory: pytest.TempPathFactory, window, factor, replay_rows, seed, step_rows
) -> None:
    path = tmp_path_factory.mktemp("random") / "q"
    policy = Targets(extent_factor=factor, extent_floor=1, replay_rows=replay_rows)
    made.make_operator_queue(
        path, 600, window=window, policy=policy, seed=seed, step_rows=step_rows, reopen_at=250
    )
    *_, (end, open_windows, q, windows) = naive(path)
    report = inspect_extent(made.folder_of(path), top=1000, counts=True)
    assert report.state is not None
    extent = report.state.extent
    assert (extent.end_offset, extent.open_windows, extent.records) == (end, open_windows, q)
    shown = report.state.oldest_windows
    assert [w.offset for w in shown] == sorted(offset for offset, _, _ in windows.values())
    assert {str(w.key): (w.offset, w.position[0], w.timestamp_us) for w in shown} == windows
    upto = report.state.replay_upto[0]
    oldest_input = min((position for _, position, _ in windows.values()), default=upto)
    assert report.state.replay_rows == upto - oldest_input
    rows = [row for row in dump(made.folder_of(path)) if isinstance(row, RecordRow)]
    counts = {kind.name: sum(row.kind == kind.name for row in rows) for kind in RecordKind}
    assert report.totals.kinds == counts
    assert report.totals.records == len(rows) == end
    found = verify(made.folder_of(path))
    assert found.faults == ()
    assert found.kinds == counts
    assert found.recounted_frames == found.frames > 0


def test_headers_say_at_every_frame_what_the_records_say(sound: Path) -> None:
    headers = [row for row in dump(made.folder_of(sound)) if isinstance(row, FrameRow)]
    batches = {row.end_offset: row for row in headers if row.type == "BATCH"}
    states = list(naive(sound))
    assert len(states) == len(batches) > 30
    for end, open_windows, q, _ in states:
        assert (batches[end].open_windows, batches[end].extent_records) == (open_windows, q)


def test_age_and_amplification(sound: Path) -> None:
    report = inspect_extent(made.folder_of(sound), top=0, counts=True)
    kinds, state = report.totals.kinds, report.state
    assert kinds is not None
    assert state is not None
    assert report.totals.write_amplification == sum(kinds.values()) / kinds["RESULT"]
    assert report.totals.check_overhead == kinds["CHECK"] / (kinds["OPEN"] + kinds["RESULT"])
    assert state.oldest_windows == ()
    assert state.age_us == report.totals.last_timestamp_us - state.oldest_timestamp_us > 0
    quick = inspect_extent(made.folder_of(sound))
    assert quick.totals.kinds is None
    assert quick.totals.write_amplification is None
    assert quick.totals.records == report.totals.records


def test_a_trimmed_queue_is_sound_and_recounted_where_it_can_be(sound: Path, tmp_path) -> None:
    path = made.copy(sound, tmp_path / "q")
    with open_queue(path, "a") as queue:
        first = queue.trim(queue.end_offset)
    assert first > 0
    found = verify(made.folder_of(path))
    assert found.faults == ()
    assert found.first_offset == first
    assert 0 < found.recounted_frames <= found.frames


def test_a_queue_without_operator(tmp_path) -> None:
    schema = pa.schema([("x", pa.int64())])
    with open_queue(tmp_path / "q", "x", schema=schema) as queue:
        queue.append(pa.record_batch([pa.array([1, 2])], schema=schema), pa.array([5, 9]))
    report = inspect_extent(made.folder_of(tmp_path / "q"))
    assert (report.has_state, report.state, report.damage) == (False, None, "")
    assert report.totals.first_timestamp_us == 5
    assert report.totals.last_timestamp_us == 9
    assert verify(made.folder_of(tmp_path / "q")).is_sound


def test_an_empty_queue(tmp_path) -> None:
    made.make_operator_queue(tmp_path / "q", 0)
    assert verify(made.folder_of(tmp_path / "q")).is_sound
    report = inspect_extent(made.folder_of(tmp_path / "q"))
    assert report.state is not None
    assert report.state.extent.open_windows == 0
    assert report.totals.records == 0


def test_what_is_no_queue(tmp_path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        for look in (verify, inspect_extent, dump):
            with pytest.raises(NotAQueue):
                look(made.folder_of(path))


def test_dump_filters(sound: Path) -> None:
    def offsets(**wanted) -> list[int]:
        rows = dump(made.folder_of(sound), DumpFilter(**wanted))
        return [row.offset for row in rows if isinstance(row, RecordRow)]

    everything = [row for row in dump(made.folder_of(sound)) if isinstance(row, RecordRow)]
    assert [row.offset for row in everything] == list(range(len(everything)))
    checks = frozenset({RecordKind.CHECK})
    assert offsets(kinds=checks) == [r.offset for r in everything if r.kind == "CHECK"]
    assert offsets(since_offset=100, until_offset=250) == list(range(100, 250))
    low, high = everything[100].timestamp_us, everything[300].timestamp_us
    expected = [r.offset for r in everything if low <= r.timestamp_us < high]
    assert offsets(since_us=low, until_us=high) == expected
    frames = list(dump(made.folder_of(sound), DumpFilter(segment_id=1, records=False)))
    assert {type(row) for row in frames} == {FrameRow}
    assert {row.segment_id for row in frames} == {1}


# -- damage -----------------------------------------------------------------------------------


def sealed(path: Path) -> Path:
    return made.segment(path, 1)


def newest(path: Path) -> Path:
    return made.segments(path)[-1]


def middle(path: Path) -> int:
    """Byte of a BATCH in the middle of a segment."""
    found = made.batches(path)
    return found[len(found) // 2][0]


def body_flipped(path: Path) -> None:
    made.flip(sealed(path), middle(sealed(path)) + FRAME_HEADER_BYTES + 9)


def newest_body_flipped(path: Path) -> None:
    made.flip(newest(path), middle(newest(path)) + FRAME_HEADER_BYTES + 9)


def header_flipped(path: Path) -> None:
    made.flip(sealed(path), middle(sealed(path)) + 20)


def schema_flipped(path: Path) -> None:
    made.flip(sealed(path), SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 40)


def frames_zeroed(path: Path) -> None:
    data = bytearray(sealed(path).read_bytes())
    data[middle(sealed(path)) : middle(sealed(path)) + 3000] = bytes(3000)
    sealed(path).write_bytes(data)


def segment_header_flipped(path: Path) -> None:
    made.flip(sealed(path), 20)


def segment_removed(path: Path) -> None:
    sealed(path).unlink()


def segment_cut(path: Path) -> None:
    sealed(path).write_bytes(sealed(path).read_bytes()[: middle(sealed(path))])


def newest_cut_below_mark(path: Path) -> None:
    """The last segment loses a frame, but a mark behind it stays."""
    byte, header = made.batches(newest(path))[0]
    data = newest(path).read_bytes()
    newest(path).write_bytes(data[:byte] + data[byte + header.frame_bytes :])


def frame_left_out(path: Path) -> None:
    """Exactly one frame is taken out of a sealed segment, with all the rest in place."""
    byte, header = made.batches(sealed(path))[3]
    data = sealed(path).read_bytes()
    sealed(path).write_bytes(data[:byte] + data[byte + header.frame_bytes :])


def foreign_segment(path: Path) -> None:
    other = made.make_operator_queue(path.parent / "other", reopen_at=700)
    sealed(path).write_bytes(sealed(other).read_bytes())


def swapped_segments(path: Path) -> None:
    first, second = made.segment(path, 0).read_bytes(), sealed(path).read_bytes()
    made.segment(path, 0).write_bytes(second)
    sealed(path).write_bytes(first)


def rewritten_in_sealed(path: Path) -> None:
    made.patch_header(sealed(path), middle(sealed(path)), durable_upto=128)


def manifest_flipped(path: Path) -> None:
    made.flip(made.manifest(path), 40)


def manifest_removed(path: Path) -> None:
    made.manifest(path).unlink()


def manifest_rolled_back(path: Path) -> None:
    """A copy from before the newest segment was published."""
    known = read_manifest(made.folder_of(path))
    older = replace(known, newest_segment=known.newest_segment - 1)
    made.manifest(path).write_bytes(older.encode())


def note_removed(path: Path) -> None:
    max(path.glob("durable-*")).unlink()


def inputs_cut(path: Path) -> None:
    (path / "inputs").write_bytes(b"CECINPU\0")


def retention_flipped(path: Path) -> None:
    set_retention(path, "7d")
    made.flip(path / RETENTION, 33)


def newer_frame_type(path: Path) -> None:
    made.patch_header(newest(path), middle(newest(path)), type=9)


def newest_patched(**values: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        made.patch_header(newest(path), middle(newest(path)), **values)

    return damage


def last_frame_goes_on(path: Path) -> None:
    byte, _ = made.batches(newest(path))[-1]
    made.patch_header(newest(path), byte, flags=CONTINUES, open_windows=0, extent_records=0)


def older_epoch(path: Path) -> None:
    made.patch_segment_header(newest(path), 12, 0, 4)


def wrong_salt_link(path: Path) -> None:
    made.patch_segment_header(newest(path), 72, 12345)


def index_flipped(path: Path) -> None:
    with open_queue(path, "a") as queue:
        queue.reindex()
    (data,) = (path / "index").glob("*.mdb")
    made.flip(data, 9000)


def consumer_flipped(path: Path) -> None:
    with open_queue(path) as queue:
        queue.consumer("hourly").close()
    made.flip(path / "consumer-hourly.ack", 50)


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (body_flipped, "body-checksum"),
    (newest_body_flipped, "body-checksum"),
    (header_flipped, "frame-damaged"),
    (schema_flipped, "body-checksum"),
    (frames_zeroed, "frame-damaged"),
    (segment_header_flipped, "segment-header"),
    (segment_removed, "segment-missing"),
    (segment_cut, "segment-cut"),
    (newest_cut_below_mark, "sequence"),
    (frame_left_out, "sequence"),
    (foreign_segment, "segment-foreign"),
    (swapped_segments, "segment-foreign"),
    (rewritten_in_sealed, "chain"),
    (manifest_flipped, "manifest-damaged"),
    (manifest_removed, "manifest-missing"),
    (manifest_rolled_back, "manifest-old"),
    (note_removed, "note-old"),
    (retention_flipped, "retention-damaged"),
    (inputs_cut, "inputs-damaged"),
    (newer_frame_type, "version"),
    (newest_patched(open_windows=3), "open-windows"),
    (newest_patched(extent_records=2), "extent"),
    (newest_patched(first_offset=1), "offsets"),
    (newest_patched(seq=999), "sequence"),
    (newest_patched(prev_byte=999), "previous"),
    (newest_patched(chain_crc=0), "link"),
    (newest_patched(min_timestamp_us=1), "timestamps"),
    (newest_patched(durable_upto=2**40), "durable-mark"),
    (last_frame_goes_on, "step"),
    (newest_patched(schema_byte=500), "schema"),
    (newest_patched(input_upto=1), "inputs"),
    (newest_patched(record_count=1), "body-structure"),
    (older_epoch, "epoch"),
    (wrong_salt_link, "chain"),
    (index_flipped, "index"),
    (consumer_flipped, "consumer-damaged"),
]


OF_RECORDS = {"body-structure", "timestamps", "kinds", "inputs", "open-windows", "extent"}
"""Defects behind checksums that are right."""


@pytest.mark.parametrize(("damage", "kind"), DAMAGES)
def test_each_damage_is_found_and_named(sound: Path, tmp_path, damage, kind: str) -> None:
    path = made.copy(sound, tmp_path / "q")
    records = inspect_extent(made.folder_of(path)).totals.records
    damage(path)
    before = made.hash_of(path)
    found = verify(made.folder_of(path))
    kinds = [fault.kind for fault in found.faults]
    assert kind in kinds
    quick = [fault.kind for fault in verify(made.folder_of(path), records=False).faults]
    assert (kind in quick) is (kind not in OF_RECORDS)
    assert len(kinds) <= 8, "one damage, many faults"
    if damage in (frame_left_out, newest_cut_below_mark):
        # Each frame behind the gap names a byte that is off: the first one says it.
        assert kinds.count("previous") <= 2
    for fault in found.faults:
        assert fault.path.startswith(str(path))
        assert fault.effect
        assert fault.advice
    assert any(fault.acknowledged for fault in found.faults) is (kind != "index")
    rows = list(dump(made.folder_of(path)))
    shown = sum(isinstance(row, RecordRow) for row in rows)
    assert shown > records / 3, "the sound rest is shown"
    report = inspect_extent(made.folder_of(path))
    assert report.totals.records > records / 3
    assert made.hash_of(path) == before, "an inspection writes nothing"


def test_faults_say_which_records_are_lost(sound: Path, tmp_path) -> None:
    path = made.copy(sound, tmp_path / "q")
    body_flipped(path)
    byte, header = next(f for f in made.batches(sealed(path)) if f[0] == middle(sealed(path)))
    (fault,) = verify(made.folder_of(path)).faults
    assert (fault.byte, fault.path) == (byte, str(sealed(path)))
    assert (fault.first_offset, fault.end_offset) == (header.first_offset, header.end_offset)
    assert "does not need them" in fault.effect
    shown = [row.offset for row in dump(made.folder_of(path)) if isinstance(row, RecordRow)]
    lost = set(range(header.first_offset, header.end_offset))
    total = verify(made.folder_of(sound)).records
    assert set(range(total)) - set(shown) == lost
    damages = [row for row in dump(made.folder_of(path)) if isinstance(row, DamageRow)]
    assert [(row.path, row.byte) for row in damages] == [(fault.path, fault.byte)]


def test_damage_in_the_extent_is_said_to_cost_the_state(sound: Path, tmp_path) -> None:
    path = made.copy(sound, tmp_path / "q")
    byte, _ = made.batches(newest(path))[-1]
    made.flip(newest(path), byte + FRAME_HEADER_BYTES + 3)
    (fault,) = verify(made.folder_of(path)).faults
    assert "needs some of them" in fault.effect
    report = inspect_extent(made.folder_of(path))
    assert report.state is None
    assert str(byte) in report.damage


def test_a_torn_tail_is_a_note(sound: Path, tmp_path) -> None:
    path = made.copy(sound, tmp_path / "q")
    data = newest(path).read_bytes()
    byte, header = made.batches(newest(path))[-1]
    newest(path).write_bytes(data + data[byte : byte + header.frame_bytes - 5])
    found = verify(made.folder_of(path))
    assert found.is_sound
    (note,) = found.notes
    assert (note.path, note.byte) == (str(newest(path)), len(data))
    assert "torn tail" in note.what
    (row,) = [row for row in dump(made.folder_of(path)) if isinstance(row, DamageRow)]
    assert not row.acknowledged


def test_bytes_of_a_replaced_writer_are_a_note(sound: Path, tmp_path) -> None:
    path = made.copy(sound, tmp_path / "q")
    made.segment(path, 0).write_bytes(made.segment(path, 0).read_bytes() + b"zombie" * 50)
    found = verify(made.folder_of(path))
    assert found.is_sound
    assert ["300 bytes behind" in note.what for note in found.notes] == [True]


def test_leftovers_are_notes(sound: Path, tmp_path) -> None:
    path = made.copy(sound, tmp_path / "q")
    being_born = segment_name(len(made.segments(path)))
    for name in (being_born, "manifest-0000000009.tmp", "readme"):
        (path / name).write_bytes(b"")
    found = verify(made.folder_of(path))
    assert found.is_sound
    assert len(found.notes) == 3


def test_no_segment_is_said_to_be_removed_beside_a_manifest_that_is_too_old(
    sound, tmp_path
) -> None:
    path = made.copy(sound, tmp_path / "q")
    manifest_rolled_back(path)
    said = [
        note.what for note in verify(made.folder_of(path)).notes if str(newest(path)) == note.path
    ]
    assert said == ["a segment that the manifest does not know of; nobody removes it"]


def test_beside_a_live_writer_all_is_well(tmp_path) -> None:
    schema = pa.schema([("x", pa.int64())])
    stop = threading.Event()
    options = QueueOptions(segment_bytes=3_000, group_max_wait_ms=0.5)

    def write() -> None:
        for _ in range(3):  # lives: each seals the segment of the one before
            with open_queue(tmp_path / "q", "a", schema=schema, options=options) as queue:
                for x in range(10**9):
                    if stop.is_set() or x == 300:
                        break
                    queue.append(pa.record_batch([pa.array([x] * 20)], schema=schema))
                    if x % 100 == 99:
                        queue.trim(queue.durable_offset - 200)

    with open_queue(tmp_path / "q", "x", schema=schema):
        pass
    writer = threading.Thread(target=write)
    writer.start()
    looks = 0
    try:
        while writer.is_alive():
            assert verify(made.folder_of(tmp_path / "q")).faults == ()
            assert inspect_extent(made.folder_of(tmp_path / "q")).damage == ""
            rows = list(dump(made.folder_of(tmp_path / "q")))
            assert not any(isinstance(row, DamageRow) and row.acknowledged for row in rows)
            looks += 1
    finally:
        stop.set()
        writer.join()
    assert looks > 3
    assert verify(made.folder_of(tmp_path / "q")).is_sound


OPERATOR = RecordSchema(
    pa.schema([("n", pa.int64())]),
    key=pa.schema([("k", pa.string())]),
    state=pa.schema([("s", pa.int64())]),
    inputs=1,
)


def written(path: Path, *frames: tuple[list[tuple[int, int, str]], FrameMarks]) -> Path:
    """A queue of frames of (kind, input, key), marked as given, right or wrong."""
    parts: list[pa.RecordBatch] = []
    with open_queue(path, "x", schema=OPERATOR) as queue:
        for rows, marks in frames:
            kinds, inputs, keys = zip(*rows, strict=True)
            columns = [
                pa.array(kinds, pa.uint8()),
                pa.array([0] * len(rows), pa.timestamp("us", "UTC")),
                pa.array(inputs, pa.int64()),
                pa.array([{"k": key} for key in keys], pa.struct([("k", pa.string())])),
                pa.nulls(len(rows), pa.struct([("s", pa.int64())])),
                pa.nulls(len(rows), pa.int64()),
            ]
            parts.append(pa.RecordBatch.from_arrays(columns, schema=OPERATOR.arrow))
            if not marks.continues:
                queue.append_step(parts, marks)
                parts.clear()
    return path


OPEN, CHECK, RESULT = RecordKind.OPEN, RecordKind.CHECK, RecordKind.RESULT


@pytest.mark.parametrize(
    ("rows", "marks", "kind"),
    [
        ([(OPEN, 3, "b")], FrameMarks(2, 2, 3), None),
        ([(OPEN, 3, "b")], FrameMarks(1, 2, 3), "open-windows"),
        ([(OPEN, 3, "b")], FrameMarks(2, 1, 3), "extent"),
        ([(CHECK, 3, "a")], FrameMarks(1, 1, 3), None),
        ([(RESULT, 3, "a")], FrameMarks(0, 0, 3), None),
        ([(RESULT, 3, "a"), (OPEN, 3, "a")], FrameMarks(1, 1, 3), None),
        ([(RESULT, 3, "c")], FrameMarks(1, 2, 3), None),  # opened and closed in the frame
        ([(OPEN, 3, "b"), (RESULT, 3, "b")], FrameMarks(1, 3, 3), "kinds"),
        ([(CHECK, 3, "a"), (OPEN, 3, "b")], FrameMarks(2, 2, 3), "kinds"),
        ([(77, 3, "b")], FrameMarks(2, 2, 3), "kinds"),
        ([(OPEN, 1, "b")], FrameMarks(2, 2, 3), "inputs"),
        ([(OPEN, 9, "b")], FrameMarks(2, 2, 3), "inputs"),
    ],
)
def test_records_are_held_against_their_header(tmp_path, rows, marks, kind) -> None:
    path = written(tmp_path / "q", ([(OPEN, 2, "a")], FrameMarks(1, 1, 2)), (rows, marks))
    assert {fault.kind for fault in verify(made.folder_of(path)).faults} == {kind} - {None}
    assert verify(made.folder_of(path), records=False).is_sound


PART = FrameMarks.of_part(3)


@pytest.mark.parametrize(
    ("parts", "end", "kind"),
    [
        ([[(OPEN, 3, "b")], [(OPEN, 3, "c")]], FrameMarks(3, 3, 3), None),
        ([[(OPEN, 3, "b")], [(CHECK, 3, "a")]], FrameMarks(2, 2, 3), None),
        ([[(RESULT, 3, "a")], [(RESULT, 3, "c")]], FrameMarks(0, 0, 3), None),
        ([[(CHECK, 3, "a")], [(OPEN, 3, "c")]], FrameMarks(2, 2, 3), "kinds"),
        ([[(OPEN, 3, "b")], [(RESULT, 3, "a")]], FrameMarks(1, 2, 3), "kinds"),
        ([[(OPEN, 3, "b")], [(OPEN, 3, "c")]], FrameMarks(2, 3, 3), "open-windows"),
    ],
)
def test_records_of_a_step_are_held_against_its_last_header(tmp_path, parts, end, kind) -> None:
    frames = [(rows, PART) for rows in parts[:-1]] + [(parts[-1], end)]
    path = written(tmp_path / "q", ([(OPEN, 2, "a")], FrameMarks(1, 1, 2)), *frames)
    found = verify(made.folder_of(path))
    assert {fault.kind for fault in found.faults} == {kind} - {None}
    assert found.recounted_frames == 2
    with open_queue(path) as queue, pytest.raises(RecoveryError, match="goes on in the next"):
        queue.rebuild(at=1)


def test_a_point_within_a_step_is_the_end_of_the_step_before(tmp_path) -> None:
    steps = [([(OPEN, 2, "a")], FrameMarks(1, 1, 2))]
    steps += [([(OPEN, 3, key)], PART) for key in "bc"]
    steps += [([(OPEN, 3, "d")], FrameMarks(4, 4, 3))]
    folder = made.folder_of(written(tmp_path / "q", *steps))
    for offset, windows in ((1, 1), (2, 1), (3, 1), (4, 4)):
        point = PointInTime(str(offset), offset=offset)
        place = place_at(tmp_path / "q")
        seq = seq_at(place, Chain(folder), point)
        assert rebuild(Chain(folder), seq).open_windows == windows


def test_every_kind_of_fault_has_its_words_and_was_seen() -> None:
    seen = {kind for _, kind in DAMAGES} | {"kinds"}
    of_places = {kind for kind in ADVICE if kind.startswith("spark-")} | {
        "log-missing",
        "commit-record",
        "commit-missing",
        "commit-damaged",
        "version-missing",
        "state-file-missing",
        "state-file-damaged",
        "rows",
        "unreadable",
        "key-directory",
    }  # those of inspector/test_verify.py, test_reference_queues.py, test_built_in.py,
    # test_verify_key_directories.py and storage/test_permissions.py
    assert seen | of_places == set(ADVICE) == set(EFFECTS)
    assert not seen & of_places
    assert len(DAMAGES) >= 20
