"""A replay is a slice of the log, found by moment or position, and loses nothing as it goes."""

import random
import threading
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store import (
    OutOfRange,
    OutputQueue,
    Position,
    QueueOptions,
    RecordKind,
    open_queue,
    read_queue,
)
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.inputs.sources import ArrowSource, QueueSource
from cec_store.operators.runner import Runner, record_schema
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, to_timestamp_us
from support.disks.memory_folder import MemoryFolder

SCHEMA = pa.schema({"v": pa.int64()})
EXTREMES = (0, -1, 1, MIN_TIMESTAMP_US, MAX_TIMESTAMP_US)
UTC = timezone.utc


def append(queue: OutputQueue, first: int, times: list[int]) -> None:
    batch = pa.record_batch([pa.array(range(first, first + len(times)))], schema=SCHEMA)
    queue.append(batch, pa.array(times, pa.int64()))


def random_queue(rng: random.Random) -> tuple[OutputQueue, list[int]]:
    """A queue whose row v has times[v]; timestamps repeat, go backward and are extreme."""
    options = QueueOptions(segment_bytes=rng.choice([1_500, 1 << 20]), sync="none")
    queue = open_queue(MemoryFolder(), "x", schema=SCHEMA, options=options)
    times: list[int] = []
    for _ in range(rng.choice([0, 1, 30])):
        here = rng.randrange(-50, 50)
        part = [rng.choice([here, here + 1, here - 40]) for _ in range(rng.choice([0, 1, 7]))]
        if rng.random() < 0.05:
            part.append(rng.choice(EXTREMES))
        append(queue, len(times), part)
        times += part
    queue.sync()
    return queue, times


def first_at(times: list[int], moment: int, start: int = 0) -> int:
    """By looking at each."""
    return next((v for v in range(start, len(times)) if times[v] >= moment), len(times))


def rows_of(replay) -> list[int]:
    return [v for batch in replay for v in batch.column("v").to_pylist()]


moments = st.one_of(st.none(), st.integers(-60, 60), st.sampled_from(EXTREMES))


def is_between(time: int, since: int | None, until: int | None) -> bool:
    return (since is None or since <= time) and (until is None or time < until)


@given(st.integers(0, 2**32), moments, moments)
def test_a_replay_between_two_moments_has_exactly_the_rows_of_that_time(seed, since, until):
    queue, times = random_queue(random.Random(seed))
    expected = [v for v, time in enumerate(times) if is_between(time, since, until)]
    with queue:
        assert rows_of(queue.replay(since, until)) == expected
        if since is not None:
            assert queue.position_at(since) == Position(first_at(times, since))


@given(st.integers(0, 2**32), moments, moments, moments)
def test_a_replay_from_a_moment_has_all_rows_from_the_first_that_is_as_young(
    seed, moment, since, until
):
    queue, times = random_queue(random.Random(seed))
    start = 0 if moment is None else first_at(times, moment)
    expected = [v for v in range(start, len(times)) if is_between(times[v], since, until)]
    with queue:
        assert rows_of(queue.replay(since, until, from_moment=moment)) == expected


@given(st.integers(0, 2**32), moments, moments, st.integers(0, 300))
def test_a_replay_between_moments_goes_on_from_a_stored_cursor(seed, since, until, batches):
    queue, times = random_queue(random.Random(seed))
    expected = [v for v, time in enumerate(times) if is_between(time, since, until)]
    with queue:
        replay = queue.replay(since, until)
        found = rows_of(islice(replay, batches))
        found += rows_of(queue.replay(since, until, from_moment=replay.cursor))
        assert found == expected


def test_frames_outside_the_time_asked_for_are_not_read():
    with open_queue(MemoryFolder(), "x", schema=SCHEMA) as queue:
        for first, times in enumerate([[9], [1, 2], [5, 9], [2], [6], [20], [5]]):
            append(queue, 10 * first, times)
        queue.sync()
        replay = queue.replay(since=5, until=9)
        read = []
        records = replay._chain.records

        def noted(frame, **wanted):
            read.append(frame.header.seq)
            return records(frame, **wanted)

        replay._chain.records = noted
        assert rows_of(replay) == [20, 40, 60]
        assert read == [2, 4, 6]


@given(st.integers(0, 2**32))
def test_a_replay_between_two_positions_equals_a_slice(seed):
    rng = random.Random(seed)
    queue, times = random_queue(rng)
    start, stop = rng.randrange(len(times) + 1), rng.randrange(len(times) + 1)
    with queue:
        found = rows_of(queue.replay(Position(start), Position(stop)))
        assert found == list(range(start, max(start, stop)))


