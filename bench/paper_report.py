"""Plots and tables of docs/evaluation.md from a results file: `python bench/paper_report.py`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from machine import ROOT
from paper_plots import write_plots
from paper_tables import filled_in
from rounds import WORK

RESULTS = ROOT / "bench" / "paper_cec.json"
DOCUMENT = ROOT / "docs" / "evaluation.md"
IMAGES = ROOT / "docs" / "images" / "evaluation"


def write(figures: dict[str, Any], results: Path, document: Path, images: Path) -> None:
    """The results file, then the plots, then the document's tables; its prose stays."""
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    write_plots(figures, images)
    text = filled_in(DOCUMENT.read_text(encoding="utf-8"), figures)
    document.write_text(text, encoding="utf-8")


def publish(
    figures: dict[str, Any],
    script: str,
    tables: Iterable[Callable[[dict[str, Any]], str]],
    plots: Callable[[dict[str, Any], Path], None] | None = None,
    *,
    quick: bool,
) -> None:
    """Another paper's part of the document, with results beside the script of this name.

    Of a quick run all of it goes to a folder of build/bench, and the document stays as it is.
    """
    folder = WORK / script.removeprefix("paper_")
    results = results_file(script, quick=quick)
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if plots is not None:
        plots(figures, folder if quick else IMAGES)
    text = filled_in(DOCUMENT.read_text(encoding="utf-8"), figures, tables)
    (folder / "evaluation.md" if quick else DOCUMENT).write_text(text, encoding="utf-8")


def results_file(script: str, *, quick: bool) -> Path:
    """Where :func:`publish` writes the figures of a script."""
    return (WORK / script.removeprefix("paper_") if quick else ROOT / "bench") / f"{script}.json"


if __name__ == "__main__":
    write(json.loads(RESULTS.read_text(encoding="utf-8")), RESULTS, DOCUMENT, IMAGES)
