"""Sessions are those of the plain-Python model, however the input is cut."""

import datetime
import random
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.checkpoints.policy import Never, Policy
from cec_store.format.records import kinds_of
from cec_store.format.schema import RecordKind
from cec_store.inspector.verifying.log import verify
from cec_store.operators.aggregate import aggregate as aggregate_module
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import SessionWindow
from cec_store.operators.contract import InputBatch, Step
from cec_store.operators.inputs.merge import merge
from cec_store.operators.inputs.sources import ArrowSource
from cec_store.operators.runner import Runner, record_schema
from cec_store.queues.output_queue import OutputQueue
from support.disks.memory_folder import MemoryFolder
from support.models.aggregate_inputs import (
    AGGREGATES,
    SCHEMA,
    SESSION_WINDOWS,
    aggregates,
    event_time_us,
    make_input,
)
from support.models.reference_operators import (
    Driven,
    Row,
    make_rows,
    make_steps,
)
from support.models.reference_sessions import ReferenceSessions, with_totals

seeds = st.integers(0, 2**32)
windows = st.sampled_from(SESSION_WINDOWS)
GROUPS = (["k"], ["s", "k"], ["g", "s", "d"], [])


def compare(rng: random.Random, group_by, window, inputs_count=1, event_time=None):
    inputs = [
        make_input(rng, j, rng.choice([0, 3, 40, 150 // inputs_count])) for j in range(inputs_count)
    ]
    operator = aggregates(window, group_by, inputs_count, event_time)()
    driven = Driven(operator)
    reference = ReferenceSessions(
        group_by, AGGREGATES, window, event_time_us if event_time else None
    )
    driven.require_equal(reference, inputs, [SCHEMA] * inputs_count, rng, with_totals)
    assert operator.late_rows == reference.late_rows
    return reference


@given(seeds, windows, st.sampled_from(GROUPS))
def test_sessions_equal_the_reference(seed, window, group_by):
    compare(random.Random(seed), group_by, window)


@given(seeds, windows)
def test_event_time_rules_and_rows_without_one_are_in_no_session(seed, window):
    compare(random.Random(seed), ["s"], window, event_time="at")


@given(seeds, windows)
def test_sessions_over_several_inputs_are_of_the_merged_rows(seed, window):
    compare(random.Random(seed), ["s", "k"], window, inputs_count=3)


def test_a_step_too_large_for_memory_is_taken_in_parts(monkeypatch):
    monkeypatch.setattr(aggregate_module, "ENTRIES_MAX", 7)
    runs = [
        compare(random.Random(seed), ["u"], window, inputs_count=2)
        for seed, window in enumerate(
            9 * [SessionWindow(3, 40), SessionWindow(2, 60), SessionWindow(10)]
        )
    ]
    assert sum(run.merges for run in runs) > 10
    assert sum(run.late_rows for run in runs) > 10


# -- footprints ---------------------------------------------------------------------------------

KEYED = pa.schema({"k": pa.int64(), "f": pa.float64()})


def sums(window: SessionWindow) -> Aggregate:
    return Aggregate(
        group_by=["k"],
        aggregates={
            "n": ("count",),
            "f": ("sum", "f"),
            "mean": ("avg", "f"),
            "least": ("min", "f"),
        },
        window=window,
        input_schema=KEYED,
    )


def untidy_rows(rng: random.Random, count: int) -> list[Row]:
    """Rows of two keys in a crowded stretch of time, in no order, and floats of any size."""
    clock, times = 0, []
    for _ in range(count):
        clock += rng.choice([0, 1, 1, 3, 12])
        times.append(clock + rng.randrange(-60, 1))
    floats = [rng.uniform(-1, 1) * 10.0 ** rng.randrange(-8, 9) for _ in times]
    columns = {"k": [rng.randrange(2) for _ in times], "f": floats}
    return make_rows(0, KEYED, columns, times, range(count))


class Footprints:
    """The newest footprint of each open window, as a log would have them."""

    def __init__(self, rng: random.Random, share: float = 0.2) -> None:
        self.rng = rng
        self.share = share
        """Of the open windows, those that have a new footprint with each step."""
        self.of_slot: dict[int, tuple[int, dict | None, dict]] = {}
        self.position = 0
        self.merges = 0

    def take(self, operator: Aggregate, step: Step) -> None:
        effects = operator.apply(step)
        self.position = int(step.positions[-1, 0])
        for slot in effects.closed.tolist():
            del self.of_slot[slot]
        self.merges += effects.merges
        assert set(effects.grown.tolist()) <= self.of_slot.keys()
        some = [slot for slot in self.of_slot if self.rng.random() < self.share]
        self.check(operator, [*effects.opened.tolist(), *effects.grown.tolist(), *some])

    def check(self, operator: Aggregate, slots: list[int]) -> None:
        """Footprints of these windows, as they are now."""
        for slot in slots:
            keys, states = operator.snapshot(np.array([slot]))
            self.of_slot.pop(slot, None)
            self.of_slot[slot] = (self.position, keys, states)

    def restored(self, operator: Aggregate) -> int:
        """Load them into a fresh operator; return T."""
        positions, keys, states = zip(*self.of_slot.values(), strict=True)
        operator.restore(
            pa.concat_arrays(keys), pa.concat_arrays(states), np.array(positions)[:, None]
        )
        return positions[0]


def states_of(operator: Aggregate) -> dict:
    slots = np.flatnonzero(operator._slots.rows[: operator._slots.slot_bound])
    assert len(slots) == operator.open_windows
    keys, states = operator.snapshot(slots)
    return dict(zip(map(str, keys.to_pylist()), states.to_pylist(), strict=True))


@given(seeds, st.sampled_from([(4, 60), (2, 30), (6, 90), (9, 0)]))
def test_from_any_footprints_the_same_sessions_come_back(seed, numbers):
    """To the last bit, wherever each window has its footprint and however input is cut."""
    rng = random.Random(seed)
    rows = untidy_rows(rng, 80)
    operator, footprints = sums(SessionWindow(*numbers)), Footprints(rng)
    for step in make_steps([rows], [KEYED], rng, (0,)):
        footprints.take(operator, step)
        if rng.random() < 0.3:
            other = sums(SessionWindow(*numbers))
            begin = footprints.restored(other)
            for again in make_steps([rows], [KEYED], rng, (begin,), (footprints.position,)):
                other.catch_up(again)
            other._slots.begin_step()
            assert states_of(other) == states_of(operator)


def test_a_row_taken_again_is_late_by_the_watermark_that_it_met():
    """And not by the one that a younger footprint has."""
    window = SessionWindow(10, 20)
    columns = {"k": [0, 0, 1], "f": [1.0, 2.0, 4.0]}
    rows = make_rows(0, KEYED, columns, [100, 95, 130], range(3))
    operator, footprints = sums(window), Footprints(random.Random(0), share=0)
    for row in rows:
        for step in make_steps([[row]], [KEYED], random.Random(0), (0,)):
            footprints.take(operator, step)
    footprints.check(operator, [0])  # the watermark's own: 110
    other = sums(window)
    assert footprints.restored(other) == 1
    for again in make_steps([rows], [KEYED], random.Random(0), (1,)):
        other.catch_up(again)
    other._slots.begin_step()
    assert states_of(other) == states_of(operator)
    assert sorted(state["n"] for state in outputs_left(other)) == [1, 2]


def outputs_left(operator: Aggregate) -> list[dict]:
    """The results of all open sessions, which a row far ahead closes."""
    [far] = make_rows(0, KEYED, {"k": [9], "f": [0.0]}, [10_000], [100])
    (step,) = make_steps([[far]], [KEYED], random.Random(0), (0,))
    return operator.apply(step).rows.to_pylist()


def test_the_footprints_above_are_of_sessions_that_merge():
    merges = 0
    for seed in range(20):
        rng = random.Random(seed)
        operator, footprints = sums(SessionWindow(4, 60)), Footprints(rng)
        for step in make_steps([untidy_rows(rng, 80)], [KEYED], rng, (0,)):
            footprints.take(operator, step)
        merges += footprints.merges
    assert merges > 20


def test_sums_of_floats_do_not_depend_on_how_the_input_is_cut():
    runs = []
    for seed in range(6):
        operator = sums(SessionWindow(4, 60))
        driven = Driven(operator)
        rows = untidy_rows(random.Random(3), 300)
        for step in make_steps([rows], [KEYED], random.Random(seed), (0,)):
            driven.apply(step)
        runs.append((driven.output, driven.state()))
    assert all(run == runs[0] for run in runs)
    assert len(runs[0][0]) > 10


# -- single cases -------------------------------------------------------------------------------


def rows_of(*times_us: int, key: int = 0) -> list[Row]:
    columns = {"k": [key] * len(times_us), "f": [1.0] * len(times_us)}
    return make_rows(0, KEYED, columns, times_us, range(len(times_us)))


SPAN = ("session_start", "session_end")


def output_of_rows(window: SessionWindow, *times_us: int) -> list[tuple[int, int, int]]:
    driven = Driven(sums(window))
    for step in make_steps([rows_of(*times_us)], [KEYED], random.Random(0), (0,)):
        driven.apply(step)
    return [(row["session_start"], row["session_end"], row["n"]) for row in driven.output]


def test_rows_as_far_apart_as_the_gap_are_of_one_session_and_no_further():
    assert output_of_rows(SessionWindow(10), 0, 10, 20, 31, 100) == [(0, 20, 3), (31, 31, 1)]


def test_a_session_closes_once_the_watermark_is_beyond_its_end_and_the_gap():
    assert output_of_rows(SessionWindow(10, 5), 0, 15) == []
    assert output_of_rows(SessionWindow(10, 5), 0, 16) == [(0, 0, 1)]


def test_a_row_below_the_watermark_is_left_out_and_one_at_it_is_not():
    operator = sums(SessionWindow(10, 5))
    driven = Driven(operator)
    for step in make_steps([rows_of(0, 8, 3, 2, 100)], [KEYED], random.Random(0), (0,)):
        driven.apply(step)
    assert [(row["session_start"], row["n"]) for row in driven.output] == [(0, 3)]
    assert operator.late_rows == 1


def test_a_late_row_joins_two_sessions_into_the_one_that_opened_first():
    window = SessionWindow(10, 50)
    assert output_of_rows(window, 20, 0, 10, 100, 200) == [(0, 20, 3), (100, 100, 1)]


@pytest.mark.parametrize("window", [SessionWindow(10), SessionWindow(10, 2**63 - 1)])
def test_times_at_the_edges_of_64_bits_are_told_apart(window):
    low, high = -(2**63), 2**63 - 1
    assert spans_of(window, low, low + 10, high - 10, high) == [(low, low + 10)]
    assert spans_of(SessionWindow(2**63 - 1), low, high, -1) == [(low, low)]


def spans_of(window: SessionWindow, *times_us: int) -> list[tuple[int, int]]:
    """First and last time of each session, of moments that no calendar reaches."""
    operator, spans = sums(window), []
    for step in make_steps([rows_of(*times_us)], [KEYED], random.Random(0), (0,)):
        rows = operator.apply(step).rows
        columns = (rows.column(name).cast(pa.int64()).to_pylist() for name in SPAN)
        spans += zip(*columns, strict=True)
    return spans


def test_a_step_without_rows_does_nothing():
    driven = Driven(sums(SessionWindow(4, 60)))
    for step in make_steps([untidy_rows(random.Random(5), 40)], [KEYED], random.Random(5), (0,)):
        driven.apply(step)
    before = driven.state()
    nothing = replace(
        step,
        batches=tuple(batch.slice(0, 0) for batch in step.batches),
        source=step.source[:0],
        positions=step.positions[:0],
        timestamps_us=step.timestamps_us[:0],
    )
    driven.apply(nothing)
    assert driven.state() == before


def test_keys_are_forgotten_with_their_sessions():
    schema = pa.schema({"k": pa.int64(), "s": pa.string()})
    operator = Aggregate(
        group_by=["k", "s"],
        aggregates={"n": ("count",)},
        window=SessionWindow(100, 100),
        input_schema=schema,
    )
    driven = Driven(operator)
    batches = []
    for first in range(0, 60_000, 3_000):
        numbers = np.arange(first, first + 3_000)
        names = [f"key {n}" for n in numbers]
        batch = pa.record_batch([pa.array(numbers), pa.array(names)], schema=schema)
        batches.append(InputBatch(batch, numbers, numbers))
    for step in merge([iter(batches)], np.zeros(1, np.int64), [schema]):
        driven.apply(step)
    slots = operator._slots
    assert len(driven.output) >= 59_000
    assert max(slots.keys.bound, slots._groups.bound) < 12_000
    assert len(slots.rows) < 30_000


def test_a_session_that_rows_keep_open_leaves_one_entry_behind():
    operator = sums(SessionWindow(10, 0))
    for step in make_steps([rows_of(*range(0, 4_000, 2))], [KEYED], random.Random(1), (0,)):
        operator.apply(step)
    assert sum(len(ends) for ends, _ in operator._slots._ends._runs) == 1


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ((0,), ValueError, "a gap of 1 microsecond or more, not 0"),
        ((-3,), ValueError, "a gap of 1 microsecond or more, not -3"),
        ((2**63,), ValueError, "a gap of 1 microsecond or more"),
        ((5, -1), ValueError, "by 0 microseconds or more, not -1"),
        ((5, 2**63), ValueError, "by 0 microseconds or more"),
        ((1.5,), TypeError, "integer"),
        ((datetime.timedelta(seconds=1),), TypeError, "integer"),
    ],
)
def test_a_gap_or_delay_that_cannot_be_is_refused(numbers, error, message):
    with pytest.raises(error, match=message):
        SessionWindow(*numbers)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"event_time": "nope"}, "no column 'nope'"),
        ({"event_time": "s"}, "event time 's' is no timestamp but string"),
        ({"event_time": "f"}, "event time 'f' is no timestamp but double"),
        ({"timeout_us": 5}, "sessions have no timeout"),
        ({"aggregates": {"session_end": ("count",)}}, "two output columns of one name"),
    ],
)
def test_what_does_not_fit_sessions_is_refused(changed, message):
    fitting = {
        "group_by": ["k"],
        "aggregates": {"n": ("count",)},
        "window": SessionWindow(10),
        "input_schema": SCHEMA,
    }
    with pytest.raises(ValueError, match=message):
        Aggregate(**{**fitting, **changed})
    Aggregate(**fitting)


