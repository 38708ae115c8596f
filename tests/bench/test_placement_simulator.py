"""The simulator: the paper's case of two operators exactly, and what holds of each allocation."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bench.simulators.placement.jobs import (
    TWO_OPERATORS_OVERLOAD,
    Job,
    OperatorLoad,
    job_of,
    two_operators,
)
from bench.simulators.placement.runs import Allocation, Setting, point_of, simulate
from cec_store.placement import Layout, Nodes, correlated, usable_copies

TWO = Setting(statistics_s=10.0, overload=TWO_OPERATORS_OVERLOAD)


def waves(seed: int) -> Job:
    """Six nodes that rise and fall together, and two that are steady."""
    random = np.random.default_rng(seed)
    wave = 1 + 0.9 * np.sin(np.arange(144) * np.pi / 36)
    operators = []
    for number, (rate, row_s, nodes) in enumerate(
        ((wave, 0.057, tuple(range(6))), (np.ones(144), 0.02, (6, 7)))
    ):
        groups = 8 * len(nodes)
        means = random.uniform(0.8, 1.2, (groups, 1))
        rows = rate * means * random.uniform(0.6, 1.4, (groups, 144))
        operators.append(OperatorLoad(f"operator {number}", rows, row_s, nodes, 5e4))
    return job_of(operators, Nodes.alike(8), 20.0, random)


SETTING = Setting(statistics_s=720.0)


def test_two_operators_that_take_turns_correlate_with_minus_one() -> None:
    job = two_operators()
    found = correlated(job.layout, job.loads[:, :10])
    of_1, of_2 = found.holders[:10], found.holders[10:]
    assert (of_1 == 2).all(), "all copies of operator 1 are with operator 2"
    assert (of_2 == 1).all()


@pytest.mark.parametrize(("allocation", "usable"), [
    (Allocation.CORRELATED, 10), (Allocation.EVEN, 5),
])  # fmt: skip
@pytest.mark.parametrize("seed", range(5))
def test_the_papers_case_comes_out_exactly(allocation: Allocation, usable: int, seed: int) -> None:
    found = simulate(two_operators(), allocation, TWO, seed)
    assert (found.usable, found.on_overloaded) == (usable, 10)
    assert (found.assisted, found.moves) == (usable, 10)
    assert found.overloaded_s == 0


def test_the_worst_case_of_two_operators_has_no_usable_copy() -> None:
    job = two_operators()
    worst = job.layout.with_holders(np.zeros((20, 1), np.int64))
    assert usable_copies(worst, job.loads[:, 10], job.nodes, TWO.overload) == (0, 10)


def test_the_same_seed_gives_the_same_run() -> None:
    for allocation in Allocation:
        found = simulate(waves(1), allocation, SETTING, 3)
        assert found == simulate(waves(1), allocation, SETTING, 3)
        assert found.moves
    assert simulate(waves(1), Allocation.EVEN, SETTING, 3) != simulate(
        waves(1), Allocation.EVEN, SETTING, 4
    )


def test_correlated_copies_are_usable_more_often_than_even_ones() -> None:
    jobs = [partial(waves, seed) for seed in range(6)]
    found = {each: point_of(jobs, each, SETTING) for each in Allocation}
    even, ours = found[Allocation.EVEN], found[Allocation.CORRELATED]
    assert ours.usable_share > 2 * even.usable_share
    assert ours.assisted_share > even.assisted_share
    assert ours.latency_s < even.latency_s < even.direct_latency_s
    assert abs(found[Allocation.BASELINE].usable_share - even.usable_share) < 0.2


def test_lazy_moves_are_all_assisted_and_leave_nodes_overloaded_meanwhile() -> None:
    soon = simulate(waves(0), Allocation.EVEN, SETTING)
    lazily = simulate(waves(0), Allocation.LAZY_MOVE, replace(SETTING, checkpoint_s=60.0))
    assert lazily.assisted == lazily.moves > 0
    assert lazily.overloaded_s > soon.overloaded_s


def test_lazy_moves_wait_for_the_next_checkpoint_and_are_made_once() -> None:
    found = simulate(two_operators(), Allocation.LAZY_MOVE, replace(TWO, checkpoint_s=30.0))
    assert (found.moves, found.assisted) == (10, 10)
    assert found.overloaded_s == 20, "from second 10 to 30"


def test_a_threshold_moves_copies_after_the_loads() -> None:
    never = simulate(waves(0), Allocation.CORRELATED, SETTING)
    always = simulate(waves(0), Allocation.CORRELATED, replace(SETTING, threshold=0.0))
    seldom = simulate(waves(0), Allocation.CORRELATED, replace(SETTING, threshold=0.05))
    assert never.copies_moved == 0
    assert 0 < seldom.copies_moved < always.copies_moved


def test_means_over_several_samples_spare_moves() -> None:
    moves = [
        sum(simulate(waves(seed), Allocation.EVEN, replace(SETTING, averaged_s=s)).moves
            for seed in range(4))
        for s in (20.0, 80.0)
    ]  # fmt: skip
    assert moves[0] > moves[1] > 0


def test_moves_to_any_node_with_a_copy_are_assisted_more_often() -> None:
    jobs = [partial(waves, seed) for seed in range(6)]
    paired = point_of(jobs, Allocation.EVEN, SETTING)
    first = point_of(jobs, Allocation.EVEN, replace(SETTING, paired=False))
    assert first.assisted_share > paired.assisted_share


def test_groups_are_dealt_out_evenly_and_shuffled_by_the_seed() -> None:
    first, second = waves(1).layout, waves(2).layout
    for layout in (first, second):
        assert np.bincount(layout.owner).tolist() == [8] * 8
    assert not np.array_equal(first.owner, second.owner)


def test_jobs_that_are_none_are_refused() -> None:
    rows = np.ones((2, 10))
    with pytest.raises(ValueError, match="for the same time"):
        job_of([OperatorLoad("a", rows, 1, (0,)), OperatorLoad("b", rows[:, 1:], 1, (0,))],
               Nodes.alike(1), 1.0)  # fmt: skip
    with pytest.raises(ValueError, match="begins at another"):
        job_of([OperatorLoad("a", rows, 1, (1,))], Nodes.alike(1), 1.0)
    with pytest.raises(ValueError, match="or no node"):
        OperatorLoad("a", rows, 1, ())
    with pytest.raises(ValueError, match="statistics_s is 900: the job has 100 s"):
        simulate(two_operators(), Allocation.EVEN, Setting())
    with pytest.raises(ValueError, match="update_s is 0"):
        Setting(update_s=0)


def test_a_job_begins_without_copies() -> None:
    layout: Layout = two_operators().layout
    assert layout.holders.shape == (20, 0)
