"""Runners acknowledge their input: what a recovery will not ask for, and the cause of output."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store import OutOfRange, QueueOptions, RecoveryError, Targets, open_queue
from cec_store.inspector.verifying.log import verify
from cec_store.operators import (
    Aggregate,
    ArrowSource,
    CountWindow,
    Filter,
    Map,
    QueueSource,
    Runner,
    TimeWindow,
    Union,
    WindowJoin,
    record_schema,
)
from cec_store.operators import acknowledging as indicators
from cec_store.operators.acknowledging import NeededInput
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import durable_epoch_of, segment_id_of
from support.crashes.acknowledged_chains import ROWS, power_cut
from support.crashes.crashing_runs import POLICIES, CrashingRun, RowSource, output_of
from support.disks.memory_folder import MemoryFolder
from support.disks.simulated_folder import SimulatedFolder
from support.models.aggregate_inputs import (
    AGGREGATES,
    COUNT_WINDOWS,
    SCHEMA,
    TIME_WINDOWS,
    make_input,
)
from support.models.join_inputs import LEFT, RIGHT, make_side
from support.models.stateless_operators import STATELESS

seeds = st.integers(0, 2**32)
policies = st.sampled_from(sorted(POLICIES))


# -- what a recovery asks for -----------------------------------------------------------------


class Heard:
    """Stands for a consumer: what it has heard outlives every crash."""

    name = "heard"
    start = received = effects_saved = 0

    def acknowledge(self, *, received: int, effects_saved: int) -> None:
        assert 0 <= effects_saved <= received
        self.received = max(received, self.received)
        self.effects_saved = max(effects_saved, self.effects_saved)


@dataclass
class TrimmedSource(RowSource):
    """Rows of an input that forgets all that its consumer does not need."""

    consumer: Heard

    def read(self, start, stop=None):
        assert start >= self.consumer.effects_saved, "asks for what it said it would not need"
        return super().read(start, stop)


class AcknowledgingRun(CrashingRun):
    """Acknowledges now and then, and crashes at any time after."""

    def __init__(self, make, inputs, schemas, policy, rng) -> None:
        super().__init__(make, inputs, schemas, policy, rng)
        self.sources = [
            TrimmedSource(rows, schema, rng, Heard())
            for rows, schema in zip(inputs, schemas, strict=True)
        ]
        self.acknowledged = 0

    def until_done(self, crash_share: float):
        while True:
            queue, runner = self.open()
            share = crash_share / (1 + self.crashes)
            for step in runner._steps(runner._position):
                runner.step(step)
                if self.rng.random() < 0.3:
                    self.acknowledge(queue, runner)
                if self.rng.random() < share:
                    self._crash(queue)
                    break
            else:
                self.acknowledge(queue, runner)
                return queue, runner

    def acknowledge(self, queue, runner) -> None:
        runner.acknowledge()
        found = queue.rebuild()
        low = found.replay_from
        if "low_left" in (queue.schema.state or pa.schema([])).names and found.open_windows:
            (state,) = found.states.to_pylist()
            low = np.minimum(low, [state["low_left"], state["low_right"]])
        assert runner.cause(queue.end_offset) == tuple(low.tolist())
        assert [each.consumer.effects_saved for each in self.sources] == low.tolist()
        assert [each.consumer.received for each in self.sources] >= low.tolist()
        self.acknowledged += int(low.sum())

    def _crash(self, queue) -> None:
        """What was synced stays; the note that says so need not."""
        queue.sync()
        queue.close()
        self.folder = folder = self.folder.copy()
        if self.rng.random() < 0.5:
            for name in [n for n in folder.files if durable_epoch_of(n) is not None]:
                del folder.files[name]
        self.crashes += 1


def acknowledging_run(seed, make, inputs, schemas, policy) -> AcknowledgingRun:
    rng = random.Random(seed)
    run = AcknowledgingRun(make, inputs, schemas, POLICIES[policy], rng)
    queue, _ = run.until_done(crash_share=rng.choice([0.02, 0.2, 0.6]))
    whole = CrashingRun(make, inputs, schemas, POLICIES[policy], rng)
    once, _ = whole.until_done(crash_share=0)
    assert output_of(queue) == output_of(once)
    queue.close()
    once.close()
    return run


def aggregate_run(seed, window, policy, inputs_count=1) -> AcknowledgingRun:
    rng = random.Random(seed)
    inputs = [make_input(rng, j, rng.choice([3, 40, 150])) for j in range(inputs_count)]

    def make():
        return Aggregate(
            group_by=["k"], aggregates=AGGREGATES, window=window, input_schema=SCHEMA,
            inputs=inputs_count,
        )  # fmt: skip

    return acknowledging_run(seed, make, inputs, [SCHEMA] * inputs_count, policy)


@given(seeds, st.sampled_from(COUNT_WINDOWS + TIME_WINDOWS), policies, st.sampled_from([1, 2]))
def test_an_aggregate_asks_for_no_input_that_it_has_let_go(seed, window, policy, inputs_count):
    aggregate_run(seed, window, policy, inputs_count)


@given(seeds, st.sampled_from([0, 3, 20, 10_000]), policies)
def test_a_join_asks_for_no_input_that_it_has_let_go(seed, within_us, policy):
    rng = random.Random(seed)
    inputs = [make_side(rng, source, rng.choice([0, 20, 100])) for source in (0, 1)]

    def make():
        return WindowJoin(LEFT, RIGHT, on=["k", "s"], within_us=within_us)

    acknowledging_run(seed, make, inputs, [LEFT, RIGHT], policy)


@given(seeds, st.sampled_from(sorted(STATELESS)), policies)
def test_an_operator_without_state_asks_for_no_input_that_it_has_let_go(seed, name, policy):
    make, _, inputs_count = STATELESS[name]
    rng = random.Random(seed)
    inputs = [make_input(rng, j, rng.choice([3, 40, 150])) for j in range(inputs_count)]
    run = acknowledging_run(seed, make, inputs, [SCHEMA] * inputs_count, policy)
    # Without state nothing is needed but what comes.
    ends = [rows[-1].offset + 1 for rows in inputs]
    assert [each.consumer.effects_saved for each in run.sources] == ends


def test_the_runs_above_crash_and_let_go():
    runs = [aggregate_run(seed, CountWindow(7), "tight") for seed in range(20)]
    assert sum(run.crashes for run in runs) > 20
    assert sum(run.acknowledged > 30 for run in runs) > 8


def test_nothing_is_acknowledged_before_the_output_it_stands_for_is_on_disk():
    let_go = 0
    for seed in range(25):
        rng = random.Random(seed)
        rows = make_input(rng, 0, 150)
        source = TrimmedSource(rows, SCHEMA, rng, Heard())
        operator = functools.partial(
            Aggregate, group_by=["k"], aggregates=AGGREGATES, window=CountWindow(7),
            input_schema=SCHEMA,
        )  # fmt: skip
        folder = SimulatedFolder()
        for _ in range(4):
            options = QueueOptions(segment_bytes=4_000, sync="none")
            queue = open_queue(folder, "a", schema=record_schema(operator()), options=options)
            runner = Runner(operator(), [source], queue, POLICIES["tight"], step_rows_max=5)
            for step in runner._steps(runner._position):
                runner.step(step)
                if rng.random() < 0.2:
                    runner.acknowledge()
                if rng.random() < 0.1:
                    break
            cut = power_cut(folder.snapshot(), rng)
            queue.close()
            folder = SimulatedFolder(cut)
        let_go += source.consumer.effects_saved
    assert let_go > 500


def test_frames_without_records_are_sound_and_the_index_passes_over_them(tmp_path):
    """A filter says by them how far it is, where it lets nothing pass."""
    rows = a_rows_queue(60)
    seldom = Filter(lambda batch: pa.array(batch.column("v").to_numpy() % 20 == 0), ROWS)
    with (
        rows.consumer("seldom") as consumer,
        open_queue(tmp_path / "queue", "a", schema=record_schema(seldom)) as queue,
    ):
        runner = Runner(
            seldom, [QueueSource(rows.chain, consumer)], queue, step_rows_max=3,
            acknowledge_interval_s=0,
        )  # fmt: skip
        runner.run()
        assert consumer.effects_saved == 60
        assert queue.reindex() == len(list(queue.chain().frames())) > queue.end_offset == 3
        assert [row["v"] for row in output_of(queue)] == [0, 20, 40]
        assert queue.position_at(30).offset == 2
        assert queue.rebuild().replay_from.tolist() == [60]
    found = verify(LocalFolder(tmp_path / "queue"))
    assert (found.faults, found.notes) == ((), ())
    assert found.index.startswith("covers")


# -- the cause function, without checkpoints --------------------------------------------------

PROBE = pa.schema([("k", pa.int64()), ("o", pa.int64()), ("t", pa.timestamp("us"))])


def probe_rows(seed: int, rows: int, keys: int = 3) -> pa.Table:
    """Each row carries its own offset; times never fall."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.choice([0, 1, 5], rows))
    return pa.table(
        [rng.integers(0, keys, rows), np.arange(rows), pa.array(times).cast(PROBE.field("t").type)],
        schema=PROBE,
    )


