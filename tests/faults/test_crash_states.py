"""Every disk that a crash may leave, within the faults that simulated_folder names."""

import os
import sys
from collections.abc import Callable

import pytest

from support.crashes.crash_states import ONLY_STATE, WORKLOADS, Sweep, snapshots_of
from support.runs.planted_bugs import VARIABLE
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

DISTINCT_MIN = 640
"""Of each workload at full size, where it has more: 20,000 in all."""
# Planted bugs are sought in more of them, and after all power cuts.
QUICK = 160 if os.environ.get(VARIABLE) else 24
CUTS_MAX = sys.maxsize if os.environ.get(VARIABLE) else 250
"""In the quick tier: some workloads have above 13,000."""


@pytest.mark.parametrize("name", WORKLOADS)
def test_crash_keeps_what_was_acknowledged(
    name: str, crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    sweep = Sweep(name)
    least = crash_count(QUICK, DISTINCT_MIN)
    goal = crash_count(QUICK, 32_000)
    sweep.run(snapshots_of(name), goal, crash_count(CUTS_MAX, sys.maxsize))
    print(f"{name}: {len(sweep.distinct)} distinct states, {sweep.checked} checked")
    tally(len(sweep.distinct))
    assert ONLY_STATE == -1, "passes; unset CEC_CRASH_STATE"
    assert len(sweep.distinct) >= (least if sweep.exhausted else goal)


def test_enough_states_are_asked_for() -> None:
    assert len(WORKLOADS) * DISTINCT_MIN >= 20_000
