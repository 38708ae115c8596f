"""The options of who reads a queue: one test for each rule of the Kafka source."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store import values
from cec_store.errors import OutOfRange, QueueReplaced
from cec_store.format.schema import RecordKind
from cec_store.log.positions import Behind
from cec_store.partitioned.offsets import (
    EARLIEST,
    LATEST,
    Admission,
    AvailableOffsets,
    Bound,
    Positions,
    Range,
    cut,
    limited,
)
from cec_store.partitioned.read_options import ReadOptions, parse
from support.vectors.moments import MOMENTS, NOW_US

ID = "0123456789abcdef" * 2


def options(is_stream: bool = True, **given: str) -> ReadOptions:
    return parse({"path": "/q", **given}, is_stream=is_stream)


def available(fail: bool = True) -> AvailableOffsets:
    """Partition 0 holds offsets 10 to 99 with the times 1000 to 9900, partition 1 is empty."""

    def offset_at(number: int, timestamp_us: int) -> int | None:
        if number == 1 or timestamp_us > 9900:
            return None
        return max(10, -(-timestamp_us // 100))

    def has_behind(behind: Behind) -> bool:
        return behind == Behind(7, 77)

    firsts, ends = {0: 10, 1: 0}, {0: 100, 1: 0}
    written = {**ends, 0: 104}
    return AvailableOffsets("/q", ID, firsts, ends, written, offset_at, has_behind, fail)


def start(fail: bool = True, is_stream: bool = True, **given: str) -> dict[int, int]:
    said = options(is_stream, **given)
    return available(fail).starting(
        said.starting, without_match_is_latest=said.start_without_match_is_latest
    )


# -- where a query begins ----------------------------------------------------------------------


def test_a_stream_begins_at_the_latest_by_default() -> None:
    assert start() == {0: 100, 1: 0}


def test_a_batch_begins_at_the_earliest_by_default() -> None:
    assert start(is_stream=False) == {0: 10, 1: 0}


def test_offsets_by_word_are_taken_in_any_case() -> None:
    assert start(startingOffsets="Earliest") == {0: 10, 1: 0}
    assert start(startingOffsets="LATEST") == {0: 100, 1: 0}


def test_offsets_by_partition_may_say_earliest_and_latest() -> None:
    assert start(startingOffsets='{"0":-2,"1":-1}') == {0: 10, 1: 0}
    assert start(startingOffsets='{"0":42,"1":0}') == {0: 42, 1: 0}


def test_offsets_by_partition_may_stand_under_the_name_of_the_queue() -> None:
    assert start(startingOffsets='{"q":{"0":42,"1":0}}') == {0: 42, 1: 0}


@pytest.mark.parametrize("name", ["startingOffsets", "startingOffsetsByTimestamp"])
@pytest.mark.parametrize("outer", ["trades", "Q", "", "/q", ID[:-1], ID.upper()])
def test_offsets_under_the_name_of_another_queue_are_refused(name: str, outer: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is of '{outer}', and this queue is 'q'"):
        start(**{name: json.dumps({outer: {"0": 42, "1": 0}})})


def test_offsets_under_the_id_of_a_queue_have_to_be_that_queues() -> None:
    """A query can begin where another one is, by the position in that one's checkpoint."""
    text = '{"%s":{"0":42,"1":0},"behind":"7-%016x"}'
    other, mine = "0" * 31 + "1", ID
    assert start(startingOffsets=text % (mine, 77)) == {0: 42, 1: 0}
    with pytest.raises(QueueReplaced, match=f"of queue {other}, and another one is here now"):
        start(startingOffsets=text % (other, 77))
    assert start(fail=False, startingOffsets=text % (other, 77)) == {0: 10, 1: 0}
    with pytest.raises(QueueReplaced, match="behind commit 7-000000000000004e, which is not"):
        start(startingOffsets=text % (mine, 78))
    assert start(fail=False, startingOffsets=text % (mine, 78)) == {0: 42, 1: 0}