def without_checkpoints(operator, tables, step_rows_max=1):
    """The queue and its runner after everything; its sources have consumers."""
    sources = []
    for table in tables:
        sources.append(ArrowSource(table, "t"))
        sources[-1].consumer = Heard()
    queue = open_queue(MemoryFolder({}), "a", schema=record_schema(operator))
    runner = Runner(operator, sources, queue, checkpoints=False, step_rows_max=step_rows_max)
    for step in runner._steps(runner._position):
        runner.step(step)
    queue.sync()
    return queue, runner, sources


def first_rows(queue, columns) -> np.ndarray:
    """For each record the earliest input row in it, one column an input."""
    table = pa.Table.from_batches(queue.replay())
    return np.stack([table.column(name).to_numpy() for name in columns], axis=1)


@pytest.mark.parametrize("step_rows_max", [1, 7, 1000])
@pytest.mark.parametrize(
    "window", [CountWindow(4), CountWindow(5, 2), TimeWindow(20), TimeWindow(30, 10)]
)
def test_the_cause_is_the_first_row_of_the_oldest_window_open_then(window, step_rows_max):
    operator = Aggregate(
        group_by=["k"], aggregates={"first": ("min", "o")}, window=window, input_schema=PROBE
    )
    queue, runner, _ = without_checkpoints(operator, [probe_rows(1, 300)], step_rows_max)
    first = first_rows(queue, ["first"])[:, 0]
    causes = np.array([runner.cause(offset)[0] for offset in range(queue.end_offset + 1)])
    assert (np.diff(causes) >= 0).all()
    # All rows that go into what comes at or after an output are at or after its cause.
    needed = np.minimum.accumulate(first[::-1])[::-1]
    assert (causes[:-1] <= needed).all()
    if step_rows_max == 1:
        # Of the windows that are open at an output, the first rows: those that close later and
        # had begun, and (time windows) the row that the watermark comes from.
        began = np.concatenate([[0], after_rows(queue)[:-1]])
        expected = [min([*first[n:][first[n:] < began[n]], began[n]]) for n in range(len(first))]
        slack = np.array(expected) - causes[:-1]
        assert (slack >= 0).all()
        assert slack[: len(slack) // 2].max() <= (0 if isinstance(window, CountWindow) else 8)


def after_rows(queue) -> np.ndarray:
    """The next unread input row after the one that caused each record."""
    chain = queue.chain()
    return np.concatenate([chain.records(f).column("_input_0").to_numpy() for f in chain.frames()])


@pytest.mark.parametrize("step_rows_max", [1, 7, 1000])
def test_the_cause_of_a_pair_is_the_earliest_row_that_waits(step_rows_max):
    left, right = probe_rows(2, 200), probe_rows(3, 200)
    operator = WindowJoin(PROBE, PROBE, on=["k"], within_us=15)
    queue, runner, _ = without_checkpoints(operator, [left, right], step_rows_max)
    first = first_rows(queue, ["o_left", "o_right"])
    causes = np.array([runner.cause(offset) for offset in range(queue.end_offset + 1)])
    assert (np.diff(causes, axis=0) >= 0).all()
    assert (causes[:-1] <= np.minimum.accumulate(first[::-1])[::-1]).all()
    assert causes[-1].min() > 150


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (lambda: Filter(lambda b: pa.array(b.column("k").to_numpy() == 1), PROBE), 1),
        (lambda: Map({"o": lambda b: b.column("o")}, PROBE), 1),
        (lambda: Union(PROBE, 2), 2),
    ],
)
def test_without_state_the_cause_is_the_next_row(make, inputs):
    tables = [probe_rows(seed, 60) for seed in range(inputs)]
    queue, runner, _ = without_checkpoints(make(), tables)
    chain = queue.chain()
    after = [
        np.concatenate([chain.records(f).column(f"_input_{n}").to_numpy() for f in chain.frames()])
        for n in range(inputs)
    ]
    for offset in range(1, queue.end_offset):
        if inputs == 1:  # what the filter has dropped before it is not needed either
            assert runner.cause(offset) == (after[0][offset] - 1,)
        else:
            assert runner.cause(offset) == tuple(each[offset - 1] for each in after)
    assert runner.cause(queue.end_offset) == (60,) * inputs


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["filter", "union", "join", "time"])
def test_from_its_cause_on_the_input_makes_the_rest_of_the_output_again(name, seed):
    """Upstream backup: an empty operator, fed from there, goes on as the one that was lost."""
    makers = {
        "filter": lambda: Filter(lambda b: pa.array(b.column("k").to_numpy() == 1), PROBE),
        "union": lambda: Union(PROBE, 2),
        "join": lambda: WindowJoin(PROBE, PROBE, on=["k"], within_us=15),
        "time": lambda: Aggregate(
            group_by=["k"], aggregates={"first": ("min", "o")}, window=TimeWindow(20, 10),
            input_schema=PROBE,
        ),
    }  # fmt: skip
    make = makers[name]
    tables = [probe_rows(10 * seed + n, 150) for n in range(make().inputs)]
    queue, runner, _ = without_checkpoints(make(), tables, step_rows_max=4)
    rows = output_of(queue)
    for offset in range(0, queue.end_offset, 17):
        again_queue = open_queue(MemoryFolder({}), "a", schema=record_schema(make()))
        again = Runner(make(), [ArrowSource(table, "t") for table in tables], again_queue)
        again._position = np.array(runner.cause(offset))
        again.run()
        made = output_of(again_queue)
        assert made[len(made) - (len(rows) - offset) :] == rows[offset:]


