"""The page of where it was tried: what it names as having tried a row is there."""

from __future__ import annotations

import re

import pytest

from support.paths import DOCS, ROOT

PAGE = (DOCS / "where.md").read_text("utf-8")
TABLES = (
    "Object-store servers",
    "File systems and mounts",
    "Arrow producers and readers",
    "Spark features that touch a checkpoint",
)
_TRIED = re.compile(r"`((?:tests|findings)/[\w/.]+\.(?:py|sh))`")


def rows_of(page: str, title: str) -> list[list[str]]:
    """Cells of the rows of one table, without its head."""
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def breaks(row: list[str]) -> list[str]:
    """What is wrong with a row: nothing has tried it, or what did is not there."""
    if row[-1] == "not tried":
        return []
    named = _TRIED.fullmatch(row[-1])
    if named is None:
        return [f"{row[0]}: {row[-1]!r} is no script"]
    return [] if (ROOT / named[1]).is_file() else [f"{row[0]}: there is no {named[1]}"]


@pytest.mark.parametrize("title", TABLES)
def test_each_row_names_what_tries_it(title: str) -> None:
    rows = rows_of(PAGE, title)
    assert len(rows) > 4
    assert [fault for row in rows for fault in breaks(row)] == []
    assert sum(row[-1] != "not tried" for row in rows) >= len(rows) / 2


@pytest.mark.parametrize("title", TABLES)
def test_what_was_tried_has_a_version_or_a_script_that_says_it(title: str) -> None:
    for row in rows_of(PAGE, title):
        assert row[-1] == "not tried" or row[1] or row[2], row


def test_a_row_that_names_nothing_is_found() -> None:
    assert breaks(["a", "`tests/places/none.py`"]) == ["a: there is no tests/places/none.py"]
    assert breaks(["a", "somebody"]) == ["a: 'somebody' is no script"]
    assert breaks(["a", "not tried"]) == []
