"""What a query costs, by a clock of the test's own."""

import pytest

from cec_store.connectors.spark.fleet.costs import QueryCost

HALF_LIFE_S = 600.0


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