@pytest.mark.parametrize("has_slow_consumer", [False, True])
def test_level_1_without_checkpoints_is_the_cause_of_what_is_durable(has_slow_consumer):
    """Output that is in the log needs no input any more, whoever has read it."""
    queue, runner, (source,) = without_checkpoints(
        Aggregate(
            group_by=["k"],
            aggregates={"first": ("min", "o")},
            window=TimeWindow(20),
            input_schema=PROBE,
        ),
        [probe_rows(5, 300)],
    )
    if has_slow_consumer:
        queue.consumer("slow", start=0).close()
    causes = [runner.cause(offset)[0] for offset in range(queue.end_offset + 1)]
    runner.acknowledge()
    assert source.consumer.received == 300
    assert source.consumer.effects_saved == causes[-1] > 280
    assert runner.cause(queue.end_offset) == (causes[-1],)
    with pytest.raises(OutOfRange, match="indicators are kept from offset"):
        runner.cause(3)


def test_windows_that_never_align_again_keep_all_their_input():
    """Begun in the middle of the input, windows of counted rows would hold other rows."""
    _, runner, (source,) = without_checkpoints(
        Aggregate(
            group_by=["k"],
            aggregates={"first": ("min", "o")},
            window=CountWindow(4),
            input_schema=PROBE,
        ),
        [probe_rows(5, 300)],
    )
    runner.acknowledge()
    assert (source.consumer.received, source.consumer.effects_saved) == (300, 0)


