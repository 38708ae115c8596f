"""What a trim takes: all that nobody needs, and never more, whatever crashes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store import (
    Consumer,
    ConsumerInUse,
    CorruptLog,
    Never,
    OutOfRange,
    OutputQueue,
    Position,
    QueueOptions,
    RecordKind,
    Targets,
    open_queue,
    read_queue,
)
from cec_store.format.retention import Retention
from cec_store.ledger.reference_trims import TrimBounds
from cec_store.log.chain import Chain
from cec_store.log.epochs import newest_epoch
from cec_store.log.frames import FrameMarks
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema
from cec_store.queues.trimming import plan_trim
from cec_store.storage.names import acknowledgement_name
from support.disks.memory_folder import MemoryFolder
from support.disks.simulated_folder import SimulatedFolder, images

SCHEMA = pa.schema([("n", pa.int64())])


def a_queue(folder: object = None, segments: int = 8) -> OutputQueue:
    """Segments of two records; its consumers decide what goes."""
    where: Any = MemoryFolder({}) if folder is None else folder
    queue = open_queue(where, "a", schema=SCHEMA, retention="consumers")
    for number in range(0, 2 * segments, 2):
        queue.append(pa.record_batch({"n": [number, number + 1]}), pa.array([number, number]))
        queue.roll()
    return queue


def test_nothing_goes_unless_somebody_says_what_may() -> None:
    queue = a_queue()
    assert queue.trim() == 0
    assert queue.trim(7) == 6
    assert queue.trim() == 6


def test_the_slowest_consumer_decides_by_what_it_has_saved_not_by_what_it_received() -> None:
    queue = a_queue()
    with queue.consumer("slow") as slow, queue.consumer("fast") as fast:
        fast.acknowledge(effects_saved=14)
        slow.acknowledge(received=12, effects_saved=5)
        assert queue.trim() == 4
        slow.acknowledge(effects_saved=9)
        assert queue.trim(6) == 6
        assert queue.trim() == 8
        assert queue.trim(16) == 8


def test_a_consumer_that_has_gone_holds_the_queue_until_it_is_dropped() -> None:
    queue = a_queue()
    queue.consumer("gone", start=2).close()
    with queue.consumer("here") as here:
        here.acknowledge(effects_saved=16)
        assert queue.trim() == 2
        fresh = open_queue(queue.folder)
        assert [each.name for each in fresh.consumers() if each.lag_records] == ["gone"]
        fresh.drop_consumer("gone")
        assert queue.trim() == 14  # the last frame stays


def test_a_trim_above_the_end_is_refused() -> None:
    queue = a_queue()
    with pytest.raises(OutOfRange, match="trim to 17, the end is 16"):
        queue.trim(17)
    assert queue.trim(16) == 14


def test_the_segment_of_the_last_frame_stays_even_when_that_has_no_records() -> None:
    """It tells where the operator's input stood."""
    operator = Aggregate(
        group_by=["k"], aggregates={"n": ("count",)}, window=CountWindow(2), input_schema=KEYED
    )
    queue = open_queue(MemoryFolder({}), "a", schema=record_schema(operator))
    rows = pa.RecordBatch.from_pylist([], queue.schema.arrow)
    for position in (5, 7):
        queue.append_records(rows, FrameMarks(input_upto=position))
        queue.roll()
    queue.trim(0)
    assert queue.rebuild().replay_from.tolist() == [7]
    assert list(queue.chain().segments) == [1, 2]


@pytest.mark.parametrize("since", [None, 0])
def test_reading_from_the_start_begins_again_where_a_trim_overtakes_it(
    tmp_path: Path, since: int | None
) -> None:
    with open_queue(tmp_path / "q", "x", schema=pa.schema([("n", pa.int64())])) as queue:
        for first in range(0, 100, 10):
            queue.append(pa.record_batch({"n": list(range(first, first + 10))}))
            queue.roll()
        reading = read_queue(tmp_path / "q", since=since)
        exact = read_queue(tmp_path / "q", since=Position(0))
        assert queue.trim(50) == 50
    assert reading.read_all()["n"].to_pylist() == list(range(50, 100))
    with pytest.raises(OutOfRange, match="offset 0"):
        exact.read_all()


# -- any program ------------------------------------------------------------------------------

KEYED = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us"))])


