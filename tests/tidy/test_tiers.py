"""Which cases of a test the quick tier keeps, and that it leaves out no room."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from support.paths import TESTS
from support.runs import tiers
from support.runs.counts import crash_cases, crash_count


class Case:
    """Stands for a collected test: what `mark` asks of one, and the marks that it gives."""

    def __init__(self, name: str, marks: Sequence[str] = (), **indices: int) -> None:
        self.nodeid = f"tests/log/test_x.py::{name}[{sorted(indices.values())}]"
        self.marks = set(marks)
        self.callspec = SimpleNamespace(indices=indices)

    def get_closest_marker(self, name: str) -> bool:
        return name in self.marks

    def add_marker(self, mark: Any) -> None:
        self.marks.add(mark.name)


def kept_of(cases: Sequence[Any], seconds: float, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(tiers, "recorded", lambda: {"log/test_x.py::test_a": seconds})
    tiers.mark(cases)
    return [number for number, case in enumerate(cases) if "full" not in case.marks]


def test_a_short_test_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case("test_a", n=n) for n in range(9)]
    assert kept_of(cases, tiers.SHORT_S, monkeypatch) == list(range(9))


def test_a_test_that_was_never_recorded_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_of([Case("test_new")], 99.0, monkeypatch) == [0]


def test_each_value_is_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case("test_a", a=a, b=b) for a in range(3) for b in range(2)]
    assert kept_of(cases, tiers.SHORT_S + 0.1, monkeypatch) == [0, 1, 2, 4]


def test_as_many_cases_are_kept_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case("test_a", n=n) for n in range(10)]
    assert kept_of(cases, 5 * tiers.BUDGET_S, monkeypatch) == [0, 5]


def test_one_case_is_kept_although_it_takes_more_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case("test_a", n=n) for n in range(2)]
    assert kept_of(cases, 2 * tiers.CASE_MAX_S, monkeypatch) == [0]


def test_cases_that_take_too_long_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case("test_a", n=n) for n in range(2)]
    assert kept_of(cases, 2 * tiers.CASE_MAX_S + 0.1, monkeypatch) == []


def test_the_rest_keeps_as_many_cases_as_fit_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = [Case("test_a", n=n) for n in range(20)]
    assert kept_of(cases, 5 * tiers.REST_BUDGET_S, monkeypatch) == [0]
    kept = [number for number, case in enumerate(cases) if "exhaustive" not in case.marks]
    assert kept == [0, 5, 10, 15]
    assert all("full" in case.marks for case in cases if "exhaustive" in case.marks)


def test_a_single_case_is_exhaustive_only_if_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    longest_s = tiers.REST_CASE_MAX_S
    for seconds, marks in ((longest_s, {"full"}), (longest_s + 0.1, {"full", "exhaustive"})):
        case = Case("test_a")
        assert kept_of([case], seconds, monkeypatch) == []
        assert case.marks == marks


def test_a_test_marked_quick_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case("test_a", ["quick"], n=n) for n in range(2)]
    assert kept_of(cases, 99.0, monkeypatch) == [0, 1]


def test_with_spark_a_test_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case("test_a", ["spark"], n=n) for n in range(2)]
    seconds = tiers.SHORT_S * tiers.SPARK_FACTOR
    assert kept_of(cases, seconds, monkeypatch) == [0, 1]


def test_durations_are_of_tests_that_are_there() -> None:
    """A test that was renamed is no longer known as long: record it anew."""
    recorded = tiers.recorded()
    assert len(recorded) > 100
    for function in recorded:
        file, name = function.split("::")
        assert f"def {name.split('::')[-1]}(" in (TESTS / file).read_text("utf-8"), function


def test_a_quarter_is_less_than_full_size_and_never_less_than_quick() -> None:
    sizes = ("quick", "quarter", "full")
    assert [crash_count(25, 1_000, size) for size in sizes] == [25, 250, 1_000]
    assert [crash_count(5, 12, size) for size in sizes] == [5, 5, 12]
    assert [crash_count(811, 16, size) for size in sizes] == [811, 64, 16]
    pairs = [(name, store) for name in range(6) for store in range(4)]
    quick, quarter, full = (crash_cases(pairs[:2], pairs, size) for size in sizes)
    assert (len(quick), len(quarter), full) == (2, 6, pairs)
    assert len({store for _, store in quarter}) > 1, "a quarter of each parameter's values"
    assert quarter == crash_cases(pairs[:2], pairs, "quarter") == sorted(quarter)
