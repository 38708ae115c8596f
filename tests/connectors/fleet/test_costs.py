"""What a query costs, by a clock of the test's own."""

import json

import pytest

from cec_store.connectors.spark.fleet.costs import QueryCost, is_caught_up
from cec_store.partitioned.offsets import Positions
from support.fleets.engine_double import ProgressDouble, SourceDouble

HALF_LIFE_S = 600.0
QUEUE = "a" * 32


def kept_up(cost: QueryCost, from_s: float, until_s: float, cores: float) -> QueryCost:
    """A batch a second, each of which takes what has come in that second."""
    at_s = from_s
    while at_s < until_s:
        at_s += 1.0
        cost = cost.spent(cores).caught_up(at_s, HALF_LIFE_S)
    return cost


def test_a_cost_is_that_of_the_time_that_its_input_came_in() -> None:
    cost = kept_up(QueryCost().caught_up(0.0, HALF_LIFE_S), 0.0, 100.0, 0.25)
    assert cost.cores == pytest.approx(0.25)
    # What was held back for a minute is caught up with at once.
    cost = cost.spent(60 * 0.25).caught_up(160.0, HALF_LIFE_S)
    assert cost.cores == pytest.approx(0.25)


def test_the_first_batches_say_nothing() -> None:
    cost = QueryCost().spent(100.0).caught_up(0.0, HALF_LIFE_S)
    assert cost.cores is None
    assert kept_up(cost, 0.0, 10.0, 0.5).cores == pytest.approx(0.5)


def test_what_was_measured_half_a_life_ago_counts_half() -> None:
    cost = kept_up(QueryCost().caught_up(0.0, HALF_LIFE_S), 0.0, 40_000.0, 1.0)
    cost = kept_up(cost, 40_000.0, 40_000.0 + HALF_LIFE_S, 3.0)
    assert cost.cores == pytest.approx(2.0, rel=0.01)


def test_a_night_without_input_is_soon_forgotten() -> None:
    cost = kept_up(QueryCost().caught_up(0.0, HALF_LIFE_S), 0.0, 1000.0, 1.0)
    morning_s = 1000.0 + 12 * 3600
    cost = cost.caught_up(morning_s, HALF_LIFE_S)
    cost = kept_up(cost, morning_s, morning_s + 2 * HALF_LIFE_S, 1.0)
    assert cost.cores == pytest.approx(0.75, rel=0.01)


def test_two_batches_at_one_moment_and_a_clock_set_back_do_no_harm() -> None:
    cost = kept_up(QueryCost().caught_up(0.0, HALF_LIFE_S), 0.0, 100.0, 0.25)
    twice = cost.spent(0.5).caught_up(100.0, HALF_LIFE_S)
    assert twice.cores == cost.cores
    assert twice.caught_up(102.0, HALF_LIFE_S).cores == pytest.approx(0.25, abs=0.005)
    assert cost.spent(7.0).caught_up(50.0, HALF_LIFE_S).cores == cost.cores


def source(
    behind: int, start: dict[int, int] | None, end: dict[int, int], reads: int = 0
) -> SourceDouble:
    """A source of a batch whose tasks have read `reads` rows; ``None``: Spark tells no start."""
    begin = "null" if start is None else json.dumps(Positions(QUEUE, start).said())
    until = json.dumps(Positions(QUEUE, end).said())
    return SourceDouble("cec[/q]", reads, {"recordsBehindLatest": str(behind)}, begin, until)


def caught_up(*sources: SourceDouble) -> bool:
    return is_caught_up(ProgressDouble(7, list(sources)))


def test_a_query_is_caught_up_if_it_is_less_than_a_batch_behind() -> None:
    assert caught_up(source(10, {0: 100, 1: 40}, {0: 106, 1: 44}))
    assert not caught_up(source(11, {0: 100, 1: 40}, {0: 106, 1: 44}))
    assert not caught_up(source(0, {0: 1}, {0: 9}), source(9, {0: 1}, {0: 9}))
    assert not caught_up(SourceDouble("rate", 5, {}))


def test_rows_that_are_read_twice_are_not_more_of_the_input() -> None:
    """`foreachBatch` with two actions reads each row twice, and with none reads nothing."""
    assert not caught_up(source(20, {0: 100}, {0: 110}, reads=20))
    assert caught_up(source(10, {0: 100}, {0: 110}, reads=0))


def test_of_a_first_batch_and_a_new_partition_no_rows_are_known() -> None:
    assert caught_up(source(0, None, {0: 10}))
    assert not caught_up(source(1, None, {0: 10}, reads=10))
    assert not caught_up(source(5, {0: 3}, {0: 4, 1: 60}))


def test_a_position_in_another_queue_says_nothing() -> None:
    other = SourceDouble("cec[/q]", 9, {"recordsBehindLatest": "3"}, "7", '{"b": {"0": 9}}')
    assert not caught_up(other)