def keyed_rows(rng: random.Random, count: int) -> pa.Table:
    keys = np.array([rng.randrange(6) for _ in range(count)])
    return pa.table({"k": keys, "t": pa.array(np.arange(count)).cast(KEYED.field("t").type)})


class Program:
    """An operator's queue, with consumers that come, acknowledge, go, and crash."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.table = keyed_rows(rng, 400)
        self.policy = rng.choice([Never(), Targets(extent_factor=1.5, extent_floor=1)])
        self.folder = MemoryFolder({})
        self.consumers: dict[str, Consumer] = {}
        self.said: dict[str, tuple[int, int]] = {}
        self.rows: dict[int, dict] = {}
        self.trimmed = 0
        self.removed = 0
        self.open()

    def open(self) -> None:
        operator = Aggregate(
            group_by=["k"],
            aggregates={"rows": ("count",)},
            window=CountWindow(self.table.num_rows // 50),
            input_schema=KEYED,
        )
        options = QueueOptions(segment_bytes=2_000, sync="none")
        kept = Retention.of("consumers")
        schema = record_schema(operator)
        self.queue = OutputQueue(self.folder, "a", schema, options, retention=kept)
        source = ArrowSource(self.table, "t")
        self.runner = Runner(operator, [source], self.queue, self.policy, step_rows_max=7)
        self.steps = self.runner._steps(self.runner._position)

    def step(self) -> None:
        for step, _ in zip(self.steps, range(5), strict=False):
            self.runner.step(step)
        self.queue.sync()
        replay = self.queue.replay(
            Position(max(self.rows, default=-1) + 1), kinds=RecordKind, include_metadata=True
        )
        self.rows |= {row["_offset"]: row for batch in replay for row in batch.to_pylist()}

    def come(self) -> None:
        name = self.rng.choice("abcde")
        if name in self.consumers:
            with pytest.raises(ConsumerInUse):
                self.queue.consumer(name)
            return
        first, end = self.queue.chain().first_offset(), self.queue.durable_offset
        start = self.rng.choice([None, first, end, self.rng.randint(first, end)])
        self.consumers[name] = consumer = open_queue(self.folder).consumer(name, start=start)
        at = first if start is None else start
        assert self.said.setdefault(name, (at, at)) == (consumer.received, consumer.effects_saved)

    def acknowledge(self) -> None:
        for name, consumer in self.consumers.items():
            received, saved = self.said[name]
            received = self.rng.randint(received, self.queue.durable_offset)
            saved = max(self.rng.randint(saved, received) for _ in range(3))
            consumer.acknowledge(received=received, effects_saved=saved)
            self.said[name] = received, saved

    def go(self) -> None:
        if self.consumers:
            name = self.rng.choice(sorted(self.consumers))
            self.consumers.pop(name).close()
            if self.rng.random() < 0.3:
                self.queue.drop_consumer(name)
                del self.said[name]

    def crash(self) -> None:
        """Of the operator's process, or of the machine with all consumers."""
        self.queue.close()
        if self.rng.random() < 0.5:
            self.folder = self.folder.copy()
            self.consumers.clear()
        self.open()

    def trim(self) -> None:
        needed, before = self.queue.rebuild(), None
        if self.rng.random() < 0.5:
            before = self.rng.randint(0, self.queue.durable_offset)
        was = self.queue.chain().first_offset()
        self.trimmed = self.queue.trim(before)
        self.removed += self.trimmed > was
        limits = [saved for _, saved in self.said.values()]
        limits += [before] if before is not None else []
        if not limits:
            assert self.trimmed == was
            return
        assert self.trimmed <= max(was, min(*limits, needed.end_offset - needed.extent.records))
        # As much as may go has gone.
        chain = self.queue.chain()
        segments = [chain.first_offset(each) for each in chain.segments[1:]]
        last = chain.last()
        if segments and last is not None and last.address.segment_id > chain.segments[0]:
            assert segments[0] > min(*limits, needed.end_offset - needed.extent.records)
        again = self.queue.rebuild()
        assert again.keys.equals(needed.keys)
        assert again.states.equals(needed.states)

    def check(self) -> None:
        found = {each.name: (each.received, each.effects_saved) for each in self.queue.consumers()}
        assert found == self.said
        end = self.queue.durable_offset
        for _, saved in self.said.values():
            replay = open_queue(self.folder).replay(
                Position(saved), kinds=RecordKind, include_metadata=True
            )
            rows = [row for batch in replay for row in batch.to_pylist()]
            assert rows == [self.rows[offset] for offset in range(saved, end)]


