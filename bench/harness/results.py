"""RESULTS.md: every target with what was measured, and what each script printed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.harness.targets import Target

MEASURED = ("date", "commit", "load before", "system", "processor")
"""Facts of one run: another script's, or the next session's on such a machine, are others. What is
compared is of one run, so that another one may have been on a machine with another processor."""
NOT_MEASURED = "not measured at this commit"
# Each run names its commit, which tells more than the version that it was on the way to.
_OWN_VERSION = re.compile(r"\bcec-store \S+, ")
_SECTION = re.compile(
    r"^## `(python bench/(\S+)[^`\n]*)`\n\n([^\n]+)\n\n```\n(.*?)^(\{[^\n]*\})\n```$", re.M | re.S
)


@dataclass(frozen=True)
class Run:
    """One script's command line, when it ran, what it printed, and the figures of its last line."""

    command: str
    measured: str
    text: str
    figures: dict[str, float]

    def __str__(self) -> str:
        text = self.text and f"{self.text}\n"
        return (
            f"## `{self.command}`\n\n{self.measured}\n\n"
            f"```\n{text}{json.dumps(self.figures)}\n```\n"
        )


def kept(results: str, facts: Mapping[str, str]) -> dict[str, Run]:
    """Return the runs that a RESULTS.md holds, by script; none if they are of another machine."""
    header = _OWN_VERSION.sub("", results)
    same = (_OWN_VERSION.sub("", f"| {name} | {fact} |") for name, fact in machine(facts).items())
    return all_runs(results) if all(row in header for row in same) else {}


def all_runs(results: str) -> dict[str, Run]:
    """Return the runs that a RESULTS.md holds, by script, whatever machine they are of."""
    return {
        script: Run(command, measured, text.rstrip("\n"), json.loads(figures))
        for command, script, measured, text, figures in _SECTION.findall(results)
    }


def machine(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the facts that all runs share, which are the machine's."""
    return {name: fact for name, fact in facts.items() if name not in MEASURED}


def number(value: float) -> str:
    """Return a figure with two decimals, or with none from a thousand on."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


def rendered(facts: Mapping[str, str], runs: Mapping[str, Run], targets: Sequence[Target]) -> str:
    """Return the text of RESULTS.md: a row for each target, then the runs in order of scripts."""
    lines = [
        "# Results",
        "",
        "Written by `make bench`. A ratio compares contestants of one run. They took turns, and",
        "their best turns are compared, or the medians where the script says so. Where each had",
        "one turn, medians of its batches are compared. What is compared stands at the top of",
        "each script. Each run says when and where it was made, and of which commit.",
        "",
        "| | |",
        "|---|---|",
    ]
    lines += [f"| {name} | {fact} |" for name, fact in machine(facts).items()]
    lines += ["", "| script | figure | measured | target |", "|---|---|---|---|"]
    lines += [_row(target, runs.get(target.script)) for target in in_order(targets)]
    scripts = dict.fromkeys(target.script for target in targets)
    sections = [str(runs[script]) for script in scripts if script in runs]
    return "\n".join([*lines, "", *sections])


def in_order(targets: Sequence[Target]) -> list[Target]:
    """Return the targets with watermarks, which most queries have, before all others."""
    return sorted(targets, key=lambda target: "watermark" not in f"{target.script} {target.figure}")


def _row(target: Target, run: Run | None) -> str:
    value = None if run is None else run.figures.get(target.figure)
    if value is None:
        measured = NOT_MEASURED
    else:
        measured = number(value) + ("" if target.met_by(value) else " (missed)")
    return f"| `{target.script}` | `{target.figure}` | {measured} | {target.bound} |"
