"""An operator's steps of many frames: the same output and state as with one frame to a step.

With crashes between steps tests/operators/test_crash_recovery.py has small frames, too; here
they come at every operation of the folder, and so in the middle of steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from cec_store import QueueOptions, Targets
from cec_store.inspector.verifying.log import verify
from cec_store.log.chain import Chain
from cec_store.log.epochs import newest_epoch
from cec_store.operators import (
    Aggregate,
    ArrowSource,
    CountWindow,
    Filter,
    Runner,
    SessionWindow,
    TimeWindow,
    WindowJoin,
    record_schema,
)
from cec_store.operators.contract import Operator
from cec_store.queues.output_queue import OutputQueue
from cec_store.storage.folder import Folder
from support.crashes.crash_states import kills
from support.disks.memory_folder import MemoryFolder
from support.disks.simulated_folder import SimulatedFolder, images

pytestmark = pytest.mark.crash

KEYS = 20
TINY, LARGE = 500, 1 << 24
POLICY = Targets(extent_factor=1.2, extent_floor=1)


def table_of(times: list[int]) -> pa.Table:
    numbers = np.arange(len(times))
    return pa.table(
        {
            "t": pa.array(times).cast(pa.timestamp("us")),
            "k": [f"key {number % KEYS}" for number in numbers],
            "v": numbers,
        }
    )


# All windows open, all close at a row of a later one, a few open again, and close.
BURST = table_of([5] * KEYS + [700] + list(range(701, 711)) + [5_000])
BURSTS = {
    "time windows": (
        lambda: Aggregate(
            group_by=["k"],
            aggregates={"n": ("count",), "v": ("sum", "v")},
            window=TimeWindow(100),
            input_schema=BURST.schema,
        ),
        [BURST],
    ),
    "count windows": (
        lambda: Aggregate(
            group_by=["k"],
            aggregates={"v": ("max", "v")},
            window=CountWindow(3, 2),
            input_schema=BURST.schema,
        ),
        [table_of(list(range(4 * KEYS)))],
    ),
    "sessions that merge": (
        lambda: Aggregate(
            group_by=["k"],
            aggregates={"n": ("count",), "v": ("sum", "v")},
            window=SessionWindow(10, 60),
            input_schema=BURST.schema,
        ),
        [table_of([0] * KEYS + [20] * KEYS + [10] * KEYS + [55] * KEYS + [200, 500])],
    ),
    "join": (
        lambda: WindowJoin(BURST.schema, BURST.schema, on=["k"], within_us=50),
        [table_of([5] * KEYS * 2), table_of([5] * KEYS + [700] * KEYS)],
    ),
    "filter": (
        lambda: Filter(lambda batch: pa.array([True] * batch.num_rows, pa.bool_()), BURST.schema),
        [table_of(list(range(50)))],
    ),
}
Make = Callable[[], Operator]


def run(folder: Folder, make: Make, tables: list[pa.Table], frame_bytes_max: int) -> OutputQueue:
    """Take all the input, from wherever the queue stands; the queue is closed."""
    options = QueueOptions(frame_bytes_max=frame_bytes_max, segment_bytes=6_000)
    operator = make()
    sources = [ArrowSource(table, "t", batch_rows_max=25) for table in tables]
    with OutputQueue(folder, "a", record_schema(operator), options) as queue:
        Runner(operator, sources, queue, POLICY, step_rows_max=25).run()
    return queue


def output(folder: Folder) -> list[dict[str, object]]:
    with OutputQueue(folder, "r") as queue:
        return [row for batch in queue.replay() for row in batch.to_pylist()]


def state(folder: Folder) -> tuple[list[object], ...]:
    with OutputQueue(folder, "r") as queue:
        found = queue.rebuild()
    keys, states = found.keys.to_pylist(), found.states.to_pylist()
    return keys, states, found.positions.tolist(), [found.extent.records]


@pytest.mark.parametrize("name", BURSTS)
def test_frames_of_any_size_hold_the_same_records(name: str) -> None:
    make, tables = BURSTS[name]
    whole, parted = MemoryFolder(), MemoryFolder()
    run(whole, make, tables, LARGE)
    run(parted, make, tables, TINY)
    assert output(parted) == output(whole)
    assert state(parted) == state(whole)
    frames = [frame.header for frame in Chain(parted).frames()]
    assert sum(header.continues for header in frames) > 5
    assert not any(frame.header.continues for frame in Chain(whole).frames())
    ends = [header for header in frames if not header.continues]
    expected = [frame.header for frame in Chain(whole).frames()]
    for one, other in zip(ends, expected, strict=True):
        assert one.end_offset == other.end_offset
        assert (one.open_windows, one.extent_records) == (other.open_windows, other.extent_records)
        assert one.input_upto == other.input_upto
    parts = [header for header in frames if header.continues]
    assert {(part.open_windows, part.extent_records) for part in parts} == {(0, 0)}
    assert not any(part.is_counted for part in parts)
    assert all(header.raw_bytes <= TINY or header.record_count == 1 for header in frames)
    assert verify(parted).is_sound


@pytest.mark.parametrize("name", BURSTS)
def test_a_death_at_any_operation_within_a_step_changes_nothing(
    name: str, tally: Callable[[int], None], crash_count: Callable[[int, int], int]
) -> None:
    make, tables = BURSTS[name]
    whole, traced = MemoryFolder(), SimulatedFolder(record=True)
    run(whole, make, tables, LARGE)
    run(traced, make, tables, TINY)
    step_ends = {0} | {frame.header.end_offset for frame in Chain(whole).frames()}
    expected, within = output(whole), 0
    disks = [folder for folder, _, _ in kills(traced.snapshots)]
    cuts = [image for snapshot in traced.snapshots for image in images(snapshot, 2)]
    disks += [SimulatedFolder(image) for image in sorted(set(cuts))]
    random.Random(name).shuffle(disks)
    disks = disks[: crash_count(40, len(disks))]
    for folder in disks:
        if newest_epoch(folder) is not None:
            chain = Chain(folder)
            assert chain.end.offset in step_ends
            assert chain.written_offset in step_ends
            whole_frames = sum(len(data) for file, data in folder.image() if file.endswith(".seg"))
            within += whole_frames > chain.end.address.byte
        run(folder, make, tables, TINY)
        assert output(folder) == expected
        assert Chain(folder).end.offset in step_ends or name != "filter"
    assert within > len(disks) // 3, "hardly any died within a step"
    tally(len(disks))
