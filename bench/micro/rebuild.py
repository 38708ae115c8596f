"""Getting an operator's state back: 90,000 open windows from an extent of 180,000 records.

The queue is written by the aggregate itself: bids on 100,000 items, windows of 10, Q = 2 x open
windows, which leaves about 90,000 windows open. Three readers then take turns:

rebuild    opens the queue and gathers the eventual checkpoint
reference  opens it and loops in Python over the same records, newest first, until N windows are
           found; each frame becomes lists by column, the fastest way for such a loop
read       reads the bytes of the same frames, decompresses them and makes record batches of them,
           with pyarrow alone; nothing is opened, checked or looked at

The files are in the page cache for all three.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.harness.bids import BidSource, bids
from bench.harness.queues import output_queue
from bench.harness.rounds import Options, options, race, report, stopwatch
from bench.micro.bare_read import bare_read_time, extent_stretches
from cec_store import EventualCheckpoint, OutputQueue, RecordKind, Targets, open_queue
from cec_store.checkpoints.rebuild import rebuild
from cec_store.format.schema import KEY, KIND, STATE, input_column
from cec_store.log.chain import Chain
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.runner import Runner, record_schema
from cec_store.storage.local import LocalFolder

TARGETS = {
    "rebuild_vs_reference": "at least 5",
    "rebuild_vs_read": "at most 3",
}
ITEMS = 100_000
WINDOW = 10
TURNS = 80
"""Bids on each item: enough for the windows to be spread over all fill levels."""

Found = dict[Any, tuple[int, int, tuple[Any, ...]]]


def write_queue(path: Path, items: int) -> None:
    block = bids(TURNS * items, items)
    operator = Aggregate(
        group_by=["item"],
        aggregates={"average": ("avg", "price")},
        window=CountWindow(WINDOW),
        input_schema=block.schema,
    )
    with open_queue(path, "x", schema=record_schema(operator)) as queue:
        source = BidSource(block, block.num_rows)
        Runner(operator, [source], queue, Targets(extent_factor=2.0)).run()


def open_time(path: Path) -> float:
    with stopwatch() as taken:
        Chain(LocalFolder(path))
    return taken[0]


def rebuild_time(path: Path) -> float:
    with stopwatch() as taken:
        rebuild(Chain(LocalFolder(path)))
    return taken[0]


def reference(path: Path) -> Found:
    """The open windows by key: (offset of the footprint, input position, state)."""
    chain = Chain(LocalFolder(path))
    frame = chain.last()
    seen: set[Any] = set()
    footprints: Found = {}
    count = frame.header.open_windows if frame else 0
    while frame is not None and len(footprints) < count:
        records = chain.records(frame, backward=True)
        kinds = records.column(KIND).to_pylist()
        positions = records.column(input_column(0)).to_pylist()
        keys = records.column(KEY).field(0).to_pylist()
        states = [column.to_pylist() for column in records.column(STATE).flatten()]
        for row in range(len(kinds) - 1, -1, -1):
            key = keys[row]
            if key in seen:
                continue
            seen.add(key)
            if kinds[row] != RecordKind.RESULT:
                state = tuple(column[row] for column in states)
                footprints[key] = (frame.header.first_offset + row, positions[row], state)
                if len(footprints) == count:
                    break
        frame = chain.before(frame)
    return footprints


def reference_time(path: Path) -> float:
    with stopwatch() as taken:
        reference(path)
    return taken[0]


def require_equal(checkpoint: EventualCheckpoint, expected: Found) -> None:
    """The loop and the rebuild must have done the same work."""
    states = zip(*(column.to_pylist() for column in checkpoint.states.flatten()), strict=True)
    rows = zip(
        checkpoint.offsets.tolist(), checkpoint.positions[:, 0].tolist(), states, strict=True
    )
    if dict(zip(checkpoint.keys.field(0).to_pylist(), rows, strict=True)) != expected:
        raise AssertionError("the rebuild and the reference found different windows")


def describe(queue: OutputQueue) -> str:
    extent = queue.extent()
    return (
        f"{extent.open_windows:,} open windows, an extent of {extent.records:,} records in "
        f"{extent.frames} frames of {extent.bytes / extent.frames / 1e3:,.0f} kB"
    )


def main(asked: Options) -> None:
    path = asked.folder / "queue"
    write_queue(path, asked.size(full=ITEMS, quick=ITEMS))
    with output_queue(path) as queue:
        print(describe(queue))
        extent = queue.extent()
        require_equal(queue.rebuild(), reference(path))
    frames = extent_stretches(Chain(LocalFolder(path)))
    timings = race(
        {
            "rebuild": lambda: rebuild_time(path),
            "of it, open": lambda: open_time(path),
            "reference": lambda: reference_time(path),
            "read": lambda: bare_read_time(frames),
        },
        3 * asked.rounds,
    )
    for name, timing in timings.items():
        print(
            f"{name:<12} best {timing.best * 1e3:>8.2f} ms   median {timing.median * 1e3:>8.2f} ms"
        )
    ours, opening, loop, read = timings.values()
    report(
        {
            "rebuild_vs_reference": loop.best / ours.best,
            "rebuild_vs_reference_median": loop.median / ours.median,
            "rebuild_vs_read": ours.best / read.best,
            "rebuild_vs_read_median": ours.median / read.median,
            "rebuild_ms": ours.best * 1e3,
            "rebuild_open_ms": opening.best * 1e3,
            "rebuild_open_windows": extent.open_windows,
            "rebuild_extent_records": extent.records,
        }
    )


if __name__ == "__main__":
    with options(__doc__) as asked:
        main(asked)