def test_offsets_must_name_every_partition() -> None:
    for text in ('{"0":42}', '{"0":42,"1":0,"2":0}'):
        with pytest.raises(ValueError, match="name them all"):
            start(startingOffsets=text)
    with pytest.raises(ValueError, match="name them all"):
        start(startingOffsetsByTimestamp='{"0":1}')


def test_a_timestamp_wins_over_timestamps_by_partition_and_those_over_offsets() -> None:
    by_partition = '{"0":2,"1":2}'
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    offsets = {"startingOffsets": "earliest"}
    both: dict[str, Any] = {"startingOffsetsByTimestamp": by_partition, **offsets, **strategy}
    assert start(**offsets) == {0: 10, 1: 0}
    assert start(**both) == {0: 20, 1: 0}
    assert start(startingTimestamp="3", **both) == {0: 30, 1: 0}


def test_timestamps_are_milliseconds() -> None:
    assert options(startingTimestamp="1700000000123").starting == Bound(
        timestamp_us=1_700_000_000_123_000
    )
    with pytest.raises(ValueError, match="startingOffsetsByTimestamp: milliseconds"):
        options(startingOffsetsByTimestamp='{"0":-1}')


@pytest.mark.parametrize("text", MOMENTS)
def test_a_moment_is_what_it_is_elsewhere(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers alone are milliseconds, as in Spark's other sources."""
    monkeypatch.setattr(values, "_now_us", lambda: NOW_US)
    expected = MOMENTS[text]
    for name, is_stream in (("startingTimestamp", True), ("endingTimestamp", False)):
        if expected is None:
            with pytest.raises(ValueError, match=f"{name}: milliseconds since 1970, or a moment"):
                options(is_stream, **{name: text})
        else:
            read = options(is_stream, **{name: text})
            bound = read.starting if is_stream else read.ending
            assert bound == Bound(timestamp_us=expected)
    if expected is not None and not text.strip().isdigit():
        assert values.to_timestamp_us(text) == expected


def test_no_record_that_late_is_an_error_by_default() -> None:
    with pytest.raises(OutOfRange, match="partition 1 has no record at or after"):
        start(startingTimestamp="2")


def test_no_record_that_late_is_the_latest_where_asked_for() -> None:
    found = start(startingTimestamp="2", startingOffsetsByTimestampStrategy="latest")
    assert found == {0: 20, 1: 0}
    with pytest.raises(ValueError, match="'error' or 'latest'"):
        options(startingOffsetsByTimestampStrategy="earliest")


def test_a_batch_cannot_begin_at_the_latest() -> None:
    for text in ("latest", '{"0":-1,"1":0}'):
        with pytest.raises(ValueError, match="can't be latest for batch"):
            options(is_stream=False, startingOffsets=text)


def test_a_start_that_is_trimmed_is_lost_data() -> None:
    with pytest.raises(
        OutOfRange, match=r"offset 3 is not in 10 … 100: it is trimmed.*failOnDataLoss"
    ):
        start(startingOffsets='{"0":3,"1":0}')
    assert start(fail=False, startingOffsets='{"0":3,"1":0}') == {0: 10, 1: 0}


def test_a_start_beyond_the_end_is_lost_data() -> None:
    with pytest.raises(OutOfRange, match="beyond the end"):
        start(startingOffsets='{"0":101,"1":0}')
    assert start(fail=False, startingOffsets='{"0":101,"1":0}') == {0: 100, 1: 0}


def test_a_partition_that_was_added_since_and_is_trimmed_is_lost_data() -> None:
    """A query that has never seen it would begin at 0."""
    seen = Positions(ID, {1: 0})
    with pytest.raises(OutOfRange, match=r"partition 0.* begins at 10 instead of 0: it is trimmed"):
        available().resumed(seen)
    assert available(fail=False).resumed(seen) == {0: 10, 1: 0}


# -- where a batch ends ------------------------------------------------------------------------


def end(**given: str) -> dict[int, int]:
    return available().ending(options(is_stream=False, **given).ending)


def test_a_batch_ends_at_the_latest_by_default() -> None:
    assert end() == {0: 100, 1: 0}


def test_a_batch_ends_where_it_is_told_to() -> None:
    assert end(endingOffsets='{"0":50,"1":-1}') == {0: 50, 1: 0}
    assert end(endingTimestamp="5") == {0: 50, 1: 0}
    assert end(endingOffsetsByTimestamp='{"0":5,"1":5}', endingOffsets="latest") == {0: 50, 1: 0}


def test_a_batch_without_a_record_that_late_ends_at_the_latest() -> None:
    assert end(endingTimestamp="99999") == {0: 100, 1: 0}


def test_a_batch_cannot_end_at_the_earliest() -> None:
    for text in ("earliest", '{"0":-2,"1":0}'):
        with pytest.raises(ValueError, match="can't be earliest for batch"):
            options(is_stream=False, endingOffsets=text)


@pytest.mark.parametrize(
    "name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "ENDINGOFFSETS"]
)
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(ValueError, match="not valid in streaming queries"):
        options(**{name: "1"})


# -- how much a batch takes --------------------------------------------------------------------


def test_the_maximum_is_shared_in_proportion() -> None:
    assert limited({0: 0, 1: 0}, {0: 900, 1: 100}, 100) == {0: 89, 1: 10}
    assert limited({0: 0, 1: 50}, {0: 900, 1: 51}, 100) == {0: 99, 1: 51}


def test_no_partition_waits_for_ever_behind_large_ones() -> None:
    ends = {0: 10**9, **dict.fromkeys(range(1, 5), 100)}
    assert limited(dict.fromkeys(ends, 0), ends, 1000) == {0: 995, 1: 1, 2: 1, 3: 1, 4: 1}
    start, ends = dict.fromkeys(range(4), 0), dict.fromkeys(range(4), 100)
    for _ in range(40):  # fewer records than partitions
        start = limited(start, ends, 2)
    assert min(start.values()) > 10


counts = st.dictionaries(st.integers(0, 9), st.integers(0, 10**6), min_size=1)


@given(counts, st.integers(1, 10**6))
def test_the_maximum_is_kept_and_every_turn_gets_on(waiting: dict[int, int], most: int) -> None:
    begin = dict.fromkeys(waiting, 7)
    ends = {number: 7 + size for number, size in waiting.items()}
    found = limited(begin, ends, most)
    taken = {number: found[number] - 7 for number in waiting}
    assert all(0 <= taken[number] <= waiting[number] for number in waiting)
    assert sum(taken.values()) <= most
    assert sum(taken.values()) > 0 or not any(waiting.values())


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_too_few_records_wait_until_the_delay_is_over() -> None:
    clock = Clock()
    admission = Admission(100, None, 60, clock)
    assert admission.next({0: 5}, {0: 50}, is_bounded=False) == {0: 5}
    clock.now_s = 59
    assert admission.next({0: 5}, {0: 104}, is_bounded=False) == {0: 5}
    assert admission.next({0: 5}, {0: 105}, is_bounded=False) == {0: 105}
    clock.now_s = 118
    assert admission.next({0: 105}, {0: 106}, is_bounded=False) == {0: 105}
    clock.now_s = 119
    assert admission.next({0: 105}, {0: 106}, is_bounded=False) == {0: 106}


def test_too_few_records_do_not_wait_where_no_more_will_come() -> None:
    admission = Admission(100, None, 60, Clock())
    assert admission.next({0: 5}, {0: 50}, is_bounded=True) == {0: 50}


def test_the_minimum_is_not_above_the_maximum() -> None:
    with pytest.raises(ValueError, match="above maxOffsetsPerTrigger"):
        options(minOffsetsPerTrigger="11", maxOffsetsPerTrigger="10")
    assert options(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="10")


def test_the_delay_is_a_time_of_fifteen_minutes_by_default() -> None:
    assert options().max_trigger_delay_s == 900
    assert options(maxTriggerDelay="30s").max_trigger_delay_s == 30
    assert options(maxTriggerDelay="250 ms").max_trigger_delay_s == 0.25
    with pytest.raises(ValueError, match="maxTriggerDelay"):
        options(maxTriggerDelay="soon")


# -- tasks -------------------------------------------------------------------------------------


def test_there_are_at_least_as_many_tasks_as_asked_for() -> None:
    ranges = [Range(0, 0, 900), Range(1, 0, 100), Range(2, 5, 5)]
    assert [piece.partition for piece in cut(ranges, 10, 10**6)] == [0] * 9 + [1]
    assert cut(ranges, 2, 10**6) == ranges[:2]
    assert cut(ranges, None, 10**6) == ranges[:2]


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 10**4)), min_size=1, max_size=6),
    st.none() | st.integers(1, 40),
    st.integers(1, 10**4),
)
def test_tasks_cover_every_record_once(
    sizes: list[tuple[int, int]], least: int | None, most: int
) -> None:
    ranges = [Range(n, first, first + size) for n, (first, size) in enumerate(sizes)]
    pieces = cut(ranges, least, most)
    for one in ranges:
        own = [(p.start, p.stop) for p in pieces if p.partition == one.partition]
        assert all(start < stop <= start + most for start, stop in own)
        assert sum(stop - start for start, stop in own) == one.stop - one.start
        starts = [start for start, _ in own]
        assert starts == ([one.start, *[stop for _, stop in own[:-1]]] if own else [])


