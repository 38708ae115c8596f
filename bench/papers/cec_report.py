"""Plots and tables of docs/evaluation.md made again from bench/papers/cec.json, without a run."""

from __future__ import annotations

import json

from bench.papers.cec_plots import write_plots
from bench.papers.cec_tables import TABLES
from bench.papers.report import publish, results_file


def main() -> None:
    """Read the results of the last full run and publish them."""
    results = results_file("cec", quick=False)
    figures = json.loads(results.read_text(encoding="utf-8"))
    publish(figures, "cec", TABLES, write_plots, quick=False)


if __name__ == "__main__":
    main()
