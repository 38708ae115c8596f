"""Text of the pages: wraps it at 100 columns and finds what the rules of its words forbid.

`PYTHONPATH=tests python -m support.runs.prose` wraps all pages; with paths, these. Only paragraphs
and list items that have a line that is too long are filled again, so that a change stays small.
Code, tables, headings, links' addresses, comments and directives stay as they are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from support.paths import DOCS, ROOT

COLUMNS = 100
PAGES = sorted(
    [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    + [*DOCS.rglob("*.md")]
)
OPENINGS = {"Of", "Who", "Whoever", "Whatever", "What", "Whose", "Whom", "So"}
"""No sentence of a page begins with these, but a question."""
_FENCE = re.compile(r" *(```|~~~)")
_FIXED = re.compile(r" *(\||#|<!--|:::|!!!|\[[^\]]+\]: |-{3,}$|</?(p|div|picture|img|source)\b)")
_ITEM = re.compile(r"( *)([*+-]|\d+[.)]) +")
_TOKEN = re.compile(r"(?:``.*?``|`[^`]*`|<[^<> ][^<>]*>|[^\s`<]|<)+")
_LIKE_A_BLOCK = re.compile(r"([-+*#>|=]|\d+[.)]|:::)")
_SENTENCE_END = re.compile(r"(?<=[.!?:])[)*\"”]* +(?=[*(\"“]*[A-Z`])")


def is_fixed(line: str) -> bool:
    """True of lines that are no running text and may be long: tables, headings, addresses."""
    return _FIXED.match(line) is not None


def blocks(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Yield the lines of a page by block, and True for those of running text."""
    block: list[str] = []
    fence = None
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence or mark:
            if block:
                yield True, block
                block = []
            yield False, [line]
            if fence is None and mark:
                fence = mark[1]
            elif fence and line.strip() == fence:
                fence = None
        elif not line.strip() or is_fixed(line):
            if block:
                yield True, block
                block = []
            yield False, [line]
        elif _ITEM.match(line) and block:
            yield True, block
            block = [line]
        else:
            block.append(line)
    if block:
        yield True, block


def filled(lines: list[str], columns: int = COLUMNS) -> list[str]:
    """Fill a paragraph or list item again; code and addresses are not cut."""
    item = _ITEM.match(lines[0])
    first = item[0] if item else re.match(r" *", lines[0])[0]  # type: ignore[index]
    rest = " " * len(first)
    if len(lines) > 1:
        rest = re.match(r" *", lines[1])[0]  # type: ignore[index]
    words = _TOKEN.findall(" ".join(line.strip() for line in lines)[len(first.lstrip()) :])
    out, line = [], first
    for word in words:
        begins = line in (first, rest)
        is_full = len(line) + (not begins) + len(word) > columns
        if is_full and not begins and not _LIKE_A_BLOCK.match(word):
            out.append(line)
            line, begins = rest, True
        line += word if begins else f" {word}"
    return [*out, line]


def wrapped(text: str, columns: int = COLUMNS) -> str:
    """Return a page in which running text has no line that could be shorter and is too long."""
    lines: list[str] = []
    for is_text, block in blocks(text):
        is_long = is_text and any(len(line) > columns for line in block)
        lines += filled(block, columns) if is_long else block
    return "\n".join(lines)


def wide_code(text: str, columns: int = COLUMNS) -> list[str]:
    """Return the lines of code blocks that have more columns."""
    wide, fence = [], None
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence is None:
            fence = mark[1] if mark else None
        elif line.strip() == fence:
            fence = None
        elif len(line) > columns:
            wide.append(line)
    return wide


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of running text and list items, without code blocks and tables."""
    for is_text, block in blocks(text):
        if is_text:
            joined = _ITEM.sub("", " ".join(line.strip() for line in block), count=1)
            yield from filter(None, _SENTENCE_END.split(joined))


def bad_openings(text: str) -> list[str]:
    """Sentences that begin with one of OPENINGS and are no questions."""
    return [
        sentence
        for sentence in sentences(text)
        if re.split(r"\W", sentence.lstrip('*("“ '))[0] in OPENINGS
        and not sentence.rstrip('*)"” ').endswith("?")
    ]


def main(paths: list[str]) -> None:
    for path in map(Path, paths) if paths else PAGES:
        text = path.read_text("utf-8")
        if (new := wrapped(text)) != text:
            path.write_text(new, "utf-8")
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
