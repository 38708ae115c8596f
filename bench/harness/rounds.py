"""Timing contestants against one another, and the options that every benchmark takes.

Contestants take turns in one process, round by round, so that whatever disturbs the machine
disturbs all of them alike. What is compared is the best of their rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.harness.machine import ROOT

WORK = ROOT / "build" / "bench"
ONE_TURN = (1, 1)
"""Turns of a script that measures each contestant once, or has only one."""


@dataclass(frozen=True)
class Options:
    """Options of the command line."""

    quick: bool
    rounds: int
    scale: float
    folder: Path
    """New directory in which files are written, removed at the end."""
    parts: tuple[str, ...] = ()
    """Parts that are to be measured, in their order; all unless asked for."""
    before: Path | None = None
    """Another checkout, whose own script takes turns with this one."""

    def size(self, full: int, quick: int) -> int:
        return max(1, int((quick if self.quick else full) * self.scale))


@contextmanager
def options(
    description: str | None,
    turns: tuple[int, int] = (7, 5),
    takes: str = "under a minute",
    parts: Sequence[str] = (),
    long_parts: Sequence[str] = (),
    has_before: bool = False,
) -> Iterator[Options]:
    """Parse the command line and make the folder; ``turns`` of each, at full size and quick.

    What has ``parts`` can be asked for some of them; a quick run leaves out ``long_parts`` unless
    it is asked for them. From here on SIGTERM raises SystemExit.
    """
    full, quick = turns
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help=f"small sizes: {takes}")
    parser.add_argument(
        "--rounds", type=int, default=0, help=f"turns of each ({full}; quick: {quick})"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="sizes are multiplied by this")
    parser.add_argument("--dir", type=Path, default=WORK, help="a directory on the disk to measure")
    if parts:
        parser.add_argument("--only", nargs="+", choices=parts, help="some of it; the rest stays")
    if has_before:
        parser.add_argument("--before", type=Path, help="a checkout to be compared with")
    asked = parser.parse_args()
    if turns == ONE_TURN and asked.rounds > 1:
        parser.error(f"--rounds {asked.rounds}: this script has one turn; run it again for more")
    usual = [part for part in parts if not (asked.quick and part in long_parts)]
    named = getattr(asked, "only", None) or usual
    # Otherwise a SIGTERM would leave the folder behind, and processes that the script has started.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    asked.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=asked.dir))
    try:
        rounds = asked.rounds or (quick if asked.quick else full)
        chosen = tuple(part for part in parts if part in named)
        before = getattr(asked, "before", None)
        yield Options(asked.quick, rounds, asked.scale, folder, chosen, before)
    finally:
        shutil.rmtree(folder)


class WarmClock:
    """Starts once so many rows are through; a runner takes it as ``progress``."""

    def __init__(self, warm_rows: int) -> None:
        self._warm_rows = warm_rows
        self._rows = 0
        self._began = time.perf_counter()

    def __call__(self, count: int) -> None:
        self._rows += count
        if self._rows <= self._warm_rows:
            self._began = time.perf_counter()

    def seconds(self) -> float:
        """Since it started; without a warm-up since it was made."""
        return time.perf_counter() - self._began


@dataclass(frozen=True)
class Timing:
    """Seconds that a contestant took, one number a round."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def race(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Timing]:
    """Let each take a turn per round; a contestant returns the seconds that count."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds):
        # Who goes first rotates: nobody always runs in the wake of the same neighbour.
        first = number % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            seconds[name].append(contestants[name]())
    return {name: Timing(tuple(turns)) for name, turns in seconds.items()}


@contextmanager
def stopwatch() -> Iterator[list[float]]:
    """A list that holds the seconds once the block is left."""
    taken: list[float] = []
    began = time.perf_counter()
    yield taken
    taken.append(time.perf_counter() - began)


def report(figures: Mapping[str, float]) -> None:
    """The last line of a benchmark."""
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
