"""How many cases a part has tried, read from what it printed."""

from __future__ import annotations

import re
from typing import NamedTuple

_SUITE = re.compile(r"^\| (\w+) \| ([\d,]+) ([^|]+) \| [^|]* \| ([^|]+) \| [\d,]+ s \|$", re.M)
_MUTANTS = re.compile(r"^\| mutants \| ([\d,]+) mutants, ([\d.]+) % noticed \|", re.M)
_PYTEST = re.compile(r"^=+ (.*\b\d+ (?:passed|failed|skipped|error).*) in [\d.]+s.*=+$", re.M)
_SUITES_OF_SPARK = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)
_BENCH = re.compile(r"^(\S+) is (\S+), not (at (?:most|least) \S+)$", re.M)
_FINDINGS = re.compile(r"^findings: (\d+) as they were, (\d+) otherwise, (\d+) too slow$", re.M)
MUTANTS_LEAST_PERCENT = 90.0


class Tally(NamedTuple):
    """Cases of a part, what they are, and what else its page has to say."""

    cases: int
    unit: str
    note: str = ""
    is_whole: bool = True
    """False where the part skipped what it is for, or missed a target."""


def of_suites(text: str) -> Tally | None:
    """Sum of the lines of fault suites; a suite that was skipped as a whole is not whole."""
    rows = _SUITE.findall(text)
    if not rows:
        return None
    cases = sum(int(count.replace(",", "")) for _, count, _, _ in rows)
    notes = [f"{name}: {verdict}" for name, _, _, verdict in rows if verdict != "held"]
    is_whole = all(verdict.startswith("held") for _, _, _, verdict in rows)
    return Tally(cases, rows[0][2] if len(rows) == 1 else "cases", "; ".join(notes), is_whole)


def of_mutants(text: str) -> Tally | None:
    row = _MUTANTS.search(text)
    if row is None:
        return None
    percent = float(row[2])
    note = f"{percent} % noticed"
    return Tally(int(row[1].replace(",", "")), "mutants", note, percent >= MUTANTS_LEAST_PERCENT)


def of_tests(text: str) -> Tally | None:
    """Sum over all runs of pytest in it."""
    counts: dict[str, int] = {}
    for line in _PYTEST.findall(text):
        for number, kind in re.findall(r"(\d+) (\w+)", line):
            counts[kind] = counts.get(kind, 0) + int(number)
    if not counts:
        return None
    kinds = ("failed", "errors", "error", "skipped", "xfailed")
    others = [f"{counts[kind]} {kind}" for kind in kinds if counts.get(kind)]
    return Tally(counts.get("passed", 0), "tests", ", ".join(others))


def of_sparks_suites(text: str) -> Tally | None:
    row = _SUITES_OF_SPARK.search(text)
    return None if row is None else Tally(int(row[1]), "tests of Spark's own")


def of_bench(text: str) -> Tally | None:
    """Scripts that were run, and the targets that they missed."""
    scripts = re.findall(r"^\S+\.py …$", text, re.M)
    missed = [f"{figure} {value}, not {bound}" for figure, value, bound in _BENCH.findall(text)]
    return Tally(len(scripts), "scripts", "; ".join(missed), not missed) if scripts else None


def of_findings(text: str) -> Tally | None:
    row = _FINDINGS.search(text)
    if row is None:
        return None
    as_before, otherwise, slow = map(int, row.groups())
    note = f"{otherwise} otherwise, {slow} too slow" if otherwise or slow else ""
    return Tally(as_before, "scripts", note)


def of_commands(text: str) -> Tally | None:
    """A part that has nothing to count: it ran to its end."""
    return Tally(1, "run")