def test_who_keeps_no_indicators_says_so():
    queue = open_queue(MemoryFolder({}), "a", schema=record_schema(Union(PROBE, 1)))
    runner = Runner(Union(PROBE, 1), [ArrowSource(probe_rows(1, 9), "t")], queue, checkpoints=False)
    runner.run()
    with pytest.raises(RecoveryError, match="give a source a consumer"):
        runner.cause(0)


def test_old_indicators_get_sparse_and_ask_for_a_little_more(monkeypatch):
    monkeypatch.setattr(indicators, "_KEPT_MAX", 16)
    kept = NeededInput(0, np.array([0]))
    for end in range(1, 1000):
        kept.note(end, np.array([10 * end]))
    causes = [int(kept.cause(offset)[0]) for offset in range(1000)]
    assert causes == sorted(causes)
    assert all(cause <= 10 * offset for offset, cause in enumerate(causes))
    assert causes[-4:] == [9960, 9970, 9980, 9990]
    assert len(kept._ends) <= 16
    assert causes[0] == 0


# -- a runner and its consumer ----------------------------------------------------------------


def a_rows_queue(rows: int = 100):
    queue = open_queue(
        MemoryFolder({}),
        "a",
        schema=ROWS,
        options=QueueOptions(segment_bytes=1_500),
        retention="consumers",
    )
    for start in range(0, rows, 5):
        at = np.arange(start, start + 5)
        queue.append(pa.record_batch({"k": at % 3, "v": at}, schema=ROWS), pa.array(at))
    queue.sync()
    return queue


