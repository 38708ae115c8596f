"""The tiers of the tests: `make test` takes ten minutes, `make test-rest` a quarter hour more.

Recorded durations decide (`tests/data/durations.tsv`, written by `support.runs.durations`). Of a
test that takes long the quick tier keeps cases that show each value of each parameter once, as
many as fit into the time of a test; what does not fit is marked `full` and left to
`make test-rest`. Of tests with many long cases that takes a part as well: the others are marked
`exhaustive`, and `make test-full` alone runs them. `@pytest.mark.quick` keeps a test whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache

import pytest

from support.paths import DATA, TESTS

DURATIONS = DATA / "durations.tsv"
SHORT_S = 0.5
"""A test function that takes no longer than this, with all of its cases, is kept whole."""
BUDGET_S = 1.0
"""Seconds that the kept cases of one test function may take, the first one aside."""
CASE_MAX_S = 3.0
"""A case that takes longer than this belongs to the full tier alone."""
REST_BUDGET_S = 3.0
"""Seconds that the cases of one test function may take in both tiers together, the first aside."""
REST_CASE_MAX_S = 10.0
"""A case that takes longer than this is for all tests alone."""
SPARK_FACTOR = 2.0
"""Tests with Spark get so many times these seconds, since each starts queries."""


def mark(items: Sequence[pytest.Item]) -> None:
    """Mark the cases that the quick tier leaves out `full`, and of these the `exhaustive` ones."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("quick"):
            cases[function_of(item.nodeid)].append(item)
    for function, of_function in cases.items():
        seconds = recorded().get(function, 0.0)
        quick = _quick(of_function, seconds)
        both = [*quick, *_rest(of_function, seconds)]
        for item in of_function:
            if item not in quick:
                item.add_marker(pytest.mark.full)
            if item not in both:
                item.add_marker(pytest.mark.exhaustive)


def function_of(node_id: str) -> str:
    """Return the test function of a node id: `log/test_tail.py::test_name`, relative to tests/."""
    return node_id.split("[")[0].removeprefix(f"{TESTS.name}/")


@cache
def recorded() -> dict[str, float]:
    """Return the seconds that each test function took with all of its cases."""
    rows = (line.split("\t") for line in DURATIONS.read_text("utf-8").splitlines())
    return {function: float(seconds) for seconds, function in rows}


def _quick(cases: Sequence[pytest.Item], seconds: float) -> Sequence[pytest.Item]:
    if seconds <= SHORT_S * _factor(cases):
        return cases
    if seconds / len(cases) > CASE_MAX_S * _factor(cases):
        return []
    once = list(_each_value_once(cases))
    return _fitting(once, seconds * len(once) / len(cases), BUDGET_S)


def _rest(cases: Sequence[pytest.Item], seconds: float) -> Sequence[pytest.Item]:
    if seconds / len(cases) > REST_CASE_MAX_S * _factor(cases):
        return []
    return _fitting(cases, seconds, REST_BUDGET_S)


def _fitting(
    cases: Sequence[pytest.Item], seconds: float, budget_s: float
) -> Sequence[pytest.Item]:
    """Return as many cases as fit into the budget, one at least; all of them take ``seconds``."""
    if seconds <= budget_s * _factor(cases):
        return cases
    return _spread(cases, max(1, int(budget_s * _factor(cases) * len(cases) / seconds)))


def _factor(cases: Sequence[pytest.Item]) -> float:
    return SPARK_FACTOR if cases[0].get_closest_marker("spark") else 1.0


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
