"""The fault suites: which tests are one, and the line that each prints when it is done.

`make crash` runs all of them at full size, `make crash SUITE=name` one. A line is a row of
the table in docs/durability.md: name, cases and what they are, seed, verdict, seconds of one core.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from support.paths import below_tests


class Suite(NamedTuple):
    cases: str
    """What is counted."""
    seed: str
    """What the random choices come from: always the same, so that a failure is met again."""
    files: tuple[str, ...] = ()
    """Relative to tests/."""


SUITES = {
    "simulated": Suite(
        "distinct disks after a crash", "the workload's name", ("faults/test_crash_states.py",)
    ),
    "sigkill": Suite("processes killed", "0 to 300,000 by sync mode", ("faults/test_sigkill.py",)),
    "power": Suite(
        "power cuts of a real ext4 and XFS",
        "700,000 to 1,000,000 by sync mode",
        ("faults/test_power_cuts.py",),
    ),
    "writeback": Suite(
        "failed syncs of a real ext4", "the round's number", ("faults/test_failed_writeback.py",)
    ),
    "calls": Suite(
        "failed calls",
        "none: every call",
        (
            "faults/test_system_calls.py",
            "faults/test_io_faults.py",
            "faults/test_faults_in_groups.py",
        ),
    ),
    "flips": Suite(
        "flips and damaged sectors", "the corpus' name and part", ("faults/test_bit_flips.py",)
    ),
    "blind": Suite(
        "mangled directories", "the place's and the mangling's names", ("faults/test_blind.py",)
    ),
    "index": Suite("damaged indexes", "the workload's name", ("faults/test_index_crashes.py",)),
    "fencing": Suite(
        "interleavings and takeovers", "the script's name", ("faults/test_fencing.py",)
    ),
    "standbys": Suite(
        "takeovers",
        "the case's name, and hypothesis",
        (
            "faults/test_standbys.py",
            "standby/test_takeovers.py",
            "standby/test_node_kills.py",
        ),
    ),
    "interrupts": Suite("interrupted writers", "none", ("queues/test_interrupts.py",)),
    "commits": Suite(
        "distinct disks after a power cut of a partitioned queue",
        "the number of partitions",
        ("faults/test_reference_power_cuts.py",),
    ),
    "clocks": Suite("lookups", "hypothesis", ("faults/test_clocks.py",)),
    "sizes": Suite("limits", "none", ("faults/test_sizes.py",)),
    "fuzz": Suite("hostile inputs", "19", ("faults/test_fuzz.py", "faults/test_bad_input.py")),
    "planted": Suite("planted bugs caught", "none", ("faults/test_planted_bugs.py",)),
    "others": Suite("tests", "in each test"),
    "spark": Suite("tests in real Sparks", "in each test"),
}
_OF_FILE = {file: name for name, suite in SUITES.items() for file in suite.files}

Tally = Callable[[int], None]
"""Called by a test with the number of cases that it has tried."""


@dataclass
class Result:
    cases: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    why_skipped: str = ""
    seconds: float = 0.0

    def verdict(self) -> str:
        if self.failed:
            return f"**{self.failed} tests failed**"
        if not self.passed:
            return f"skipped: {self.why_skipped}"
        return "held" + (f", {self.skipped} tests skipped" if self.skipped else "")


def suite_of(item: pytest.Item) -> str | None:
    if item.get_closest_marker("crash") is None:
        return None
    if item.get_closest_marker("spark"):
        return "spark"
    return _OF_FILE.get(below_tests(item.path), "others")


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tell each test its suite, and leave out what is not asked for."""
    asked = config.getoption("--suite")
    chosen = []
    for item in items:
        name = suite_of(item)
        if name is not None:
            item.user_properties.append(("suite", name))
        (chosen if asked in (None, name) else []).append(item)
    items[:] = chosen


def results(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> dict[str, Result]:
    found: dict[str, Result] = {}
    for report in reports:
        if not isinstance(report, pytest.TestReport):  # a file that was skipped as a whole
            continue
        facts = dict(report.user_properties)
        if "suite" not in facts:
            continue
        result = found.setdefault(str(facts["suite"]), Result())
        result.seconds += report.duration
        if report.failed:
            result.failed += 1
        elif report.skipped:
            result.skipped += 1
            result.why_skipped = str(report.longrepr[-1]).removeprefix("Skipped: ")  # type: ignore[index]
        elif report.when == "call":
            result.passed += 1
            tallied = [int(n) for what, n in report.user_properties if what == "cases"]
            result.cases += sum(tallied)
            counts_tests = not SUITES[str(facts["suite"])].files
            result.cases += counts_tests and not tallied
    return found


def lines(found: dict[str, Result]) -> list[str]:
    return [
        f"| {name} | {found[name].cases:,} {suite.cases} | {suite.seed} | "
        f"{found[name].verdict()} | {found[name].seconds:,.0f} s |"
        for name, suite in SUITES.items()
        if name in found
    ]
