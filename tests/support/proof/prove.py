"""Runs one part of the proof, keeps its result, and writes PROOF.md: `make proof PART=check`.

Without a part it writes the page anew and prints what is missing. A part is about what is
committed: changed files are refused before it begins, and its result is dropped if the commit is
another when it ends.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from support.paths import ROOT
from support.proof import page, records, trees
from support.proof.parts import MINUTES_MAX, PARTS, Part
from support.proof.records import Record
from support.proof.running import run
from support.release.interpreters import find

LOGS = ROOT / "build" / "proof"
REQUIRED = {"CEC_STORES": "required", "CEC_CHROMIUM": "required"}
"""What a machine lacks for these tests fails a part, and is not passed over."""


def command_of(part: Part) -> list[str]:
    """Return what is run; on the Python that a part needs."""
    python = find(part.needs) if part.needs else None
    return [*part.command, *([f"PYTHON={python}"] if python else [])]


def judged(part: Part, status: int | None, text: str) -> tuple[str, int, str, str]:
    """Return verdict, cases, unit and note of a run that ended with a status and printed a text."""
    tally = part.tally(text)
    if status is None:
        return "failed", 0, "", f"ended after {MINUTES_MAX} minutes"
    if tally is None:
        return "failed", 0, "", f"status {status}, and it printed no counts"
    cases, unit, note, is_whole = tally
    if status and is_whole:
        return "failed", cases, unit, "; ".join(filter(None, [f"status {status}", note]))
    if not is_whole or cases < part.least:
        fewer = f"{cases:,} of {part.least:,}" if cases < part.least else ""
        return "short", cases, unit, "; ".join(filter(None, [fewer, note]))
    return "held", cases, unit, note


def prove(part: Part, root: Path = ROOT, logs: Path = LOGS) -> Record:
    """Run a part and keep its result.

    Raises:
        SystemExit: files are changed, the machine lacks what it needs, or the commit has changed.
    """
    if not part.is_possible:
        raise SystemExit(f"{part.name}: not tried, this machine has no Python {part.needs}")
    if changed := trees.changed(root):
        raise SystemExit(f"commit or undo first: {', '.join(changed)}")
    commit, tree = trees.git(root, "rev-parse", "HEAD"), trees.tree(root, part.subjects)
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{part.name}.log"
    print(f"{part.name}: {part.what}; its output goes to {log}", flush=True)
    began = time.monotonic()
    status = run(command_of(part), log, 60 * MINUTES_MAX, root, REQUIRED)
    minutes = max(0.1, round((time.monotonic() - began) / 60, 1))
    verdict, cases, unit, note = judged(part, status, log.read_text("utf-8", errors="replace"))
    if trees.git(root, "rev-parse", "HEAD") != commit or trees.changed(root):
        raise SystemExit(f"{part.name}: files changed while it ran, so its result is dropped")
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    record = Record(part.name, tree, commit[:12], date, minutes, verdict, cases, unit, note)
    records.keep(root, record)
    return record


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=PARTS)
    asked = parser.parse_args()
    record = prove(PARTS[asked.part]) if asked.part else None
    (ROOT / page.FILE).write_text(page.rendered(ROOT), encoding="utf-8")
    if record is None:
        gaps = page.gaps(ROOT)
        print("\n".join(gaps) or "the proof is whole")
        print(f"{len(gaps)} gaps; {page.FILE} is written")
        return 0
    print(f"{record.part}: {record.verdict}, {record.cases:,} {record.unit} "
          f"in {record.minutes:g} minutes {record.note}".rstrip())  # fmt: skip
    return record.verdict == "failed"


if __name__ == "__main__":
    sys.exit(main())
