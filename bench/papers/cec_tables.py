"""Tables of the eventual checkpoint's part of docs/evaluation.md; each is made of its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.papers import cec_values as paper
from bench.papers.tables import Figures, beside_targets, percent, table


def figure_5(figures: Figures) -> str:
    rows = []
    for workload, variants in figures.items():
        native = variants["native"]["results_per_s"]
        for name, run in variants.items():
            drop = 1 - run["results_per_s"] / native
            rows.append(
                [f"{workload}, {name}", run["results_per_s"], run["records_per_s"],
                 run["input_rows_per_s"], percent(drop), f"{run['cpu_percent']:.0f} %"]
            )  # fmt: skip
    heads = ["windows, configuration", "results/s", "Real: records/s", "input rows/s",
             "below native", "processor"]  # fmt: skip
    return table(heads, rows)


def _crashes(
    figures: Figures,
    head: str,
    names: Sequence[str],
    theirs: Sequence[Mapping[int, float]],
    with_q: bool,
) -> str:
    """A row for each Q or U, with the paper's values beside ours."""
    extents, loads, replays = (
        {str(key): value for key, value in values.items()} for values in theirs
    )
    rows = []
    for name, (key, crash) in zip(names, figures.items(), strict=True):
        row = [name, crash["checks"], crash["extent"], extents.get(key), 1e3 * crash["load_s"],
               _times(loads.get(key), 1e3), crash["replayed_bytes"] / 1e6, replays.get(key),
               1e3 * crash["replay_s"]]  # fmt: skip
        rows.append([*row, percent(crash["within_q"])] if with_q else row)
    heads = [head, "CHECKs", "extent", "paper", "load, ms", "paper", "replayed, MB", "paper",
             "replay, ms"]  # fmt: skip
    return table([*heads, "frames with q ≤ Q"] if with_q else heads, rows)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def figure_6(figures: Figures) -> str:
    names = [f"{key} × open windows" for key in figures]
    theirs = (paper.FIGURE_6_EXTENT, paper.FIGURE_6_LOAD_S, paper.FIGURE_6_REPLAY_MB)
    return _crashes(figures, "Q", names, theirs, with_q=True)


def figure_7(figures: Figures) -> str:
    names = [f"{int(key):,}" for key in figures]
    theirs = (paper.FIGURE_7_EXTENT, paper.FIGURE_7_LOAD_S, paper.FIGURE_7_REPLAY_MB)
    return _crashes(figures, "U, rows", names, theirs, with_q=False)


def figures_8_and_9(figures: Figures) -> str:
    none = figures["none"]["response_s"]
    their_none = paper.FIGURE_8_RESPONSE_S["none"]
    rows = []
    for name, line in figures.items():
        theirs = paper.FIGURE_8_RESPONSE_S.get(name)
        extent = line.get("extents", {})
        rows.append(
            ["no CEC" if name == "none" else name, 1e3 * line["response_s"],
             line["response_s"] / none, _times(theirs, 1e3), _times(theirs, 1 / their_none),
             line["input_rows_per_s"], line["checks"], extent.get("mean"),
             extent.get("mean_over_n")]
        )  # fmt: skip
    heads = ["CP, ms", "response, ms", "to no CEC", "paper, ms", "to no CEC", "input rows/s",
             "CHECKs", "extent (mean)", "to open windows"]  # fmt: skip
    return table(heads, rows)


def frontier(figures: Figures) -> str:
    rows = [
        [name, percent(line["lost"]), percent(line["lost_median"]), line["checks"],
         line["extent"], line["replayed_rows"], 1e3 * line["load_s"], 1e3 * line["replay_s"]]
        for name, line in figures.items() if name != "none"
    ]  # fmt: skip
    heads = ["policy", "lost", "median", "CHECKs", "extent", "rows again", "load, ms", "replay, ms"]
    return table(heads, rows)


def pauses(figures: Figures) -> str:
    names = {
        "eventual": "eventual, Q = 2 × open windows: the longest",
        "increments": "increments, a whole one in 16: the median",
        "whole": "whole (CRB): the median",
    }
    rows = [
        [title, 1e3 * figures[name]["pause_s"], percent(figures[name]["lost"]),
         figures[name]["extent"], 1e3 * figures[name]["load_s"], figures[name]["replayed_rows"],
         1e3 * figures[name]["replay_s"]]
        for name, title in names.items()
    ]  # fmt: skip
    heads = ["checkpoints", "stands still, ms", "lost", "extent", "load, ms", "rows again",
             "replay, ms"]  # fmt: skip
    return table(heads, rows)


def _variants(figures: Figures, head: str) -> str:
    rows = []
    for name, policies in figures.items():
        alone, q2 = policies["OPEN alone"], policies["Q = 2 N"]
        rows.append(
            [name, policies["none"]["rows_per_s"], q2["open_windows"], percent(alone["lost"]),
             percent(q2["lost"]), alone["extent"], q2["extent"], 1e3 * q2["load_s"],
             percent(q2["within_q"])]
        )  # fmt: skip
    heads = [head, "rows/s without", "open windows", "lost: OPEN alone", "lost: Q = 2 N",
             "extent: OPEN alone", "extent: Q = 2 N", "load, ms", "frames with q ≤ Q"]  # fmt: skip
    return table(heads, rows)


def skewed(figures: Figures) -> str:
    return _variants(figures, "Zipf's exponent")


def sliding(figures: Figures) -> str:
    return _variants(figures, "a window every … rows")


def _sweep(figures: Figures, head: str, columns: dict[str, tuple[str, float]]) -> str:
    rows = [
        [f"{int(size):,}", *(factor * costs[name] for name, (_, factor) in columns.items())]
        for size, costs in figures["measured"].items()
    ]
    rows.append(["**exponent**", *(figures["exponents"].get(name) for name in columns)])
    return table([head, *(title for title, _ in columns.values())], rows)


def by_windows(figures: Figures) -> str:
    columns = {"s_per_row": ("ns a row", 1e9), "load_s": ("load, ms", 1e3),
               "replay_s": ("replay, ms", 1e3), "extent_bytes": ("extent, MB", 1e-6),
               "pause_s": ("longest pause, ms", 1e3), "memory_mb": ("memory, MB", 1.0)}  # fmt: skip
    return _sweep(figures, "open windows", columns)


def by_rate(figures: Figures) -> str:
    columns = {
        "rows_per_s": ("came, rows/s", 1.0),
        "cpu_s_per_s": ("processor, s/s", 1.0),
        "checks_per_s": ("CHECKs/s", 1.0),
        "bytes_per_s": ("MB/s written", 1e-6),
    }
    return _sweep(figures, "rows/s asked for", columns)


def by_state(figures: Figures) -> str:
    columns = {"s_per_row": ("ns a row", 1e9), "load_s": ("load, ms", 1e3),
               "extent_bytes": ("extent, MB", 1e-6)}  # fmt: skip
    return _sweep(figures, "bytes of a window", columns)


def headline(figures: Figures) -> str:
    return beside_targets(figures, "papers/cec.py", "measured")


def machine(figures: Figures) -> str:
    return table(["", ""], list(figures.items()))


TABLES = (
    machine, headline, figure_5, figure_6, figure_7, figures_8_and_9, frontier, pauses, skewed,
    sliding, by_windows, by_rate, by_state,
)  # fmt: skip
