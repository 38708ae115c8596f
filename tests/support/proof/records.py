"""Results of parts: one JSON line each in PROOF.jsonl, the newest of each part alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "PROOF.jsonl"


@dataclass(frozen=True)
class Record:
    """Result of one run of a part, at one tree."""

    part: str
    tree: str
    """Of the paths that the part is about (`trees.tree`)."""
    commit: str
    date: str
    minutes: float
    verdict: str
    """`held`, `short` (it ran, and tried or met less than it has to) or `failed`."""
    cases: int = 0
    unit: str = ""
    note: str = ""


def read(root: Path) -> dict[str, Record]:
    """Return the records by part; none where there is no file.

    Raises:
        SystemExit: a line is no record; names it.
    """
    path = root / FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = {}
    for number, line in enumerate(lines, 1):
        try:
            record = Record(**json.loads(line))
        except (TypeError, ValueError) as error:
            raise SystemExit(f"{path}, line {number}: {error}") from None
        records[record.part] = record
    return records


def write(root: Path, records: Iterable[Record]) -> None:
    """Write one line for each, in order of their names, so that two branches merge."""
    ordered = sorted(records, key=lambda record: record.part)
    text = "".join(json.dumps(asdict(r), ensure_ascii=False) + "\n" for r in ordered)
    (root / FILE).write_text(text, encoding="utf-8")


def keep(root: Path, record: Record) -> None:
    """Put a record in the place of the last one of its part."""
    write(root, {**read(root), record.part: record}.values())
