"""Footprints in order, and as few CHECKs as a policy asks for."""

import logging
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.checkpoints.footprints import FootprintOrder
from cec_store.checkpoints.policy import Budget, CostBenefit, Never, RecoveryTime, Targets
from cec_store.checkpoints.rates import Rates


def ints(values) -> np.ndarray:
    return np.array(list(values), np.int64)


@given(st.integers(0, 2**32))
def test_the_order_equals_a_sorted_dict(seed):
    rng = random.Random(seed)
    order, model, offset = FootprintOrder(), {}, 0
    for _ in range(rng.choice([5, 50, 300])):
        slots = rng.sample(range(400), rng.choice([0, 1, 3, 60]))
        if rng.random() < 0.4:
            slots = [slot for slot in slots if slot in model]
            order.remove(ints(slots))
            for slot in slots:
                del model[slot]
        else:
            order.add(
                ints(slots), ints(range(offset, offset + len(slots))), ints([offset] * len(slots))
            )
            for slot in slots:
                model[slot] = offset
                offset += 1
        count = rng.choice([1, 2, 10, 1000])
        expected = sorted(model, key=model.get)[:count]
        found, offsets, _ = order.oldest(count)
        assert found.tolist() == expected
        assert offsets.tolist() == [model[slot] for slot in expected]
        assert order.live == len(model)
        if rng.random() < 0.5:
            oldest = order.first()
            assert (oldest[0] if oldest else None) == min(model.values(), default=None)


def opened(policy, windows: int, rates=None, **options) -> Checkpointer:
    """Windows 0 … opened at offsets and positions of the same number."""
    checkpointer = Checkpointer(policy, rates, **options)
    for slot in range(windows):
        checkpointer.opened(ints([slot]), slot, slot)
    return checkpointer


def plan_and_write(checkpointer: Checkpointer, end: int, position: int) -> int:
    """The new end of the log."""
    checked = checkpointer.plan(end, position)
    checkpointer.opened(checked, end, position)
    return end + len(checked)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=200), st.integers(1, 900), st.integers(0, 99)
)
def test_the_fewest_oldest_windows_are_checked_to_meet_q(gaps, target, outputs):
    checkpointer = Checkpointer(Targets(extent_records=target))
    offsets = np.cumsum(gaps)
    for slot, offset in enumerate(offsets):
        checkpointer.opened(ints([slot]), int(offset), int(offset))
    windows, end = len(gaps), int(offsets[-1]) + 1 + outputs

    def q_after(checks: int) -> int:
        """The oldest footprint is then that of window ``checks``, or the first CHECK."""
        return checks if checks == windows else end + checks - int(offsets[checks])

    reachable = max(target, windows)
    fewest = next(k for k in range(windows + 1) if q_after(k) <= reachable)
    assert checkpointer.plan(end, end).tolist() == list(range(fewest))
    new_end = plan_and_write(checkpointer, end, end)
    assert checkpointer.extent(new_end) == q_after(fewest) <= reachable


def test_q_is_kept_while_the_log_grows():
    checkpointer = opened(Targets(extent_records=200), 100)
    end = 100
    for _ in range(500):
        end = plan_and_write(checkpointer, end + 7, end)
        assert checkpointer.extent(end) <= 200


def test_u_is_kept_while_input_is_taken():
    checkpointer = opened(Targets(extent_factor=None, replay_rows=50), 10)
    end, position = 10, 10
    for _ in range(200):
        position += 20
        end = plan_and_write(checkpointer, end, position)
        assert checkpointer.replay_rows(position) <= 50


def test_never_checks_nothing():
    assert not len(opened(Never(), 10).plan(10**9, 10**9))


def test_a_q_below_the_open_windows_is_said_once_and_the_windows_are_used(caplog):
    checkpointer = opened(Targets(extent_records=10), 100)
    with caplog.at_level(logging.WARNING, "cec_store"):
        end = plan_and_write(checkpointer, 500, 500)
        end = plan_and_write(checkpointer, end, 500)
    assert checkpointer.extent(end) == 100
    assert len(caplog.records) == 1
    assert "below the 100 open windows" in caplog.text


def test_checks_take_no_more_than_their_share_of_each_period():
    now = [0.0]
    budget = Budget(interval_ms=10, period_ms=100)
    rates = Rates(check_s_per_record=1e-3)
    policy = Targets(extent_records=100, budget=budget)
    checkpointer = opened(policy, 100, rates, clock_s=lambda: now[0])
    end, counts = 10_000, []
    for _ in range(40):
        checked = checkpointer.plan(end, end)
        checkpointer.opened(checked, end, end)
        checkpointer.spent(len(checked), len(checked) * 1e-3)
        end += len(checked) + 50
        counts.append(len(checked))
        now[0] += 0.025
    per_period = [sum(counts[i : i + 4]) for i in range(0, 40, 4)]
    assert max(per_period) <= 10
    assert sum(counts) >= 90


