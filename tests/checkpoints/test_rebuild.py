"""An eventual checkpoint read backward equals what a naive reading forward finds."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store import CorruptLog, OutOfRange, RecordKind, RecoveryError, open_queue
from cec_store.checkpoints.rebuild import extent, rebuild
from cec_store.log.chain import Chain
from cec_store.log.frames import FrameMarks
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.operators.join.join import WindowJoin
from cec_store.operators.runner import record_schema
from support.crashes.crashing_runs import POLICIES, CrashingRun
from support.disks.memory_folder import MemoryFolder
from support.models.aggregate_inputs import AGGREGATES, SCHEMA, make_input
from support.models.join_inputs import LEFT, RIGHT, make_side
from support.models.reference_operators import plain

WINDOWS = (CountWindow(1), CountWindow(7), CountWindow(5, 2), TimeWindow(25, 10), TimeWindow(40))


@dataclass
class Forward:
    """One record after the other, newest wins."""

    open: dict = field(default_factory=dict)
    closed: set = field(default_factory=set)
    last_position: tuple = ()

    def take(self, offset: int, record: dict, inputs: int) -> None:
        position = tuple(record[f"_input_{i}"] for i in range(inputs))
        self.last_position = position
        if record["_kind"] == RecordKind.DATA:
            return
        key = repr(plain(record["_key"]))
        self.open.pop(key, None)
        self.closed.discard(key)
        if record["_kind"] == RecordKind.RESULT:
            self.closed.add(key)
        else:
            self.open[key] = (offset, position, plain(record["_state"]))


def check_every_frame(folder: MemoryFolder, inputs: int) -> int:
    chain = Chain(folder)
    forward, seen = Forward(), 0
    for frame in chain.frames():
        records = chain.records(frame).to_pylist()
        for row, record in enumerate(records):
            forward.take(frame.header.first_offset + row, record, inputs)
        if frame.header.continues:  # no state within a step: it is there as a whole or not at all
            for look in (rebuild, extent):
                with pytest.raises(RecoveryError, match="goes on in the next one"):
                    look(chain, frame.header.seq)
            continue
        found = rebuild(chain, frame.header.seq)
        states = {
            repr(plain(key)): (offset, tuple(position), plain(state))
            for key, offset, position, state in zip(
                found.keys.to_pylist(),
                found.offsets.tolist(),
                found.positions.tolist(),
                found.states.to_pylist(),
                strict=True,
            )
        }
        assert states == forward.open
        oldest = min(
            (position for _, position, _ in forward.open.values()),
            key=sum,
            default=forward.last_position,
        )
        assert tuple(found.replay_from.tolist()) == oldest
        assert tuple(found.replay_upto.tolist()) == forward.last_position
        assert not forward.closed & states.keys()
        first = min((each[0] for each in forward.open.values()), default=found.end_offset)
        assert found.extent.first_offset == first
        assert found.extent.records == frame.header.end_offset - first
        assert found.extent == extent(chain, frame.header.seq)
        seen += len(states)
    return seen


def written(seed, make, inputs, schemas, policy, step_rows_max=None) -> MemoryFolder:
    run = CrashingRun(make, inputs, schemas, POLICIES[policy], random.Random(seed))
    run.step_rows_max = step_rows_max
    queue, _ = run.until_done(crash_share=0.1)
    queue.close()
    return run.folder


@given(st.integers(0, 2**32), st.sampled_from(WINDOWS), st.sampled_from(sorted(POLICIES)))
def test_rebuild_at_any_frame_equals_reading_forward(seed, window, policy):
    rng = random.Random(seed)
    rows = make_input(rng, 0, rng.choice([20, 60]))

    def make():
        return Aggregate(
            group_by=["k", "s"],
            aggregates=AGGREGATES,
            window=window,
            input_schema=SCHEMA,
        )

    check_every_frame(written(seed, make, [rows], [SCHEMA], policy), 1)


@given(st.integers(0, 2**32), st.sampled_from(sorted(POLICIES)))
def test_rebuild_of_a_join_equals_reading_forward(seed, policy):
    rng = random.Random(seed)
    inputs = [make_side(rng, source, 30) for source in (0, 1)]

    def make():
        return WindowJoin(LEFT, RIGHT, on=["k"], within_us=20)

    check_every_frame(written(seed, make, inputs, [LEFT, RIGHT], policy), 2)


def counted_queue(frames: int = 40) -> MemoryFolder:
    rng = random.Random(5)
    rows = make_input(rng, 0, 4 * frames)

    def make():
        return Aggregate(
            group_by=["k"], aggregates=AGGREGATES, window=CountWindow(7), input_schema=SCHEMA
        )

    return written(5, make, [rows], [SCHEMA], "tight", step_rows_max=5)


def test_the_queues_above_have_open_windows():
    assert check_every_frame(counted_queue(60), 1) > 100


def test_a_count_of_windows_that_the_extent_does_not_hold_is_damage():
    folder = counted_queue()
    with open_queue(folder, "a") as queue:
        record = next(iter(queue.replay(kinds={RecordKind.OPEN}, include_metadata=True)))
        assert record.num_rows
        chain = queue.chain()
        records = chain.records(chain.last())
        queue.append_records(records, FrameMarks(open_windows=99, extent_records=records.num_rows))
        queue.sync()
        with pytest.raises(CorruptLog, match="counts 99 open windows"):
            queue.rebuild()


def test_a_queue_without_an_operator_has_no_state():
    folder = MemoryFolder()
    with open_queue(folder, "x", schema=SCHEMA) as queue, pytest.raises(RecoveryError):
        queue.rebuild()


def test_a_queue_without_records_starts_from_nothing():
    operator = WindowJoin(LEFT, RIGHT, on=["k"], within_us=20)
    with open_queue(MemoryFolder(), "x", schema=record_schema(operator)) as queue:
        found = queue.rebuild()
        assert (found.seq, found.open_windows) == (-1, 0)
        assert found.replay_from.tolist() == [0, 0]
        assert found.replay_upto.tolist() == [0, 0]
        assert found.positions.shape == (0, 2)
        assert len(found.keys) == len(found.states) == len(found.offsets) == 0
        assert queue.extent().records == 0


def test_a_frame_that_is_not_there_is_out_of_range():
    with open_queue(counted_queue()) as queue, pytest.raises(OutOfRange):
        queue.rebuild(at=10_000)


def test_trim_leaves_what_a_rebuild_needs():
    folder = counted_queue(200)
    with open_queue(folder, "a") as queue:
        before = queue.rebuild()
        queue.roll()
        oldest = queue.trim(queue.end_offset)
        assert 0 < oldest <= before.extent.first_offset
        after = queue.rebuild()
        assert after.keys.equals(before.keys)
        assert np.array_equal(after.positions, before.positions)
