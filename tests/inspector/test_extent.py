"""`cec-store extent` on every kind of place, against recounts in plain Python."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cec_store import Targets
from cec_store.cli import app
from cec_store.format.schema import RecordKind
from cec_store.inspector.decoding.records import RecordRow
from cec_store.inspector.measuring import oldest_footprints
from cec_store.inspector.measuring.crash_costs import (
    LoadRates,
    LogLoad,
    calibrate,
    rates_as_text,
    rates_of_text,
    restart_cost,
)
from cec_store.inspector.measuring.extents import (
    OperatorState,
    extent_of,
    inspect_extent,
    reader_at,
)
from cec_store.inspector.showing.dump_filter import DumpFilter
from cec_store.inspector.showing.dump_rows import FrameRow
from cec_store.inspector.showing.dumping import dump
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.state_logs.tree import StateTree
from cec_store.storage.local import LocalFolder
from support.command_line import json_schemas
from support.disks.memory_folder import MemoryFolder
from support.places import damaged_queues as made
from support.places.made_checkpoints import START_MS, MadeCheckpoint
from support.places.partitioned_queues import commit, rows
from support.places.state_logs import grow

Frames = list[tuple[FrameRow, list[RecordRow]]]


def frames_of(folder: Any, at: Any = None) -> Frames:
    """Frames with their records, in the order of the log."""
    found: Frames = []
    for row in dump(folder, DumpFilter(at=at)):
        if isinstance(row, FrameRow) and row.type == "BATCH":
            found.append((row, []))
        elif isinstance(row, RecordRow):
            found[-1][1].append(row)
    return found


def assert_recounted(state: OperatorState, frames: Frames, top: int) -> None:
    """Every figure, from plain dictionaries over all records."""
    footprints: dict[str, RecordRow] = {}
    for _, records in frames:
        for row in records:
            if row.kind in ("OPEN", "CHECK"):
                footprints[json.dumps(row.key)] = row
            elif row.kind == "RESULT":
                footprints.pop(json.dumps(row.key), None)
    end = frames[-1][0].end_offset if frames else 0
    windows = sorted(footprints.values(), key=lambda row: row.offset)
    first = windows[0].offset if windows else end
    in_extent = [frame for frame, _ in frames if windows and frame.end_offset > first]
    extent = state.extent
    assert (extent.open_windows, extent.records) == (len(windows), end - first)
    assert (extent.first_offset, extent.end_offset) == (first, end)
    if windows:
        assert extent.frames == len(in_extent)
        assert extent.bytes == sum(frame.frame_bytes for frame in in_extent)
        assert extent.segments == len({frame.segment_id for frame in in_extent})
        assert state.raw_bytes == sum(frame.raw_bytes for frame in in_extent)
        assert state.oldest_timestamp_us == windows[0].timestamp_us
        assert state.replay_from == windows[0].position
    nexts = [row.offset for row in windows[1:]] + [end]
    upto = sum(state.replay_upto)
    assert [
        (w.key, w.state, w.kind, w.renewed, w.offset, w.timestamp_us, w.position)
        for w in state.oldest_windows
    ] == [
        (row.key, row.state, row.kind, row.renewed, row.offset, row.timestamp_us, row.position)
        for row in windows[:top]
    ]
    assert [w.records_back for w in state.oldest_windows] == [
        end - row.offset for row in windows[:top]
    ]
    assert [w.records_freed for w in state.oldest_windows] == [
        after - row.offset for row, after in zip(windows[:top], nexts, strict=False)
    ]
    assert [w.replay_rows for w in state.oldest_windows] == [
        upto - sum(row.position) for row in windows[:top]
    ]
    assert state.replay_rows == (upto - sum(windows[0].position) if windows else 0)


@settings(max_examples=settings.default.max_examples // 4)
@given(
    slide=st.integers(1, 12),
    factor=st.one_of(st.none(), st.floats(1.0, 4.0)),
    seed=st.integers(0, 1000),
    top=st.integers(0, 50),
)
def test_a_queue_is_recounted_at_each_frame(
    tmp_path_factory: pytest.TempPathFactory, slide: int, factor, seed: int, top: int
) -> None:
    path = tmp_path_factory.mktemp("random") / "q"
    made.make_operator_queue(
        path, 300, window=CountWindow(12, slide), seed=seed, reopen_at=140, step_rows=25,
        policy=Targets(extent_factor=factor, extent_floor=1),
    )  # fmt: skip
    frames = frames_of(made.folder_of(path))
    for count in range(1, len(frames) + 1, 3):
        last, _ = frames[count - 1]
        report = inspect_extent(made.folder_of(path), at=last.seq, top=top)
        assert report.state is not None, report.damage
        assert_recounted(report.state, frames[:count], top)


@settings(max_examples=settings.default.max_examples // 3)
@given(st.integers(0, 2**32), st.integers(0, 8))
def test_a_state_store_is_recounted_at_each_version(seed: int, top: int) -> None:
    folder = MemoryFolder({})
    grown = grow(folder, Random(seed))
    for version in list(grown.versions())[::3]:
        report = inspect_extent(folder, at=version, top=top)
        assert report.state is not None
        assert_recounted(report.state, frames_of(folder, version), top)


@pytest.mark.parametrize("keys_max", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("keys_first", [1, 2])
def test_few_keys_remembered_take_more_passes_to_the_same(
    monkeypatch, keys_first: int, keys_max: int
) -> None:
    monkeypatch.setattr(oldest_footprints, "KEYS_MAX", keys_max)
    monkeypatch.setattr(oldest_footprints, "_KEYS_FIRST", keys_first)
    monkeypatch.setattr(oldest_footprints, "_SLICE_ROWS", 3)
    for seed in range(12):
        folder = MemoryFolder({})
        versions = grow(folder, Random(seed)).versions()
        report = inspect_extent(folder, at=max(versions), top=100)
        assert report.state is not None
        assert_recounted(report.state, frames_of(folder, max(versions)), 100)


@pytest.mark.parametrize("name", ["open_windows", "extent_records"])
def test_footprints_that_do_not_add_up_are_damage(tmp_path: Path, name: str) -> None:
    path = made.make_operator_queue(tmp_path / "q")
    newest = made.segments(path)[-1]
    byte, header = made.batches(newest)[-1]
    made.patch_header(newest, byte, **{name: getattr(header, name) - 1})
    report = inspect_extent(made.folder_of(path))
    assert report.state is None
    assert "open windows" in report.damage


def test_of_a_queue_a_moment_is_the_last_frame_before_it(tmp_path: Path) -> None:
    path = made.make_operator_queue(tmp_path / "q", 600)
    frames = [frame for frame, _ in frames_of(made.folder_of(path))]
    before, after = frames[3:5]
    for at in (after.min_timestamp_us, f"@{after.end_offset - 1}", f"@{before.end_offset}"):
        (log,) = document_of(path, "--at", at)["logs"]
        assert log["state"]["extent"]["end_offset"] == before.end_offset
    for at in (0, f"@{frames[0].end_offset - 1}", f"@{10**9}", "0" * 16 + "-" + "0" * 16 + "-0"):
        run(path, "--at", at, status=2)


# -- what a crash costs -----------------------------------------------------------------------


def test_a_load_costs_what_its_parts_cost() -> None:
    rates = LoadRates(1e6, 2e6, 1e3, 10.0, 0.5)
    assert rates.load_s(3_000_000, 8_000_000, 500) == pytest.approx(0.5 + 3 + 4 + 0.5)
    assert rates_of_text(rates_as_text(rates)) == rates, "a guess stays one"
    measured = replace(rates, source="calibrated", fixed_source="remembered")
    assert rates_of_text(rates_as_text(measured)) == replace(
        rates, source="remembered", fixed_source="remembered"
    )
    for text in ("", "[]", "{}", rates_as_text(LoadRates(0)), rates_as_text(rates)[:-9]):
        assert rates_of_text(text) is None


def test_partitions_load_on_the_cores_that_there_are() -> None:
    rates = LoadRates(fixed_s=0.05)
    stores = [LogLoad(0, partition, 0, 0, 0) for partition in range(200)]
    cost = restart_cost(stores, rates, 4)
    assert (cost.load_s, cost.cores) == (pytest.approx(200 * 0.05 / 4), 4)
    assert restart_cost(stores, rates, 1000).cores == 200
    join = [LogLoad(0, partition, 0, 0, 0) for partition in (0, 0, 0, 0, 1, 1, 1, 1)]
    assert restart_cost(join, rates, 8).load_s == pytest.approx(4 * 0.05), "a task loads all four"
    slow = [*stores[:3], LogLoad(0, 3, 500e6, 0, 0, 4_000_000)]
    cost = restart_cost(slow, rates, 4)
    assert (cost.load_s, cost.replay_s) == (pytest.approx(1.05), 2.0), "the longest decides"
    after = [*stores, LogLoad(1, 0, 0, 0, 0)]
    assert restart_cost(after, rates, 200).load_s == pytest.approx(0.1), "operators follow"


def test_calibration_times_an_extent(tmp_path: Path) -> None:
    path = made.make_operator_queue(
        tmp_path / "q", 30_000, window=CountWindow(20, 1), step_rows=900
    )
    log_reader, last = reader_at(made.folder_of(path))
    rates = calibrate(log_reader, extent_of(log_reader, last))
    assert rates is None, "too little to be timed"
    frames = list(log_reader.frames())
    rates = calibrate(log_reader, frames, seconds_max=0.2)
    assert rates is not None
    assert rates.source == "calibrated"
    assert 1e5 < rates.decode_bytes_per_s < 1e12
    assert 1e3 < rates.decide_records_per_s < 1e10


# -- the command line -------------------------------------------------------------------------

KEY = pa.struct([("plane", pa.string()), ("day", pa.int64())])
VALUE = pa.struct([("flights", pa.int64())])


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return Path(folder)


@pytest.fixture
def checkpoint(tmp_path: Path) -> MadeCheckpoint:
    """Two stores in three partitions, with keys put, put again and removed over 12 batches."""
    random = Random(7)
    query = MadeCheckpoint(
        tmp_path / "c", KEY, VALUE, stores=("left-keyToNumValues", "right-keyToNumValues"),
        partitions=3,
    )  # fmt: skip
    for batch in range(12):
        changes: list[dict] = []
        for partition in range(3):
            keys = {(f"N{random.randrange(30)}", partition) for _ in range(random.randrange(9))}
            values = [None if random.random() < 0.3 else (random.randrange(99),) for _ in keys]
            changes.append(dict(zip(sorted(keys), values, strict=True)))
        query.batch(*changes, renew=random.randrange(3))
        if batch == 6:
            query.roll()
    query.close()
    return query


def run(path: Path, *options: Any, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["extent", str(path), *map(str, options)])
    assert result.exit_code == status, result.output
    return result.output


def document_of(path: Path, *options: Any, status: int = 0) -> dict[str, Any]:
    before = made.hash_of(path)
    found = json.loads(run(path, *options, "--json", status=status))
    assert made.hash_of(path) == before, "reading writes nothing"
    json_schemas.check("extent", found)
    return dict(found)


def test_a_checkpoint_is_recounted_log_by_log_and_altogether(checkpoint: MadeCheckpoint) -> None:
    found = document_of(checkpoint.path, "--top", 7, "--counts", "--what-if", "Q=2x", "--cores", 3)
    assert (found["kind"], found["version"], found["sound"]) == ("checkpoint", 12, True)
    assert found["batch_timestamp_us"] == (START_MS + 11 * 60_000) * 1000
    logs = found["logs"]
    assert len(logs) == 6
    oldest_windows = []
    for log in logs:
        folder = LocalFolder(log["path"])
        state = inspect_extent(folder, at=12, top=100).state
        assert state is not None
        frames = frames_of(folder, 12)
        assert_recounted(state, frames, 100)
        assert log["state"]["extent"]["records"] == state.extent.records
        records = [row for _, each in frames for row in each]
        renewed = sum(bool(row.renewed) for row in records)
        assert log["totals"]["renewed"] == renewed
        assert log["totals"]["kinds"] == {
            kind: sum(row.kind == kind for row in records) for kind in RecordKind.__members__
        }
        assert log["totals"]["write_amplification"] == len(records) / (len(records) - renewed)
        oldest_windows += [(w.timestamp_us, log["name"], w.offset) for w in state.oldest_windows]
        for shown in log["state"]["oldest_windows"]:
            assert set(shown["key"]) == {"plane", "day"}
            assert shown["key"]["day"] == log["partition"]
    shown = [(w["timestamp_us"], w["log"], w["offset"]) for w in found["oldest_windows"]]
    order = {log["name"]: place for place, log in enumerate(logs)}
    assert shown == sorted(oldest_windows, key=lambda w: (w[0], order[w[1]], w[2]))[:7]
    totals = found["totals"]
    for name, part in (("open_windows", "open_windows"), ("extent_records", "records"),
                       ("extent_frames", "frames"), ("extent_bytes", "bytes"),
                       ("extent_segments", "segments")):  # fmt: skip
        assert totals[name] == sum(log["state"]["extent"][part] for log in logs)
    assert totals["load_s"] == pytest.approx(
        sum(log["state"]["load_s"] for log in logs) / totals["cores"], rel=1e-3
    )
    assert totals["what_if"][1]["target"] == "Q=2x"
    text = run(checkpoint.path, "--top", 2)
    assert "operator 0 (join), partition 2, right-keyToNumValues" in text
    assert text.count("\n") < 30


def test_a_checkpoint_at_a_version_or_moment(checkpoint: MadeCheckpoint) -> None:
    moment_us = (START_MS + 4 * 60_000) * 1000 + 5
    for options in (("--version", 5), ("--at", 5), ("--at", "2023-11-14T22:17:20.5Z")):
        found = document_of(checkpoint.path, *options)
        assert found["version"] == 5
        assert {log["version"] for log in found["logs"]} == {5}
        assert found["batch_timestamp_us"] <= moment_us
    run(checkpoint.path, "--at", "1999-01-01", status=2)
    run(checkpoint.path, "--at", "@5", status=2)
    run(checkpoint.path, "--at", 5, "--version", 5, status=2)


def test_one_lost_log_does_not_hide_the_others(checkpoint: MadeCheckpoint) -> None:
    folder = checkpoint.folder(1, checkpoint.stores[0])
    for segment in folder.glob("*.seg"):
        segment.write_bytes(segment.read_bytes()[:100] + b"x" + segment.read_bytes()[101:])
    found = document_of(checkpoint.path, status=1)
    assert found["totals"]["damaged_logs"] == 1
    assert [log["sound"] for log in found["logs"]].count(False) == 1
    assert sum(log["state"] is not None for log in found["logs"]) == 5
    assert "damaged: operator 0 (join), partition 1" in run(checkpoint.path, status=1)


def test_a_store_whose_folder_is_lost_does_not_hide_the_others(tmp_path: Path) -> None:
    query = MadeCheckpoint(tmp_path / "c", KEY, VALUE, format=2, partitions=3)
    query.batch({("N1", 1): (1,)}, {("N2", 2): (2,)}, {("N3", 3): (3,)})
    query.close()
    shutil.rmtree(query.folder(1))
    found = document_of(query.path, status=1)
    assert [log["sound"] for log in found["logs"]] == [True, False, True]
    assert [log["state"] is None for log in found["logs"]] == [False, True, False]


@pytest.mark.parametrize("name", ["metadata", "offsets/11", "commits/11"])
def test_damaged_files_of_spark_do_not_hide_the_logs(tmp_path: Path, name: str) -> None:
    query = MadeCheckpoint(tmp_path / "c", KEY, VALUE, format=2)
    for _ in range(12):
        query.batch({("N1", 1): (1,)}, {("N2", 2): (2,)})
    query.close()
    (query.path / name).write_text("v1\n{")
    found = document_of(query.path, status=1)
    (fault,) = found["faults"]
    assert name in fault
    assert [log["version"] for log in found["logs"]] == [12, 12]
    assert found["oldest_windows"][0]["key"] == {"plane": "N1", "day": 1}


def test_keys_that_cannot_be_decoded_are_shown_as_stored(checkpoint: MadeCheckpoint) -> None:
    for file in (checkpoint.path / "state").rglob("schema"):
        file.write_bytes(b"no schema")
    found = document_of(checkpoint.path, status=1)
    assert set(found["oldest_windows"][0]["key"]) == {"family", "key"}
    assert found["totals"]["damaged_logs"] == 0
    assert found["faults"]


def test_a_state_store_alone(checkpoint: MadeCheckpoint) -> None:
    path = checkpoint.folder(2, checkpoint.stores[1])
    found = document_of(path, "--at", 4)
    assert (found["kind"], found["version"]) == ("state store", 4)
    assert set(found["oldest_windows"][0]["key"]) == {"plane", "day"}
    run(path, "--what-if", "U=5", status=2)
    run(path, "--at", 99, status=2)
    run(path, "--at", "2013-01-01", status=2)
    assert re.search(r"target +not recorded", run(path))


def test_a_partitioned_queue_has_a_line_for_each_partition(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    commit(path, 0, {0: rows(0, 3), 1: rows(10, 4)})
    found = document_of(path)
    assert (found["kind"], found["sound"]) == ("partitioned queue", True)
    assert [log["name"] for log in found["logs"]] == ["partition 0", "partition 1"]
    assert [log["totals"]["records"] for log in found["logs"]] == [3, 4]
    assert not any(log["has_state"] for log in found["logs"])
    assert "partition 1" in run(path)
    run(path, "--at", "@3", status=2)


def test_an_operators_queue(tmp_path: Path, cache: Path) -> None:
    path = made.make_operator_queue(tmp_path / "q")
    found = document_of(path, "--what-if", "Q=60", "--what-if", "Q=2x,U=100")
    (log,) = found["logs"]
    assert (found["kind"], found["version"], log["name"]) == ("queue", None, "")
    assert [each["target"] for each in log["what_if"]] == ["recorded", "Q=60", "Q=2x,U=100"]
    assert log["what_if"][1]["extent_max"] <= 60
    early = document_of(path, "--at", "@200")
    assert early["logs"][0]["state"]["extent"]["end_offset"] <= 200
    run(path, "--version", 3, status=2)
    run(path, "--what-if", "Q=oops", status=2)
    assert found["rates"]["source"] == "default"
    assert "guess" in run(path)
    (cache / "cec-store").mkdir()
    (cache / "cec-store" / "rates.json").write_text(
        rates_as_text(LoadRates(1.0, 1.0, 1.0, 1.0, 1.0, "calibrated", "calibrated"))
    )
    found = document_of(path)
    assert found["rates"]["source"] == "remembered"
    assert found["logs"][0]["state"]["load_s"] > 1000
    assert "earlier --calibrate" in run(path)


def test_a_calibration_is_kept_for_later_calls(tmp_path: Path, cache: Path) -> None:
    path = made.make_operator_queue(
        tmp_path / "q", 40_000, window=CountWindow(20, 1), step_rows=2000,
        policy=Targets(extent_factor=None), segment_bytes=1 << 20,
    )  # fmt: skip
    found = document_of(path, "--calibrate", "--quick")
    assert found["rates"]["source"] == "calibrated"
    again = document_of(path, "--quick")["rates"]
    assert again == {**found["rates"], "source": "remembered", "fixed_source": "remembered"}
    small = made.make_operator_queue(tmp_path / "small")
    rates = document_of(small, "--calibrate")["rates"]
    assert (rates["source"], rates["fixed_source"]) == ("remembered", "calibrated")
    assert rates["read_bytes_per_s"] == again["read_bytes_per_s"], "of the larger log"
    (cache / "cec-store" / "rates.json").write_text("{")
    assert document_of(path, "--quick")["rates"]["source"] == "default"


def test_a_small_log_says_what_opening_costs(tmp_path: Path) -> None:
    path = made.make_operator_queue(tmp_path / "q")
    text = run(path, "--calibrate")
    assert "to open a log: measured on this machine just now" in text
    assert "by a guess" in text, "the bytes were too few to be timed"
    rates = document_of(path)["rates"]
    assert (rates["source"], rates["fixed_source"]) == ("default", "remembered")
    assert 1e-6 <= rates["fixed_s"] < 0.5


def test_the_last_restart_is_told(tmp_path: Path) -> None:
    """A driver begins segments in all partitions; one that is full, in one."""
    query = MadeCheckpoint(tmp_path / "c", KEY, VALUE)
    for batch in range(9):
        if batch == 5:
            query.roll()
        if batch == 8:
            query.roll(1)
        query.batch({("N1", 1): (batch,)}, {("N2", 2): (batch,)})
    query.close()
    commits_us = {
        frame.header.input_upto: frame.header.max_timestamp_us
        for partition in (0, 1)
        for segment_id in StateTree(LocalFolder(query.folder(partition))).ids
        for frame in StateTree(LocalFolder(query.folder(partition))).segment(segment_id).frames
    }
    for batch in range(9):
        took_us = 3_200_000 if batch == 5 else 400_000
        about = {"batchTimestampMs": (commits_us[batch + 1] - took_us) // 1000, "conf": {}}
        (query.path / "offsets" / str(batch)).write_text(f"v1\n{json.dumps(about)}\n0")
    last = document_of(query.path)["last_restart"]
    assert last == {
        "batch": 5,
        "committed_us": commits_us[6],
        "first_batch_s": pytest.approx(3.2, abs=0.01),
        "later_batch_s": pytest.approx(0.4, abs=0.01),
    }
    assert "the last restart: batch 5" in run(query.path)
    assert document_of(query.path, "--version", 5)["last_restart"] is None


@pytest.mark.parametrize("partitions", [1, 2])
def test_segments_of_a_batch_each_are_no_restarts(tmp_path: Path, partitions: int) -> None:
    """All logs begin one where a commit is an object, and a lone log where one is full."""
    query = MadeCheckpoint(tmp_path / "c", KEY, VALUE, partitions=partitions)
    for batch in range(6):
        if partitions == 2 or batch == 4:
            query.roll()
        query.batch(*({("N1", 1): (batch,)} for _ in range(partitions)))
    query.close()
    assert document_of(query.path)["last_restart"] is None


def test_a_restart_that_damage_ends_is_not_told_to_be_short(checkpoint: MadeCheckpoint) -> None:
    for segment in made.segments(checkpoint.folder(1, "left-keyToNumValues")):
        made.flip(segment, 20)
    found = document_of(checkpoint.path, status=1)["totals"]
    assert (found["load_s"], found["replay_s"], found["cores"]) == (None, None, None)
    alone = MadeCheckpoint(checkpoint.path.parent / "alone", KEY, VALUE, partitions=1)
    alone.batch({("N1", 1): (1,)})
    alone.close()
    (alone.path / "metadata").write_text("{")
    assert document_of(alone.path, status=1)["totals"]["load_s"] is None
    for path in (checkpoint.path, alone.path):
        text = run(path, status=1)
        assert "a restart fails before it has loaded all" in text
        assert " to load" not in text


@pytest.mark.parametrize("kind", ["variant", "interval"])
def test_types_that_are_not_decoded_are_notes(checkpoint: MadeCheckpoint, kind: str) -> None:
    about = {"type": "struct", "fields": [{"name": "v", "type": kind, "nullable": True,
                                           "metadata": {}}]}  # fmt: skip
    for store in checkpoint.stores:
        checkpoint.put_schema(json.dumps(about), json.dumps(about), store)
    found = document_of(checkpoint.path)
    assert (found["sound"], found["faults"]) == (True, [])
    assert len(found["notes"]) == len(checkpoint.stores)
    assert kind in found["notes"][0]
    assert set(found["oldest_windows"][0]["key"]) == {"family", "key"}
    assert f"note: {found['notes'][0]}" in run(checkpoint.path)
    report = CliRunner().invoke(app, ["report", str(checkpoint.path), "--json"])
    said = json.loads(report.stdout)
    json_schemas.check("report", said)
    assert (said["sound"], said["verified"], said["notes"]) == (True, True, found["notes"])
