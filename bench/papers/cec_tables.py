"""Tables of the eventual checkpoint's part of docs/evaluation.md; each is made of its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.papers import cec_values as paper
from bench.papers.tables import Figures, beside_targets, percent, table


def figure_5(found: Figures) -> str:
    rows = []
    for workload, variants in found.items():
        native = variants["native"]["results_per_s"]
        for name, each in variants.items():
            drop = 1 - each["results_per_s"] / native
            rows.append(
                [f"{workload}, {name}", each["results_per_s"], each["records_per_s"],
                 each["input_rows_per_s"], percent(drop), f"{each['cpu_percent']:.0f} %"]
            )  # fmt: skip
    heads = ["windows, configuration", "results/s", "Real: records/s", "input rows/s",
             "below native", "processor"]  # fmt: skip
    return table(heads, rows)


def _crashes(found: Figures, head: str, names: Sequence[str], theirs: Sequence[Mapping[int, float]],
             with_q: bool) -> str:  # fmt: skip
    """A row for each Q or U, with the paper's values beside ours."""
    extents, loads, replays = ({str(key): value for key, value in each.items()} for each in theirs)
    rows = []
    for name, (key, each) in zip(names, found.items(), strict=True):
        row = [name, each["checks"], each["extent"], extents.get(key), 1e3 * each["load_s"],
               _times(loads.get(key), 1e3), each["replayed_bytes"] / 1e6, replays.get(key),
               1e3 * each["replay_s"]]  # fmt: skip
        rows.append([*row, percent(each["within_q"])] if with_q else row)
    heads = [head, "CHECKs", "extent", "paper", "load, ms", "paper", "replayed, MB", "paper",
             "replay, ms"]  # fmt: skip
    return table([*heads, "frames with q ≤ Q"] if with_q else heads, rows)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def figure_6(found: Figures) -> str:
    names = [f"{key} × open windows" for key in found]
    theirs = (paper.FIGURE_6_EXTENT, paper.FIGURE_6_LOAD_S, paper.FIGURE_6_REPLAY_MB)
    return _crashes(found, "Q", names, theirs, with_q=True)


def figure_7(found: Figures) -> str:
    names = [f"{int(key):,}" for key in found]
    theirs = (paper.FIGURE_7_EXTENT, paper.FIGURE_7_LOAD_S, paper.FIGURE_7_REPLAY_MB)
    return _crashes(found, "U, rows", names, theirs, with_q=False)


def figures_8_and_9(found: Figures) -> str:
    none = found["none"]["response_s"]
    their_none = paper.FIGURE_8_RESPONSE_S["none"]
    rows = []
    for name, each in found.items():
        theirs = paper.FIGURE_8_RESPONSE_S.get(name)
        extent = each.get("extents", {})
        rows.append(
            ["no CEC" if name == "none" else name, 1e3 * each["response_s"],
             each["response_s"] / none, _times(theirs, 1e3), _times(theirs, 1 / their_none),
             each["input_rows_per_s"], each["checks"], extent.get("mean"),
             extent.get("mean_over_n")]
        )  # fmt: skip
    heads = ["CP, ms", "response, ms", "to no CEC", "paper, ms", "to no CEC", "input rows/s",
             "CHECKs", "extent (mean)", "to open windows"]  # fmt: skip
    return table(heads, rows)


def frontier(found: Figures) -> str:
    rows = [
        [name, percent(each["lost"]), percent(each["lost_median"]), each["checks"],
         each["extent"], each["replayed_rows"], 1e3 * each["load_s"], 1e3 * each["replay_s"]]
        for name, each in found.items() if name != "none"
    ]  # fmt: skip
    heads = ["policy", "lost", "median", "CHECKs", "extent", "rows again", "load, ms", "replay, ms"]
    return table(heads, rows)


def pauses(found: Figures) -> str:
    names = {
        "eventual": "eventual, Q = 2 × open windows: the longest",
        "increments": "increments, a whole one in 16: the median",
        "whole": "whole (CRB): the median",
    }
    rows = [
        [title, 1e3 * found[name]["pause_s"], percent(found[name]["lost"]),
         found[name]["extent"], 1e3 * found[name]["load_s"], found[name]["replayed_rows"],
         1e3 * found[name]["replay_s"]]
        for name, title in names.items()
    ]  # fmt: skip
    heads = ["checkpoints", "stands still, ms", "lost", "extent", "load, ms", "rows again",
             "replay, ms"]  # fmt: skip
    return table(heads, rows)


def _variants(found: Figures, head: str) -> str:
    rows = []
    for name, policies in found.items():
        alone, q2 = policies["OPEN alone"], policies["Q = 2 N"]
        rows.append(
            [name, policies["none"]["rows_per_s"], q2["open_windows"], percent(alone["lost"]),
             percent(q2["lost"]), alone["extent"], q2["extent"], 1e3 * q2["load_s"],
             percent(q2["within_q"])]
        )  # fmt: skip
    heads = [head, "rows/s without", "open windows", "lost: OPEN alone", "lost: Q = 2 N",
             "extent: OPEN alone", "extent: Q = 2 N", "load, ms", "frames with q ≤ Q"]  # fmt: skip
    return table(heads, rows)


def skewed(found: Figures) -> str:
    return _variants(found, "Zipf's exponent")


def sliding(found: Figures) -> str:
    return _variants(found, "a window every … rows")


def _sweep(found: Figures, head: str, columns: dict[str, tuple[str, float]]) -> str:
    rows = [
        [f"{int(size):,}", *(factor * each[name] for name, (_, factor) in columns.items())]
        for size, each in found["measured"].items()
    ]
    rows.append(["**exponent**", *(found["exponents"].get(name) for name in columns)])
    return table([head, *(title for title, _ in columns.values())], rows)


def by_windows(found: Figures) -> str:
    columns = {"s_per_row": ("ns a row", 1e9), "load_s": ("load, ms", 1e3),
               "replay_s": ("replay, ms", 1e3), "extent_bytes": ("extent, MB", 1e-6),
               "pause_s": ("longest pause, ms", 1e3), "memory_mb": ("memory, MB", 1.0)}  # fmt: skip
    return _sweep(found, "open windows", columns)


def by_rate(found: Figures) -> str:
    columns = {
        "rows_per_s": ("came, rows/s", 1.0),
        "cpu_s_per_s": ("processor, s/s", 1.0),
        "checks_per_s": ("CHECKs/s", 1.0),
        "bytes_per_s": ("MB/s written", 1e-6),
    }
    return _sweep(found, "rows/s asked for", columns)


def by_state(found: Figures) -> str:
    columns = {"s_per_row": ("ns a row", 1e9), "load_s": ("load, ms", 1e3),
               "extent_bytes": ("extent, MB", 1e-6)}  # fmt: skip
    return _sweep(found, "bytes of a window", columns)


def headline(found: Figures) -> str:
    return beside_targets(found, "papers/cec.py", "measured")


def machine(found: Figures) -> str:
    return table(["", ""], list(found.items()))


TABLES = (
    machine, headline, figure_5, figure_6, figure_7, figures_8_and_9, frontier, pauses, skewed,
    sliding, by_windows, by_rate, by_state,
)  # fmt: skip
