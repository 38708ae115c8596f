"""The table of docs/format.md on where a log ends, row by row: each case fits one row."""

import re

import pytest

from cec_store.format.ends import LogKind, Verdict, judge
from support.paths import DOCS
from support.vectors.ends import BAD, CASES, STEP, Answers

WORDS = {"yes": True, "no": False, "–": None}
LOGS = {"any": None, "queue": LogKind.QUEUE, "state log": LogKind.STATE}
VERDICTS = {
    "complete": Verdict.COMPLETE,
    "damage": Verdict.DAMAGE,
    "clean end": Verdict.CLEAN_END,
    "torn tail": Verdict.TORN_TAIL,
    "refused": Verdict.NEWER,
}


def rows_of_the_page() -> list[tuple[LogKind | None, tuple[bool | None, ...], Verdict, int]]:
    """What a log and its answers have to be, None for any, the verdict, and where the log ends."""
    text = (DOCS / "format.md").read_text("utf-8")
    text = text.partition("## 7. ")[2].partition("## 8. ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.*\|$", text, re.MULTILINE)
    ]
    rows = []
    for log, *answers, said in cells:
        if log in LOGS:
            verdict = VERDICTS[re.split("[:,]", said.replace("*", ""))[0]]
            at = STEP if "the step begins" in said else BAD
            rows.append((LOGS[log], tuple(WORDS[answer] for answer in answers), verdict, at))
    return rows


ROWS = rows_of_the_page()


def fits(wanted: tuple[bool | None, ...], answers: Answers) -> bool:
    return all(want in (None, answer) for want, answer in zip(wanted, answers, strict=True))


@pytest.mark.quick
def test_exactly_one_row_of_the_page_fits_and_is_the_verdict() -> None:
    for kind, answers, facts in CASES:
        (found,) = [
            (verdict, at)
            for log, wanted, verdict, at in ROWS
            if log in (None, kind) and fits(wanted, answers)
        ]
        assert judge(kind, facts) == found, (kind, facts)


def test_every_row_is_reached() -> None:
    assert len(ROWS) == 13
    for log, wanted, _, _ in ROWS:
        assert any(log in (None, kind) and fits(wanted, answers) for kind, answers, _ in CASES)
    assert {judge(kind, facts)[0] for kind, _, facts in CASES} == set(Verdict)