def test_rows_without_a_time_are_counted_and_in_no_session():
    schema = pa.schema({"k": pa.int64(), "at": pa.timestamp("ms")})
    rows = make_rows(0, schema, {"k": [1, 1, 1], "at": [0, None, 5_000]}, range(3), range(3))
    operator = Aggregate(
        group_by=["k"], aggregates={"n": ("count",)}, window=SessionWindow(1_000_000),
        input_schema=schema, event_time="at",
    )  # fmt: skip
    driven = Driven(operator)
    for step in make_steps([rows], [schema], random.Random(0), (0,)):
        driven.apply(step)
    assert [row["n"] for row in driven.output] == [1]
    assert operator.untimed_rows == 1


# -- the log ------------------------------------------------------------------------------------


def table_of(*rows: tuple[int, int]) -> pa.Table:
    """Rows of one key at (time, value)."""
    times, values = zip(*rows, strict=True)
    columns = [[0] * len(times), [float(value) for value in values], list(times)]
    schema = KEYED.append(pa.field("t", pa.timestamp("us")))
    return pa.table(
        [pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)], schema
    )


def run_to_the_end(folder: MemoryFolder, table: pa.Table, policy: Policy) -> list[dict]:
    """Take one row a step, from wherever the queue stands; return all its records."""
    operator = Aggregate(
        group_by=["k"], aggregates={"f": ("sum", "f")}, window=SessionWindow(10, 50),
        input_schema=table.schema, event_time="t",
    )  # fmt: skip
    with OutputQueue(folder, "a", record_schema(operator)) as queue:
        Runner(operator, [ArrowSource(table, "t")], queue, policy, step_rows_max=1).run()
        chain = queue.chain()
        return [row for frame in chain.frames() for row in chain.records(frame).to_pylist()]


