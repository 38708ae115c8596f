"""What headers say over a whole log, and how windows differ: against records taken one by one."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from cec_store import Targets
from cec_store.connectors.spark.checkpoint.state_rows import decoder_of
from cec_store.inspector.decoding.records import RecordDecoder, RecordRow
from cec_store.inspector.measuring import log_history
from cec_store.inspector.measuring.extents import inspect_extent
from cec_store.inspector.measuring.footprint_statistics import (
    FootprintStatistics,
    footprint_statistics,
)
from cec_store.inspector.measuring.log_history import read_log_history
from cec_store.inspector.showing.dump_rows import FrameRow
from cec_store.inspector.showing.dumping import dump
from cec_store.log.chain import Chain
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.state_logs.state_log import StateLog
from support.places import damaged_queues as made
from support.places.made_checkpoints import MadeCheckpoint, Rows
from support.places.reported_places import KEY, VALUE, grown


def naive(path: Path) -> tuple[dict[str, list[int]], list[int], int]:
    """By key of the open windows offset, changes, renewals; lifetimes; and q. Record by record."""
    rows: list[RecordRow] = []
    q = 0
    for row in dump(made.folder_of(path)):
        # Of an operator's CHECKs each says only again what an earlier one said; Spark's say which.
        if isinstance(row, FrameRow) and row.type == "BATCH":
            q = row.extent_records
        elif isinstance(row, RecordRow):
            rows.append(row)
    first = rows[-1].offset + 1 - q
    windows: dict[str, list[int]] = {}
    opened: dict[str, int] = {}
    lifetimes: list[int] = []
    for row in rows:
        key = str(row.key)
        if row.offset < first or row.kind == "DATA":
            continue
        if row.kind == "RESULT":
            windows.pop(key, None)
            if key in opened:
                lifetimes.append(row.offset - opened.pop(key))
            continue
        if row.kind == "OPEN":
            opened[key] = row.offset
        found = windows.setdefault(key, [0, 0, 0])
        found[0] = row.offset
        renewed = row.kind == "CHECK" if row.renewed is None else row.renewed
        found[2 if renewed else 1] += 1
    return windows, lifetimes, q


def as_dict(found: FootprintStatistics) -> dict[str, list[int]]:
    keys = RecordDecoder(None).keys(found.keys())
    columns = zip(
        found.offsets.tolist(), found.updates.tolist(), found.renewals.tolist(), strict=True
    )
    return {str(key): [*row] for key, row in zip(keys, columns, strict=True)}


def check(path: Path, found: FootprintStatistics) -> None:
    windows, lifetimes, q = naive(path)
    assert len(windows) > 3
    assert as_dict(found) == windows
    assert sorted(found.lifetimes.tolist()) == sorted(lifetimes)
    assert found.ages.max() == q
    assert (np.diff(found.offsets) > 0).all()


@pytest.mark.parametrize("rows_at_a_time", [1, 50, 1 << 15])
@pytest.mark.parametrize(
    "window", [CountWindow(3), TimeWindow(3600 * 10**6)], ids=["count", "time"]
)
@pytest.mark.parametrize("factor", [1.5, 40.0])
def test_footprints_of_a_queue_are_those_counted_one_by_one(
    tmp_path: Path, monkeypatch, window: Any, factor: float, rows_at_a_time: int
) -> None:
    monkeypatch.setattr(
        "cec_store.inspector.measuring.footprint_statistics._ROWS_AT_A_TIME", rows_at_a_time
    )
    policy = Targets(extent_factor=factor, extent_floor=1)
    path = made.make_operator_queue(tmp_path / "q", 700, window=window, policy=policy)
    chain = Chain(made.folder_of(path))
    last = chain.last()
    assert last is not None
    found = footprint_statistics(chain, last)
    check(path, found)
    if factor > 2:
        assert len(found.lifetimes) > 5, "windows come and go within the extent"


@pytest.mark.parametrize("rows_at_a_time", [1, 1 << 15])
def test_footprints_of_a_state_store_are_those_counted_one_by_one(
    tmp_path: Path, monkeypatch, rows_at_a_time: int
) -> None:
    monkeypatch.setattr(
        "cec_store.inspector.measuring.footprint_statistics._ROWS_AT_A_TIME", rows_at_a_time
    )
    random, made_here = Random(8), MadeCheckpoint(tmp_path, KEY, VALUE, partitions=1)
    for batch in range(12):
        names = [(f"user {random.randrange(12)}", 1) for _ in range(6)]
        rows: Rows = {key: None if random.random() < 0.3 else (batch, "") for key in names}
        made_here.batch(rows, renew=2)
    made_here.close()
    log_reader = StateLog(made.folder_of(made_here.folder(0))).version_reader()
    found = footprint_statistics(log_reader, log_reader.last_frame)
    check(made_here.folder(0), found)
    assert found.renewals.sum() > 5
    assert found.updates.max() > 1
    decoder = decoder_of(made.folder_of(made_here.folder(0)))
    keys = RecordDecoder(decoder).keys(found.keys([0, 1]))
    assert [key["page"] for key in keys] == [1, 1]
    assert all(key["user"].startswith("user ") for key in keys)


def test_of_very_many_windows_a_sample_tells_the_same(tmp_path: Path, monkeypatch) -> None:
    path = made.make_operator_queue(
        tmp_path / "q", 6000, window=CountWindow(40, 2), policy=Targets(extent_factor=3.0)
    )
    chain = Chain(made.folder_of(path))
    last = chain.last()
    assert last is not None
    whole = footprint_statistics(chain, last)
    monkeypatch.setattr("cec_store.inspector.measuring.footprint_statistics.WINDOWS_MAX", 100)
    monkeypatch.setattr("cec_store.inspector.measuring.footprint_statistics._OLDEST", 5)
    part = footprint_statistics(chain, last)
    assert 50 < len(part.offsets) < 150 < len(whole.offsets) == part.open_windows
    assert part.weight * len(part.offsets) == pytest.approx(whole.open_windows)
    assert part.offsets[:5].tolist() == whole.offsets[:5].tolist(), "the oldest are all there"
    assert part.replay_rows[0] == whole.replay_rows[0]
    everything = as_dict(whole)
    assert all(everything[key] == row for key, row in as_dict(part).items())
    assert abs(np.median(part.ages) / np.median(whole.ages) - 1) < 0.5


# -- history ----------------------------------------------------------------------------------


def frames_of(path: Path) -> list[FrameRow]:
    rows = (row for row in dump(made.folder_of(path)) if isinstance(row, FrameRow))
    return [row for row in rows if row.type == "BATCH"]


def test_a_short_history_is_every_frame(tmp_path: Path) -> None:
    path = made.make_operator_queue(tmp_path / "q", 900)
    found, frames = read_log_history(made.folder_of(path)), frames_of(path)
    assert [s.number for s in found.buckets] == [row.seq for row in frames]
    assert [s.extent_high for s in found.buckets] == [row.extent_records for row in frames]
    assert [s.extent_low for s in found.buckets] == [row.extent_records for row in frames]
    assert [s.open_windows for s in found.buckets] == [row.open_windows for row in frames]
    assert [s.bytes for s in found.buckets] == [row.frame_bytes for row in frames]
    assert (found.frames, found.damage) == (len(frames), [])
    assert found.bytes == sum(path.stat().st_size for path in made.segments(path))


def test_a_long_history_keeps_what_sticks_out(tmp_path: Path, monkeypatch) -> None:
    path = made.make_operator_queue(tmp_path / "q", 1500, step_rows=10)
    frames = frames_of(path)
    monkeypatch.setattr(log_history, "BUCKETS_MAX", 16)
    found = read_log_history(made.folder_of(path))
    assert len(frames) > 100
    assert 8 <= len(found.buckets) <= 16
    assert found.shift > 2
    assert sum(s.bytes for s in found.buckets) == sum(row.frame_bytes for row in frames)
    assert sum(s.records for s in found.buckets) == found.records
    for bucket in found.buckets:
        here = [r for r in frames if r.seq >> found.shift == bucket.number >> found.shift]
        assert bucket.extent_low == min(row.extent_records for row in here)
        assert bucket.extent_high == max(row.extent_records for row in here)
        assert bucket.open_windows == here[-1].open_windows
        assert bucket.number == here[-1].seq


def test_what_a_restart_reads_of_each_segment_adds_up_to_the_extent(tmp_path: Path) -> None:
    path = made.make_operator_queue(tmp_path / "q", 900, policy=Targets(extent_factor=6.0))
    chain = Chain(made.folder_of(path))
    last = chain.last()
    assert last is not None
    extent_from = last.header.end_offset - last.header.extent_records
    found = read_log_history(chain.folder, chain, last, extent_from)
    state = inspect_extent(made.folder_of(path)).state
    assert state is not None
    assert state.extent.segments > 1
    assert sum(use.extent_bytes for use in found.segments) == state.extent.bytes
    assert sum(use.extent_records for use in found.segments) == state.extent.records
    assert sum(use.extent_bytes > 0 for use in found.segments) == state.extent.segments


def test_an_attempt_that_was_given_up_is_no_part_of_the_history(tmp_path: Path) -> None:
    checkpoint = grown(tmp_path / "c", partitions=1)
    folder = made.folder_of(checkpoint.folder(0))
    log_reader = StateLog(folder).version_reader()
    before = read_log_history(folder, log_reader)
    checkpoint.attempt(0, {("nobody", 0): (1, "")})
    after = read_log_history(folder, StateLog(folder).version_reader(checkpoint.batches))
    # With checkpoint format V1 the latest attempt counts: the one that it replaces is given up.
    assert [s.number for s in after.buckets] == [s.number for s in before.buckets]
    assert sum(use.abandoned_bytes for use in after.segments) > 0
    assert sum(use.abandoned_bytes for use in before.segments) == 0


def test_what_was_written_after_a_version_has_not_been_given_up(tmp_path: Path) -> None:
    checkpoint = grown(tmp_path / "c", partitions=1)
    folder = made.folder_of(checkpoint.folder(0))
    log_reader = StateLog(folder).version_reader(3)
    found = read_log_history(folder, log_reader, log_reader.last_frame)
    assert [s.number for s in found.buckets] == [1, 2, 3]
    assert sum(use.abandoned_bytes for use in found.segments) == 0
    checkpoint.attempt(0, {("nobody", 0): (1, "")})
    replaced = StateLog(folder).version_reader()
    found = read_log_history(folder, replaced, replaced.last_frame)
    assert sum(use.abandoned_bytes for use in found.segments) > 0


def test_history_goes_on_over_damage(tmp_path: Path) -> None:
    path = made.make_operator_queue(tmp_path / "q", 900)
    frames = frames_of(path)
    byte, header = made.batches(made.segment(path, 0))[3]
    made.flip(made.segment(path, 0), byte + 20)
    lost = len(made.batches(made.segment(path, 1)))
    made.segment(path, 1).unlink()
    found = read_log_history(made.folder_of(path))
    assert [fault.kind for fault in found.damage] == ["frame-damaged", "segment-missing"]
    assert found.frames == len(frames) - 1 - lost
    assert header.seq not in [s.number for s in found.buckets]