@pytest.mark.crash
@given(st.integers(0, 2**32))
def test_no_trim_takes_what_a_consumer_or_a_rebuild_needs(seed: int) -> None:
    run_program(seed)


def run_program(seed: int) -> int:
    rng = random.Random(seed)
    program = Program(rng)
    moves = [program.step] * 4 + [program.acknowledge] * 4 + [program.come] * 3
    moves += [program.trim] * 4 + [program.go, program.crash]
    program.step()
    for _ in range(rng.randint(5, 70)):
        rng.choice(moves)()
    program.step()
    program.check()
    program.queue.close()
    return program.removed


def test_the_programs_above_do_trim() -> None:
    assert sum(run_program(seed) for seed in range(20)) > 15


# -- power cuts -------------------------------------------------------------------------------


def acknowledged_and_trimmed(folder: SimulatedFolder) -> None:
    """Notes (consumers' promised offsets, where the log may begin)."""
    promised: dict[str, int] = {}

    def note(**changes: int) -> None:
        promised.update(changes)
        folder.mark(dict(promised))

    with a_queue(folder, segments=5) as queue, queue.consumer("a") as a:
        note(a=0)
        with queue.consumer("b") as b:
            note(b=0)
            a.acknowledge(effects_saved=6)
            note(a=6)
            trims = iter(["rename", "sync_names"])

            def trim_meanwhile(operation: str, name: str) -> None:
                """While b's acknowledgement can be read and is not on disk."""
                if operation == "sync_names" and next(trims, None) is not None:
                    folder.before_operation = lambda operation, name: None
                    queue.trim()

            folder.before_operation = trim_meanwhile
            b.acknowledge(effects_saved=4)
            assert queue.chain().first_offset() == 4
            note(b=4)
        # And once more with a drop that is not on disk yet.
        promised.pop("b")
        folder.mark(dict(promised))
        trims = iter(["sync_names"])
        folder.before_operation = trim_meanwhile
        queue.drop_consumer("b")
        assert queue.chain().first_offset() == 6
        with queue.consumer("c") as c:
            note(c=6)
            c.acknowledge(effects_saved=10)
            a.acknowledge(effects_saved=8)
            note(c=10, a=8)
            queue.trim()


def test_after_a_power_cut_every_consumer_finds_what_it_needs() -> None:
    folder = SimulatedFolder(record=True)
    acknowledged_and_trimmed(folder)
    checked, begins = 0, set()
    for snapshot in folder.snapshots:
        promised = snapshot.marks or {}
        for image in images(snapshot, subset_writes=1, product_max=16):
            disk = SimulatedFolder(image)
            if newest_epoch(disk) is None:
                assert not promised
                continue
            first = Chain(disk).first_offset()
            reader = open_queue(disk)
            found = {each.name: each.effects_saved for each in reader.consumers()}
            for name, offset in promised.items():
                assert found[name] >= offset, f"step {snapshot.step}: {name} forgot"
            for name, offset in found.items():
                assert offset >= first, f"step {snapshot.step}: taken from {name}"
                with reader.consumer(name) as consumer:
                    assert consumer.effects_saved == offset
            checked += 1
            begins.add(first)
    assert checked > 200
    assert begins == {0, 4, 6, 8}


# -- what the command line asks ---------------------------------------------------------------


def test_a_plan_says_who_holds_the_queue() -> None:
    queue = a_queue()
    names = ("a", "b", "c")
    consumers = [queue.consumer(name) for name in names]
    for consumer, offset in zip(consumers, (5, 4, 16), strict=True):
        consumer.acknowledge(effects_saved=offset)
    chain = queue.chain()
    plan = plan_trim(chain, TrimBounds(), 0)
    assert (plan.segments, plan.first_segment, plan.first_offset) == (2, 2, 4)
    assert plan.held_by == ("a", "b")
    assert plan_trim(chain, TrimBounds({0: 2}), 0).first_offset == 2
    assert queue.chain().first_offset() == 0
    assert queue.trim() == plan.first_offset


def test_a_damaged_acknowledgement_stops_a_plan_as_well() -> None:
    queue = a_queue()
    queue.consumer("a").close()
    assert isinstance(queue.folder, MemoryFolder)
    queue.folder.flip(acknowledgement_name("a"), 300)
    with pytest.raises(CorruptLog, match="drop the consumer by its name"):
        queue.trim(4)