def test_a_window_that_went_into_another_one_is_closed_in_the_log_without_output():
    folder, table = MemoryFolder(), table_of((20, 1), (0, 2), (10, 4), (100, 8), (300, 16))
    records = run_to_the_end(folder, table.slice(0, 3), Never())
    shown = [
        (RecordKind(row["_kind"]).name, row["_key"] and row["_key"]["_window"], row["_input_0"])
        for row in records
    ]
    assert shown == [
        ("OPEN", None, 1),
        ("OPEN", 20, 1),
        ("OPEN", 0, 2),
        ("MERGED", 0, 3),
        ("CHECK", 20, 3),
    ]
    assert records[3]["_state"] is None
    assert records[3]["f"] is None
    with OutputQueue(folder, "r") as queue:
        assert [key and key["_window"] for key in queue.rebuild().keys.to_pylist()] == [None, 20]
        assert queue.replay().read_all().num_rows == 0
    assert verify(folder).is_sound
    records = run_to_the_end(folder, table, Never())
    with OutputQueue(folder, "r") as queue:
        assert queue.replay().read_all().column("f").to_pylist() == [7.0, 8.0]
    assert verify(folder).is_sound


def test_a_log_without_checkpoints_has_no_merged_windows():
    table = table_of((20, 1), (0, 2), (10, 4), (100, 8))
    operator = Aggregate(
        group_by=["k"], aggregates={"f": ("sum", "f")}, window=SessionWindow(10, 50),
        input_schema=table.schema, event_time="t",
    )  # fmt: skip
    with OutputQueue(MemoryFolder(), "a", record_schema(operator)) as queue:
        sources = [ArrowSource(table, "t")]
        Runner(operator, sources, queue, checkpoints=False, step_rows_max=1).run()
        chain = queue.chain()
        kinds = [kinds_of(chain.records(frame)).tolist() for frame in chain.frames()]
    assert [kind for kind in kinds if kind] == [[RecordKind.RESULT]]


def test_rows_of_a_session_that_opens_and_merges_in_one_step_survive_a_restart() -> None:
    """The last record of that step is the result of another session, between the two."""
    times_us, keys = [-45, 0, 12, 20, 6, 200, 500], ["b", *["a"] * 6]
    schema = pa.schema([("k", pa.string()), ("at", pa.timestamp("us"))])
    table = pa.table([keys, pa.array(times_us, pa.int64())], names=schema.names).cast(schema)
    folder = MemoryFolder()
    for step_rows, step_count in ((2, 1), (3, 1), (3, 9)):
        operator = Aggregate(
            group_by=["k"], aggregates={"n": ("count",)}, window=SessionWindow(10, 50),
            input_schema=schema,
        )  # fmt: skip
        with OutputQueue(folder, "a", record_schema(operator)) as queue:
            runner = Runner(operator, [ArrowSource(table, "at")], queue, step_rows_max=step_rows)
            for step in islice(runner._steps(runner._position), step_count):
                runner.step(step)
            queue.sync()
            counts = [(row["k"], row["n"]) for row in queue.replay().read_all().to_pylist()]
    assert counts == [("b", 1), ("a", 4), ("a", 1)]
