"""Plots and tables of docs/evaluation.md from a results file: `python bench/paper_report.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from machine import ROOT
from paper_plots import write_plots
from paper_tables import filled_in

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


if __name__ == "__main__":
    write(json.loads(RESULTS.read_text(encoding="utf-8")), RESULTS, DOCUMENT, IMAGES)
