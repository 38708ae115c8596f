"""Papers' parts of docs/evaluation.md: their results files, plots and tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.harness.machine import ROOT
from bench.harness.rounds import WORK
from bench.papers.tables import Figures, filled_in

DOCUMENT = ROOT / "docs" / "evaluation.md"
IMAGES = ROOT / "docs" / "images" / "evaluation"


def publish(
    figures: Figures,
    script: str,
    tables: Iterable[Callable[[Figures], str]],
    plots: Callable[[Figures, Path], None] | None = None,
    *,
    quick: bool,
) -> None:
    """Write the results beside the script of this name, the plots, and the document's tables.

    Its prose stays. A quick run leaves all of it in a folder of build/bench, and the document as
    it is.
    """
    results = results_file(script, quick=quick)
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if plots is not None:
        plots(figures, results.parent if quick else IMAGES)
    text = filled_in(DOCUMENT.read_text(encoding="utf-8"), figures, tables)
    document = results.parent / "evaluation.md" if quick else DOCUMENT
    document.write_text(text, encoding="utf-8")


def results_file(script: str, *, quick: bool) -> Path:
    """Return the file that :func:`publish` writes a script's figures to."""
    folder = WORK / script if quick else ROOT / "bench" / "papers"
    return folder / f"{script}.json"
