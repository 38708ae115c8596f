"""Loading a state after many small commits against loading it after one of as many rows.

In a JVM of its own, without Spark, as an executor loads a store: 50,000 commits of ten rows of new
keys, made as the provider makes them, so that the policy renews footprints. By turns, the best of
each. For `opening.py`, which reports it.
"""

from __future__ import annotations

from pathlib import Path

COMMITS, COMMITS_QUICK = 50_000, 5_000
ROUNDS = 9


def load_small_commits_ratio(folder: Path, quick: bool) -> float:
    """Time to load after the small commits, over that after the large one."""
    from support.spark.jvm import run_jvm

    commits = COMMITS_QUICK if quick else COMMITS
    times = run_jvm("load", timeout_s=900, root=folder, commits=commits, rounds=ROUNDS)
    return float(times["smallMs"] / times["oneMs"])
