"""Runs the scripts of findings/, each of which fails once outside software behaves otherwise.

What has changed is told, and is no failure of ours: the status is 0. `--share 1` takes every other
script, `--share 2` the rest.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.paths import ROOT
from support.proof.running import run

SCRIPTS = sorted((ROOT / "findings").glob("*.sh"))
SHARES = 2
SECONDS_MAX = 900


def outcome(script: Path, seconds: float = SECONDS_MAX) -> tuple[str, str]:
    """Return how a script ended (`as it was`, `otherwise`, `too slow`), and its last line."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        status = run(["bash", str(script.resolve())], log, seconds, Path(folder))
        text = log.read_text(encoding="utf-8", errors="replace")
    if status is None:
        return "too slow", f"ended after {seconds:g} s"
    return ("otherwise" if status else "as it was"), (text.strip().splitlines() or [""])[-1]


def summary(outcomes: list[str]) -> str:
    """Return the line that the proof reads."""
    counts = [outcomes.count(kind) for kind in ("as it was", "otherwise", "too slow")]
    return "findings: {} as they were, {} otherwise, {} too slow".format(*counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=int, choices=range(1, SHARES + 1))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("scripts", nargs="*", type=Path, help="all of them")
    asked = parser.parse_args()
    scripts = asked.scripts or SCRIPTS[(asked.share or 1) - 1 :: SHARES if asked.share else 1]
    kinds = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        for script, (kind, last) in zip(scripts, pool.map(outcome, scripts), strict=True):
            kinds.append(kind)
            print(
                f"{script.name}: {kind}" + ("" if kind == "as it was" else f": {last}"), flush=True
            )
    print(summary(kinds))


if __name__ == "__main__":
    main()