def test_a_check_that_once_took_too_long_is_tried_again():
    rates = Rates(check_s_per_record=10.0)
    policy = Targets(extent_records=100, budget=Budget(interval_ms=5, period_ms=100))
    clock_s = iter(range(10_000))
    checkpointer = Checkpointer(policy, rates, clock_s=lambda: next(clock_s))
    checkpointer.opened(np.arange(90), 0, 0)
    planned = []
    for _ in range(200):
        slots = checkpointer.plan(1000, 1000)
        checkpointer.spent(len(slots), 1e-5 * len(slots))
        planned.append(len(slots))
    assert planned[0] == 1
    assert planned[-1] == 90


def test_a_few_checks_say_little_of_their_cost():
    rates = Rates()
    for _ in range(10):
        rates.observe_checks(10_000, 0.001)
    rates.observe_checks(1, 0.001)
    assert rates.check_s_per_record == pytest.approx(1e-7, rel=0.5)


def test_a_budget_is_an_interval_within_its_period():
    for interval, period in ((0, 100), (101, 100), (-1, 5)):
        with pytest.raises(ValueError, match="interval_ms"):
            Budget(interval, period)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Targets(extent_records=0),
        lambda: Targets(extent_factor=-1.0),
        lambda: Targets(replay_rows=0),
        lambda: CostBenefit(0),
        lambda: RecoveryTime(0),
    ],
)
def test_impossible_policies_are_refused(make):
    with pytest.raises(ValueError, match="above 0"):
        make()


def test_recovery_time_is_kept_at_the_measured_rates():
    rates = Rates(load_s_per_record=1e-3, replay_s_per_row=1e-4, fixed_s=0.1)
    policy = RecoveryTime(0.5)
    checkpointer = opened(policy, 100, rates)
    end = position = 100
    for _ in range(300):
        position += 13
        end = plan_and_write(checkpointer, end + 5, position)
        q, u = checkpointer.extent(end), checkpointer.replay_rows(position)
        assert policy.estimate_s(q, u, rates) <= 0.5


def test_a_slower_load_makes_recovery_time_check_more():
    counts = []
    for load in (1e-4, 2e-3):
        rates = Rates(load_s_per_record=load, replay_s_per_row=1e-6, fixed_s=0)
        checkpointer = opened(RecoveryTime(0.5), 100, rates)
        counts.append(len(checkpointer.plan(400, 400)))
    assert counts[0] < counts[1]


def test_cost_and_benefit_checks_more_the_more_often_it_fails():
    rates = Rates()
    targets = [CostBenefit(mtbf).extent_target(1_000, rates) for mtbf in (1.0, 3_600.0, 86_400.0)]
    assert 1_000 < targets[0] < targets[1] < targets[2]


def test_cost_and_benefit_is_at_the_least_of_the_expected_cost():
    rates = Rates(load_s_per_record=3e-6, replay_s_per_row=1e-7, check_s_per_record=4e-6,
                  output_records_per_s=5e4, input_rows_per_output=4)  # fmt: skip
    mtbf, windows = 3_600.0, 10_000

    def cost(extent: float) -> float:
        x = extent - windows
        checking = windows * rates.check_s_per_record * rates.output_records_per_s / x
        load = extent * rates.load_s_per_record
        replay = x * rates.input_rows_per_output * rates.replay_s_per_row
        return checking + (load + replay) / mtbf

    best = CostBenefit(mtbf).extent_target(windows, rates)
    assert cost(best) < cost(windows + 0.9 * (best - windows))
    assert cost(best) < cost(windows + 1.1 * (best - windows))


def test_rates_follow_what_is_measured():
    rates = Rates()
    rates.observe_load(10_000, 0.5)
    for _ in range(60):
        rates.observe_step(1_000, 100, 0.01)
        rates.observe_checks(10, 0.001)
    assert rates.load_s_per_record == pytest.approx(5e-5)
    assert rates.replay_s_per_row == pytest.approx(1e-5, rel=0.01)
    assert rates.input_rows_per_output == pytest.approx(10, rel=0.01)
    assert rates.check_s_per_record == pytest.approx(1e-4, rel=0.01)