@given(st.integers(0, 2**32))
def test_a_replay_goes_on_from_a_stored_cursor(seed):
    rng = random.Random(seed)
    queue, times = random_queue(rng)
    rows, cursor = [], Position(0)
    with queue:
        while cursor.offset < len(times):
            replay = queue.replay(cursor)
            for batch in replay:
                rows += batch.column("v").to_pylist()
                cursor = replay.cursor
                assert cursor == Position(len(rows))
                if rng.random() < 0.5:
                    break
        assert rows == list(range(len(times)))


def test_metadata_says_when_what_and_where():
    with open_queue(MemoryFolder(), "x", schema=SCHEMA) as queue:
        append(queue, 0, [5, 3])
        queue.sync()
        (batch,) = queue.replay(include_metadata=True)
        assert batch.schema.names == ["v", "_timestamp", "_kind", "_offset"]
        assert batch.column("_timestamp").cast(pa.int64()).to_pylist() == [5, 3]
        assert batch.column("_kind").to_pylist() == [RecordKind.DATA] * 2
        assert batch.column("_offset").to_pylist() == [0, 1]


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2013, 1, 1, 12, tzinfo=UTC),
        datetime(2013, 1, 1, 12),
        datetime(2013, 1, 1, 7, tzinfo=timezone(timedelta(hours=-5))),
        to_timestamp_us(datetime(2013, 1, 1, 12, tzinfo=UTC)),
    ],
)
def test_a_moment_is_a_datetime_or_epoch_microseconds(moment):
    day = to_timestamp_us(datetime(2013, 1, 1, tzinfo=UTC))
    with open_queue(MemoryFolder(), "x", schema=SCHEMA) as queue:
        append(queue, 0, [day + hour * 3_600_000_000 for hour in range(24)])
        queue.sync()
        assert rows_of(queue.replay(since=moment)) == list(range(12, 24))


@pytest.mark.parametrize("moment", [b"2013-01-01", 1.5, True])
def test_anything_else_is_no_moment(moment):
    with (
        open_queue(MemoryFolder(), "x", schema=SCHEMA) as queue,
        pytest.raises(TypeError, match="a moment is"),
    ):
        queue.replay(since=moment)


def test_positions_outside_the_queue_are_refused():
    options = QueueOptions(segment_bytes=1_500)
    with open_queue(MemoryFolder(), "x", schema=SCHEMA, options=options) as queue:
        for first in range(0, 100, 10):
            append(queue, first, [first] * 10)
        queue.sync()
        oldest = queue.trim(50)
        assert 0 < oldest <= 50
        with pytest.raises(OutOfRange):
            rows_of(queue.replay(Position(oldest - 1)))
        with pytest.raises(OutOfRange):
            rows_of(queue.replay(Position(101)))
        assert rows_of(queue.replay()) == list(range(oldest, 100))
        assert rows_of(queue.replay(since=MIN_TIMESTAMP_US)) == list(range(oldest, 100))


def test_only_what_is_durable_is_handed_out():
    options = QueueOptions(sync="none")
    with open_queue(MemoryFolder(), "x", schema=SCHEMA, options=options) as queue:
        append(queue, 0, [1] * 10)
        queue.sync()
        append(queue, 10, [2] * 10)
        assert queue.end_offset == 20
        assert queue.durable_offset == 10
        assert rows_of(queue.replay()) == list(range(10))
        queue.sync()
        assert rows_of(queue.replay()) == list(range(20))


def test_a_follower_gets_every_record_once_across_rolls_and_reopening():
    folder = MemoryFolder()
    options = QueueOptions(segment_bytes=3_000, sync="none")
    queue = open_queue(folder, "x", schema=SCHEMA, options=options)
    replay, rows = queue.replay(follow=True), []
    thread = threading.Thread(target=lambda: rows.extend(rows_of(replay)), daemon=True)
    thread.start()
    for first in range(0, 600, 5):
        append(queue, first, [first] * 5)
        if first % 50 == 0:
            queue.sync()
        if first == 300:
            queue.close()
            queue = open_queue(folder, "a", options=options)
    queue.sync()
    caught_up = threading.Event()
    for _ in range(500):
        if replay.cursor.offset == 600:
            break
        caught_up.wait(0.01)
    replay.stop()
    thread.join(5)
    queue.close()
    assert not thread.is_alive()
    assert rows == list(range(600))


def test_a_follower_ends_at_its_limit():
    with open_queue(MemoryFolder(), "x", schema=SCHEMA) as queue:
        append(queue, 0, [1, 2, 3, 9, 4])
        queue.sync()
        assert rows_of(queue.replay(until=Position(4), follow=True)) == [0, 1, 2, 3]


