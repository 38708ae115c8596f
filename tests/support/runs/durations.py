"""Writes tests/data/durations.tsv from what a run of all tests has recorded.

`make test-full` leaves a JUnit file for each half in build/: then
`PYTHONPATH=tests .venv/bin/python -m support.runs.durations build/tests-*.xml`.
"""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from support.paths import TESTS
from support.runs.tiers import DURATIONS

LEAST_S = 0.5
"""A function that takes less is short in any case."""


def record(reports: list[Path]) -> str:
    """Return lines `seconds<TAB>function`, sorted by function, of those above `LEAST_S`."""
    seconds: Counter[str] = Counter()
    for report in reports:
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            module = case.attrib["classname"].removeprefix(f"{TESTS.name}.").replace(".", "/")
            function = f"{module}.py::{case.attrib['name'].split('[')[0]}"
            seconds[function] += float(case.attrib["time"])  # type: ignore[assignment]
    return "".join(f"{s:.1f}\t{name}\n" for name, s in sorted(seconds.items()) if s >= LEAST_S)


if __name__ == "__main__":
    DURATIONS.write_text(record([Path(word) for word in sys.argv[1:]]), encoding="utf-8")
