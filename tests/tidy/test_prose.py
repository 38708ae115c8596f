"""Plain words on pages and screens: line length, how sentences begin, symbols, names of links."""

import re
from pathlib import Path

import pytest

from support.paths import DOCS, ROOT
from support.runs import prose

STRICT = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", DOCS / "index.md",
          DOCS / "glossary.md", DOCS / "production" / "outages.md",
          *sorted((DOCS / "tutorials").glob("*.md"))]  # fmt: skip
"""Pages that were read sentence by sentence."""
UNWRAPPED = {"docs/format.md"}
OPENINGS_LEFT = 49
"""Sentences on the other pages that begin as none should. The number only goes down."""
SYMBOLS = {"N", "q", "Q", "T", "u", "U", "q/N"}
JARGON = re.compile(r"\b(by reference|footprints?|epoch|tenure|CHECKs?|amnesia)\b")
FIRST_PAGES = [ROOT / "README.md", DOCS / "index.md", *sorted((DOCS / "tutorials").glob("*.md"))]
SCREENS = sorted(
    [
        *(ROOT / "cec_store" / "terminal").glob("*_screens.py"),
        *(ROOT / "cec_store" / "demos").glob("*.py"),
        *(ROOT / "cec_store" / "report").glob("p*.js"),
    ]
)
_TEXT = re.compile(r"\"([^\"\n]*)\"|`([^`\n]*)`")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def symbols(source: str) -> list[str]:
    """Titles that are a symbol of the papers, or end in one: "N", "extent q"."""
    titles = [first or second for first, second in _TEXT.findall(source)]
    return [title for title in titles if title.rpartition(" ")[2] in SYMBOLS]


def without_code(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```$|`[^`\n]+`", "", text, flags=re.MULTILINE | re.DOTALL)


def test_pages_are_read() -> None:
    assert len(prose.PAGES) > 40
    assert len(SCREENS) > 8


@pytest.mark.parametrize("page", prose.PAGES, ids=name_of)
def test_lines_are_short(page: Path) -> None:
    """Tables, headings and addresses aside. `python -m support.runs.prose` wraps the rest."""
    if name_of(page) not in UNWRAPPED:
        text = page.read_text("utf-8")
        assert prose.wrapped(text) == text


@pytest.mark.parametrize("page", prose.PAGES, ids=name_of)
def test_code_fits_beside_the_menus_of_the_site(page: Path) -> None:
    """A block of 100 columns fits a window of 1280 px; a wider one has to be scrolled."""
    assert prose.wide_code(page.read_text("utf-8")) == []


@pytest.mark.parametrize("page", STRICT, ids=name_of)
def test_sentences_begin_with_their_subject(page: Path) -> None:
    assert prose.bad_openings(page.read_text("utf-8")) == []


def test_sentences_of_other_pages_come_closer() -> None:
    left = sum(
        len(prose.bad_openings(page.read_text("utf-8")))
        for page in prose.PAGES
        if page not in STRICT and name_of(page) not in UNWRAPPED
    )
    assert left <= OPENINGS_LEFT


@pytest.mark.parametrize("page", FIRST_PAGES, ids=name_of)
def test_first_pages_have_no_jargon(page: Path) -> None:
    text = without_code(page.read_text("utf-8"))
    assert JARGON.findall(text) == []
    assert re.findall(r"(?<![\w./+-])[NqQTuU](?![\w./+-])", text) == []


@pytest.mark.parametrize("path", SCREENS, ids=name_of)
def test_screens_have_words_instead_of_symbols(path: Path) -> None:
    assert symbols(path.read_text("utf-8")) == []


@pytest.mark.parametrize("page", prose.PAGES, ids=name_of)
def test_links_are_named_by_titles(page: Path) -> None:
    if name_of(page) not in UNWRAPPED:
        text = page.read_text("utf-8")
        assert re.findall(r"\[[\w./-]+\.md\](?=\()", text) == []


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a " * 60, "\n".join([("a " * 50).rstrip(), ("a " * 9) + "a"])),
        ("* " + "b " * 60, "* " + ("b " * 49).rstrip() + "\n  " + ("b " * 10) + "b"),
        ("| " + "c " * 60 + "|", "| " + "c " * 60 + "|"),
        ("```\n" + "d " * 60 + "\n```", "```\n" + "d " * 60 + "\n```"),
        ("short\nlines", "short\nlines"),
        ("`" + "e " * 60 + "`", "`" + "e " * 60 + "`"),
        ("``a.`b` " + "g " * 60 + "``", "``a.`b` " + "g " * 60 + "``"),
        ("f" * 99 + " - g", "f" * 99 + " -\ng"),
    ],
)
def test_wrapping(text: str, result: str) -> None:
    assert prose.wrapped(text) == result
    assert prose.wrapped(result) == result


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("```\n" + "h" * 101 + "\n```", ["h" * 101]),
        ("```\n" + "h" * 100 + "\n```", []),
        ("* a\n\n  ```sh\n  " + "h" * 99 + "\n  ```\n", ["  " + "h" * 99]),
        ("h" * 101, []),
        ("| " + "h" * 101, []),
    ],
)
def test_code_rule(text: str, lines: list[str]) -> None:
    assert prose.wide_code(text) == lines


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Of these, two are open. Keys are bytes.", ["Of these, two are open."]),
        ("What is a key?", []),
        ("* So it ends.", ["So it ends."]),
        ("| What | is |", []),
        ("```\nOf code\n```", []),
        ("Offsets of keys.", []),
    ],
)
def test_opening_rule(text: str, sentences: list[str]) -> None:
    assert prose.bad_openings(text) == sentences


@pytest.mark.parametrize(
    ("source", "titles"),
    [('["log", "N"]', ["N"]), ('"extent q"', ["extent q"]), ('"target", "NAME"', [])],
)
def test_symbol_rule(source: str, titles: list[str]) -> None:
    assert symbols(source) == titles