def test_a_follower_waits_for_rows_of_an_earlier_moment():
    with open_queue(MemoryFolder(), "x", schema=SCHEMA) as queue:
        append(queue, 0, [1, 9, 2])
        queue.sync()
        replay = queue.replay(until=5, follow=True)
        assert next(replay)["v"].to_pylist() == [0, 2]
        append(queue, 3, [9])
        append(queue, 4, [4])
        queue.sync()
        assert next(replay)["v"].to_pylist() == [4]


def averaged(table: pa.Table, folder: MemoryFolder) -> OutputQueue:
    operator = Aggregate(
        group_by=["k"],
        aggregates={"v": ("sum", "v")},
        window=CountWindow(3),
        input_schema=table.schema,
    )
    queue = open_queue(folder, "x", schema=record_schema(operator))
    Runner(operator, [ArrowSource(table, "t", 50)], queue).run()
    return queue


def flow(rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    times = pa.array(np.arange(rows)).cast(pa.timestamp("us"))
    return pa.table({"t": times, "k": rng.integers(0, 20, rows), "v": np.arange(rows)})


def test_footprints_are_left_out_unless_asked_for():
    with averaged(flow(500), MemoryFolder()) as queue:
        assert {batch.num_rows for batch in queue.replay()}
        kinds = [
            kind
            for batch in queue.replay(kinds=set(RecordKind), include_metadata=True)
            for kind in batch.column("_kind").to_pylist()
        ]
        assert kinds.count(RecordKind.OPEN) > 0
        assert len(kinds) == queue.end_offset
        results = sum(batch.num_rows for batch in queue.replay())
        assert kinds.count(RecordKind.RESULT) == results


@given(st.integers(0, 300), st.one_of(st.none(), st.integers(0, 300)))
def test_an_upstream_queue_is_read_again_from_any_offset(start, stop):
    with averaged(FLOW, MemoryFolder()) as queue:
        source = QueueSource(queue.chain)
        (whole,) = [[(o, v) for b in source.read(0) for o, v in pairs(b)]]
        if start > queue.end_offset:
            with pytest.raises(OutOfRange, match=f"offset {start} .* beyond the end"):
                next(source.read(start, stop))
            return
        part = [(o, v) for b in source.read(start, stop) for o, v in pairs(b)]
        end = queue.end_offset if stop is None else stop
        assert part == [(offset, value) for offset, value in whole if start <= offset < end]


FLOW = flow(400)


def pairs(batch) -> list[tuple[int, int]]:
    return list(zip(batch.offsets.tolist(), batch.batch.column("v").to_pylist(), strict=True))


@pytest.mark.parametrize("kind", [pa.decimal128(20, 2), pa.decimal256(40, 2)], ids=str)
@pytest.mark.parametrize("partitions", [None, 1])
def test_decimals_are_aligned_for_readers_in_rust(
    tmp_path: Path, kind: pa.DataType, partitions: int | None
) -> None:
    schema = pa.schema([("n", pa.int8()), ("d", kind)])
    expected = []
    with open_queue(tmp_path / "q", "a", schema=schema, partitions=partitions) as queue:
        for count in range(1, 30):
            values = [Decimal(number) for number in range(count)]
            queue.append(pa.table({"n": [1] * count, "d": values}, schema))
            expected += values
    batches = list(read_queue(tmp_path / "q"))
    assert {batch["d"].buffers()[1].address % 16 for batch in batches} == {0}
    assert pa.Table.from_batches(batches)["d"].to_pylist() == expected


@pytest.mark.parametrize("partitions", [None, 1])
@pytest.mark.parametrize("is_nested", [False, True], ids=["", "in a struct"])
def test_sparse_unions_are_no_slices_which_others_read_wrongly(
    tmp_path: Path, partitions: int | None, is_nested: bool
) -> None:
    codes = pa.array([0, 1, 0, 1], pa.int8())
    members = [pa.array([1, 2, 3, 4]), pa.array(["w", "x", "y", "z"])]
    column: pa.Array = pa.UnionArray.from_sparse(codes, members)
    if is_nested:
        column = pa.StructArray.from_arrays([column], ["u"])
    table = pa.table({"c": column, "n": range(4)})
    with open_queue(tmp_path / "q", "a", schema=table.schema, partitions=partitions) as queue:
        queue.append(table)
    with open_queue(tmp_path / "q", "r") as queue:
        since, until = Position(1), Position(3)
        asked = queue.replay(since, until) if partitions is None else queue.replay(0, since, until)
        [batch] = asked
    assert batch["c"].to_pylist() == column.to_pylist()[1:3]
    assert batch["c"].offset == 0
    assert batch["n"].to_pylist() == [1, 2]
