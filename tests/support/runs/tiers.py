"""The two tiers of the tests: `make test` runs a part, in ten minutes, `make test-full` all.

Recorded durations decide (`tests/data/durations.tsv`, written by `support.runs.durations`). Of a
test that takes long the quick tier keeps cases that show each value of each parameter once, as
many as fit into the time of a test; what does not fit is marked `full`. `@pytest.mark.quick` keeps
a test whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache

import pytest

from support.paths import DATA, TESTS

DURATIONS = DATA / "durations.tsv"
SHORT_S = 1.0
"""A test function that takes no longer than this, with all of its cases, is kept whole."""
BUDGET_S = 2.0
"""Seconds that the kept cases of one test function may take, the first one aside."""
CASE_MAX_S = 5.0
"""A case that takes longer than this belongs to the full tier alone."""
SPARK_FACTOR = 2.0
"""Tests with Spark get so many times these seconds, since each starts queries."""


def mark_full(items: Sequence[pytest.Item]) -> None:
    """Mark the cases of `items` that the quick tier leaves out as `full`."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("quick"):
            cases[function_of(item.nodeid)].append(item)
    for function, of_function in cases.items():
        kept = _kept(of_function, recorded().get(function, 0.0))
        for item in of_function:
            if item not in kept:
                item.add_marker(pytest.mark.full)


def function_of(node_id: str) -> str:
    """Return the test function of a node id: `log/test_tail.py::test_name`, relative to tests/."""
    return node_id.split("[")[0].removeprefix(f"{TESTS.name}/")


@cache
def recorded() -> dict[str, float]:
    """Return the seconds that each test function took with all of its cases."""
    rows = (line.split("\t") for line in DURATIONS.read_text("utf-8").splitlines())
    return {function: float(seconds) for seconds, function in rows}


def _kept(cases: Sequence[pytest.Item], seconds: float) -> Sequence[pytest.Item]:
    factor = SPARK_FACTOR if cases[0].get_closest_marker("spark") else 1.0
    if seconds <= SHORT_S * factor:
        return cases
    of_case_s = seconds / len(cases)
    if of_case_s > CASE_MAX_S * factor:
        return []
    fitting = max(1, int(BUDGET_S * factor / of_case_s))
    return _spread(list(_each_value_once(cases)), fitting)


def _each_value_once(cases: Sequence[pytest.Item]) -> Iterable[pytest.Item]:
    seen: set[tuple[str, int]] = set()
    for case in cases:
        indices = case.callspec.indices if hasattr(case, "callspec") else {}
        values = set(indices.items())
        if not values or values - seen:
            seen |= values
            yield case


def _spread(cases: Sequence[pytest.Item], count: int) -> Sequence[pytest.Item]:
    """Return `count` of the cases, evenly spread."""
    if len(cases) <= count:
        return cases
    return [cases[i * len(cases) // count] for i in range(count)]
