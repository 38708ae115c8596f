"""PROOF.md: every part, every promise with what has tried it, and every gap."""

from __future__ import annotations

from pathlib import Path

from support.proof import records, trees
from support.proof.parts import MINUTES_MAX, PARTS, Part
from support.proof.promises import PROMISES
from support.proof.records import Record

FILE = "PROOF.md"
_HEAD = f"""\
# Proof

Written by `make proof`. `make proof PART=NAME` runs one part, in less than {MINUTES_MAX} minutes,
and keeps its result in `PROOF.jsonl`. A result counts for the tree that it was made at: the content
of the paths that the part is about, mostly `{" ".join(trees.PRODUCT)}`. At another tree
the part is a gap. 0.1.0 is the tree at which nothing required is one.
"""
_HOW = """\
A tree is the beginning of `git rev-parse HEAD:PATH … | sha256sum`, with the paths of the part in
the order of `tests/support/proof/parts.py`.
"""


def state(part: Part, record: Record | None, tree: str) -> str:
    """Return `held`, or why the part is a gap at this tree."""
    if not part.is_possible and (record is None or record.tree != tree):
        return f"not tried: no Python {part.needs} on the machine that wrote this"
    if record is None:
        return "never run"
    if record.tree != tree:
        return f"{record.verdict} at an older tree"
    return record.verdict


def states(root: Path) -> dict[str, str]:
    """Return the state of each part at the tree that is committed."""
    known = records.read(root)
    digests = {
        subjects: trees.tree(root, subjects)
        for subjects in dict.fromkeys(part.subjects for part in PARTS.values())
    }
    return {
        name: state(part, known.get(name), digests[part.subjects]) for name, part in PARTS.items()
    }


def gaps(root: Path) -> list[str]:
    """Return what 0.1.0 waits for: required parts that did not hold here, and untried promises."""
    found = [
        f"{name} ({PARTS[name].what}): {text}"
        for name, text in states(root).items()
        if PARTS[name].is_required and text != "held"
    ]
    untried = [promise for promise in PROMISES if not promise.parts]
    return found + [f"nothing tries “{promise.quote}” of {promise.page}" for promise in untried]


def _cases(record: Record | None) -> str:
    if record is None or not record.unit:
        return ""
    return f"{record.cases:,} {record.unit}"


def _part_row(part: Part, record: Record | None, text: str) -> str:
    if record is None:
        return f"| `{part.name}` | {part.what} | | | | | {text} |"
    note = f"{text}: {record.note}" if record.note else text
    return (
        f"| `{part.name}` | {part.what} | {_cases(record)} | {record.minutes:g} min | "
        f"{record.date} | `{record.tree}` of `{record.commit}` | {note} |"
    )


def _tried(names: tuple[str, ...], known: dict[str, Record], texts: dict[str, str]) -> str:
    """Return by which parts a promise is tried, how often, and when."""
    if not names:
        return "**nothing tries it**"
    lines = []
    for name in names:
        record = known.get(name)
        facts = [fact for fact in (_cases(record), record.date if record else "") if fact]
        lines.append(f"`{name}`: {texts[name]}" + (f" ({', '.join(facts)})" if facts else ""))
    return "; ".join(lines)


def rendered(root: Path) -> str:
    """Return the text of PROOF.md for the tree that is committed."""
    known, texts, lacking = records.read(root), states(root), gaps(root)
    required = [name for name, part in PARTS.items() if part.is_required]
    held = [name for name in required if texts[name] == "held"]
    commit = trees.git(root, "rev-parse", "HEAD")[:12]
    lines = [
        *_HEAD.splitlines(), "",
        f"At the tree `{trees.tree(root)}`, of commit `{commit}`: {len(held)} of {len(required)} "
        f"required parts held, {len(lacking)} gaps.", "",
        "## Parts", "",
        "| part | what | tried | took | when | tree and commit | here |",
        "|---|---|---|---|---|---|---|",
        *(_part_row(part, known.get(name), texts[name]) for name, part in PARTS.items()),
        "", *_HOW.splitlines(), "",
        "Parts of `findings`, and Pythons that `pyproject.toml` does not name, are told, and not "
        "waited for.", "",
        "## Promises", "",
    ]  # fmt: skip
    for page in dict.fromkeys(promise.page for promise in PROMISES):
        lines += [f"### {page}", "", "| promise | tried by |", "|---|---|"]
        lines += [
            f"| {promise.quote.strip('| ')} | {_tried(promise.parts, known, texts)} |"
            for promise in PROMISES
            if promise.page == page
        ]
        lines.append("")
    lines += ["## Gaps", ""]
    lines += [f"* {gap}" for gap in lacking] or ["None."]
    return "\n".join([*lines, ""])