# -- the rest ----------------------------------------------------------------------------------


def test_loss_fails_a_query_by_default() -> None:
    assert options().fail_on_data_loss
    assert not options(failOnDataLoss="FALSE").fail_on_data_loss
    with pytest.raises(ValueError, match="true or false"):
        options(failOnDataLoss="no")


def test_kinds_are_output_by_default() -> None:
    assert options().kinds == {RecordKind.DATA, RecordKind.RESULT}
    assert not options().has_control_records
    assert options(kinds="open, CHECK").kinds == {RecordKind.OPEN, RecordKind.CHECK}
    assert options(kinds="all").kinds == set(RecordKind)
    with pytest.raises(ValueError, match="data, open, check, result"):
        options(kinds="datum")


@pytest.mark.parametrize("name", ["minPartitions", "maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
@pytest.mark.parametrize("text", ["0", "-1", "few", "1.5", ""])
def test_counts_are_whole_numbers_above_0(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is a whole number above 0"):
        options(**{name: text})


@pytest.mark.parametrize(
    "text", ["[]", "{", "17", '{"a":1}', '{"0":"1"}', '{"0":true}', '{"0":-3}']
)
def test_offsets_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="startingOffsets"):
        options(startingOffsets=text)


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="no option 'startingoffset'"):
        options(startingOffset="earliest")
    with pytest.raises(ValueError, match="no path"):
        parse({}, is_stream=True)
    assert EARLIEST < LATEST < 0


def test_options_of_the_store_may_be_inside_of_one_another() -> None:
    given = {
        "storageOption.key": "who",
        "STORAGEOPTION.client_kwargs.region_name": "eu-west-1",
        "storageOption.client_kwargs.verify": "false",
    }
    kwargs = {"region_name": "eu-west-1", "verify": False}
    assert options(**given).storage == {"key": "who", "client_kwargs": kwargs}
    assert options().storage == {}
    with pytest.raises(ValueError, match="key has a value of its own"):
        options(**{"storageOption.key": "who", "storageOption.key.more": "x"})
    with pytest.raises(ValueError, match="no name of an option"):
        options(**{"storageOption.": "who"})
