"""What a run of Spark's tests says of our store, beside the same run on a store of Spark's."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

from support.spark_suites.reasons import reason_of


def outcomes(report: Path) -> dict[str, str]:
    """By test: nothing where it passed, "skipped", or the first line of what it said."""
    return {case.get("name", ""): _outcome(case) for case in ET.parse(report).iter("testcase")}


def _outcome(case: ET.Element) -> str:
    if case.find("skipped") is not None:
        return "skipped"
    for kind in ("failure", "error"):
        found = case.find(kind)
        if found is not None:
            return (found.get("message") or found.text or kind).strip().splitlines()[0][:200]
    return ""


def kind_of(test: str, ours: str, theirs: str) -> str:
    if not ours:
        return "passed"
    if theirs:
        return "ignored by Spark" if theirs == "skipped" else "fails on Spark's own store too"
    reason = reason_of(test)
    return f"not applicable: {reason}" if reason else "failed"


class Tally:
    """Counts of each suite, as they come."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._failed: list[str] = []

    def add(self, suite: str, ours: dict[str, str], theirs: dict[str, str]) -> None:
        assert "" in theirs.values(), f"{suite}: no test passes on Spark's own store"
        assert set(ours) <= set(theirs), f"{suite}: not the same tests on both stores"
        kinds = {test: kind_of(test, said, theirs[test]) for test, said in ours.items()}
        counts = Counter(kinds.values())
        self._counts += counts
        self._failed += [
            f"{suite}: {t}: {ours[t]}" for t, kind in kinds.items() if kind == "failed"
        ]
        print(json.dumps({"suite": suite, **counts}), flush=True)

    def close(self) -> int:
        """Prints what fails on ours alone. The status to exit with."""
        print("\n".join(self._failed))
        print(f"{self._counts['passed']} passed, {len(self._failed)} failed")
        return 1 if self._failed else 0
