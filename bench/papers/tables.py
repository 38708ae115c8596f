"""Tables in Markdown, and their places in docs/evaluation.md.

A table is a function of its figures. It goes between ``<!-- name -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from bench.harness.targets import BENCH, stated

Figures = dict[str, Any]


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Markdown; floats with three significant digits."""
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    lines += ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def beside_targets(figures: Figures, script: str, how: str) -> str:
    """Return a table of figures beside the bounds that the script, below bench/, states for them.

    ``how`` is the head of their column: measured or simulated.
    """
    bounds = stated((BENCH / script).read_text(encoding="utf-8"))
    rows = [
        [f"`{name}`", value, bounds.get(name, "report").removeprefix("report")]
        for name, value in figures.items()
    ]
    return table(["figure", how, "target"], rows)


def filled_in(text: str, figures: Figures, tables: Iterable[Callable[[Figures], str]]) -> str:
    """The text with its tables made anew.

    Raises:
        ValueError: a table without a place.
    """
    for make in tables:
        name = make.__name__
        if name not in figures:
            continue
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        place = partial(_with_table, make(figures[name]))
        text, count = re.subn(pattern, place, text, flags=re.S)
        if count != 1:
            raise ValueError(f"{count} places for the table {name}")
    return text


def _with_table(made: str, place: re.Match[str]) -> str:
    return f"{place[1]}{made}\n{place[2]}"
