"""The tutorials do what they say, read from the top in an empty folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.paths import DOCS
from support.runs.counts import CRASH_FULL
from support.runs.pages import blocks_of, end_all, is_as_said, walk

TUTORIALS = DOCS / "tutorials"
ONE_AFTER_THE_OTHER = ("quickstart", "replay", "what-if")
BY_THEMSELVES = ("fleet", "standby")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    end_all(tmp_path)


def test_every_tutorial_is_walked() -> None:
    assert {path.stem for path in TUTORIALS.glob("*.md")} == {*ONE_AFTER_THE_OTHER, *BY_THEMSELVES}


def test_walking_the_first_pages(folder: Path) -> None:
    for name in ONE_AFTER_THE_OTHER:
        assert walk(TUTORIALS / f"{name}.md", folder) >= 3


@pytest.mark.crash
@pytest.mark.skipif(not CRASH_FULL, reason="several drivers, some minutes: CEC_CRASH=full")
@pytest.mark.parametrize("name", BY_THEMSELVES)
def test_walking(name: str, folder: Path) -> None:
    assert walk(TUTORIALS / f"{name}.md", folder) >= 4


def test_a_page_that_says_something_else_fails(folder: Path) -> None:
    page = folder / "page.md"
    page.write_text("```sh\necho 1  2\n```\n\n```text\n1 2\n```\n")
    assert walk(page, folder) == 1
    for wrong in (
        "```sh\necho 1\n```\n\n```text\n2\n```\n",
        "```sh\nfalse\n```\n",
        "```\nls\n```\n",
    ):
        page.write_text(wrong)
        with pytest.raises(AssertionError, match=r"page\.md, line"):
            walk(page, folder)


def test_blocks_and_what_they_say() -> None:
    text = '<!-- not run: it installs -->\n```sh\npip\n```\n\n```python title="a.py"\nx = 1\n```\n'
    first, second = blocks_of(text)
    assert (first.kind, first.why_not_run, second.title) == ("sh", "it installs", "a.py")
    assert is_as_said("a   b\nc 17 ms\n", "a b\nc … ms")
    assert not is_as_said("a b\n", "a b\nc")