def summed() -> Aggregate:
    return Aggregate(
        group_by=["k"], aggregates={"v": ("sum", "v")}, window=CountWindow(4), input_schema=ROWS
    )


TIGHT = Targets(extent_factor=1.5, extent_floor=1)


def test_a_new_operator_on_a_trimmed_queue_starts_where_its_consumer_registered():
    rows = a_rows_queue()
    begin = rows.trim(40)
    with (
        rows.consumer("sums") as consumer,
        open_queue(MemoryFolder({}), "a", schema=record_schema(summed())) as queue,
    ):
        runner = Runner(summed(), [QueueSource(rows.chain, consumer)], queue, TIGHT)
        runner.run()
        assert 0 < begin <= 40
        made = output_of(queue)
        assert made[0]["v"] == sum(range(begin, begin + 12, 3))
        assert rows.trim() > begin
    fresh = open_queue(MemoryFolder({}), "a", schema=record_schema(summed()))
    with pytest.raises(OutOfRange):
        Runner(summed(), [QueueSource(rows.chain)], fresh).run()


def test_an_operator_whose_queue_is_gone_does_not_start_in_the_middle():
    rows = a_rows_queue()
    with rows.consumer("sums") as consumer:
        source = QueueSource(rows.chain, consumer)
        with open_queue(MemoryFolder({}), "a", schema=record_schema(summed())) as queue:
            Runner(summed(), [source], queue, TIGHT).run()
        assert consumer.effects_saved > 0
        fresh = open_queue(MemoryFolder({}), "a", schema=record_schema(summed()))
        with pytest.raises(
            RecoveryError, match=r"consumer 'sums' .* saved up to \d+; give it back"
        ):
            Runner(summed(), [source], fresh)
        assert fresh.end_offset == 0


def test_two_inputs_have_consumers_of_their_own():
    rows = a_rows_queue()
    both = Union(ROWS, 2)
    with rows.consumer("left") as left, rows.consumer("right") as right:
        queue = open_queue(MemoryFolder({}), "a", schema=record_schema(both))
        with pytest.raises(ValueError, match="two inputs have one consumer"):
            Runner(both, [QueueSource(rows.chain, left), QueueSource(rows.chain, left)], queue)
        sources = [QueueSource(rows.chain, each, has_ended=True) for each in (left, right)]
        Runner(both, sources, queue).run()
        assert left.effects_saved == right.effects_saved == 100
        assert rows.trim() > 80


def test_a_run_acknowledges_at_intervals():
    rows = a_rows_queue()
    with (
        rows.consumer("sums") as consumer,
        open_queue(MemoryFolder({}), "a", schema=record_schema(summed())) as queue,
    ):
        heard = []
        clock = iter(range(10_000))
        runner = Runner(
            summed(), [QueueSource(rows.chain, consumer)], queue, TIGHT, step_rows_max=5,
            acknowledge_interval_s=3, clock_s=lambda: next(clock),
        )  # fmt: skip
        runner.run(lambda _: heard.append(consumer.received))
        assert sorted(set(heard)) == heard[:1] + sorted(set(heard))[1:]
        assert 3 < len(set(heard)) < 15
        assert consumer.received == 100


def test_a_trim_beside_a_source_does_not_hide_rows_that_are_still_there():
    rows = a_rows_queue()
    segments = rows.chain().segments
    for segment_id in range(segments[-1]):
        rows = a_rows_queue()
        folder = rows.folder
        source = QueueSource(open_queue(folder).chain)

        def before(call: str, name: str, wanted=segment_id, queue=rows, folder=folder) -> None:
            if call == "read" and segment_id_of(name) == wanted:
                folder.before = lambda call, name: None
                queue.trim(60)

        folder.before = before
        read = [offset for batch in source.read(60) for offset in batch.offsets.tolist()]
        assert read == list(range(60, 100))
