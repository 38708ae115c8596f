"""Runs of the paper's section 7.3: what an allocation of copies is worth while loads change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum

import numpy as np

from bench.simulators.placement.jobs import Job
from cec_store.placement.adaptation import plan
from cec_store.placement.allocation import baseline, correlated, even
from cec_store.placement.drafting import EQUAL, Draft, usable_copies
from cec_store.placement.layout import Floats, Layout
from cec_store.placement.loads import Reading, costs, mean_loads
from cec_store.placement.plans import Rules
from cec_store.placement.protocols import Group, Links, Protocol, cost
from cec_store.placement.updating import updated


class Allocation(str, Enum):
    """Rule by which copies are placed; the lines of Figures 7 to 9."""

    BASELINE = "baseline"
    EVEN = "even"
    CORRELATED = "correlated"
    LAZY_MOVE = "lazy move"
    """Move whole checkpoints: the next one goes to where a group is to move, then the group moves.
    """


@dataclass(frozen=True)
class Setting:
    """Settings of a run; the paper's where it says so.

    Raises:
        ValueError: a time that is none.
    """

    statistics_s: float = 900.0
    """Seconds before which nothing moves and there are no copies."""
    overload: float = 0.8
    paired: bool = True
    """Move groups to the least used node in any case, as in Flux: see `Rules`."""
    spread: float = math.inf
    """Constraint 2."""
    reading: Reading = Reading.NODE
    least: float | None = None
    """Nearer to 0, a correlation is none: see `correlations`."""
    update_s: float = 300.0
    """Between two looks at the allocation of correlated copies."""
    threshold: float = math.inf
    """θ, in the unit of loads; infinite: copies move with their groups alone."""
    averaged_s: float = 60.0
    """Groups move by the mean of the loads over this time."""
    checkpoint_s: float = 30.0
    protocol: Protocol = Protocol.CPAL
    row_bytes: float = 100.0
    links: Links = field(default_factory=Links)

    def __post_init__(self) -> None:
        for name in ("statistics_s", "update_s", "checkpoint_s", "averaged_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name):g}: give more than 0")


@dataclass
class Outcome:
    """Sums over a run."""

    moves: int = 0
    assisted: int = 0
    on_overloaded: int = 0
    """Groups on overloaded nodes, at each step anew."""
    usable: int = 0
    """Groups among them that could have moved to a copy."""
    latency_s: float = 0.0
    """Seconds that rows waited for migrations."""
    direct_latency_s: float = 0.0
    """The same if all of them had been direct."""
    copies_moved: int = 0
    """Copies that moved to follow the loads, not their groups."""
    overloaded_s: float = 0.0
    """Over all nodes, after each step's migrations."""


@dataclass(frozen=True)
class Point:
    """The means of several runs; the shares are those of their sums."""

    runs: int
    moves: float
    assisted_share: float
    usable_share: float
    usable_error: float
    """One standard error over the runs."""
    latency_s: float
    direct_latency_s: float
    copies_moved: float
    overloaded_s: float


def simulate(job: Job, allocation: Allocation, setting: Setting, seed: int = 0) -> Outcome:
    """One run; the same arguments give the same outcome.

    Raises:
        ValueError: the job is over before its statistics are.
    """
    return _Run(job, allocation, setting, seed).run()


def point_of(jobs: Sequence[Callable[[], Job]], allocation: Allocation, setting: Setting) -> Point:
    """Return the averages over one run of each job."""
    outcomes = [simulate(make(), allocation, setting, seed) for seed, make in enumerate(jobs)]
    total = {item.name: sum(getattr(o, item.name) for o in outcomes) for item in fields(Outcome)}
    shares = [item.usable / item.on_overloaded for item in outcomes if item.on_overloaded]
    count = len(outcomes)
    return Point(
        runs=count,
        moves=total["moves"] / count,
        assisted_share=total["assisted"] / max(1, total["moves"]),
        usable_share=total["usable"] / max(1, total["on_overloaded"]),
        usable_error=float(np.std(shares) / len(shares) ** 0.5) if shares else 0.0,
        latency_s=total["latency_s"] / count,
        direct_latency_s=total["direct_latency_s"] / count,
        copies_moved=total["copies_moved"] / count,
        overloaded_s=total["overloaded_s"] / count,
    )


class _Run:
    """A run of one job under one allocation."""

    def __init__(self, job: Job, allocation: Allocation, setting: Setting, seed: int) -> None:
        self._job = job
        self._allocation = allocation
        self._setting = setting
        self._random = np.random.default_rng([2015, seed])
        self._rules = Rules(
            setting.overload, aim=setting.overload, scales=False, fills=False,
            underload=setting.overload / 2, assisted=setting.protocol,
            paired=setting.paired,
        )  # fmt: skip
        self._layout = job.layout
        self._due: list[tuple[int, int, int]] = []
        """Lazy moves that are due: the step, the group, and the target node."""
        self._outcome = Outcome()

    def run(self) -> Outcome:
        steps = self._job.loads.shape[1]
        first = round(self._setting.statistics_s / self._job.interval_s)
        if not 0 < first < steps:
            raise ValueError(
                f"statistics_s is {self._setting.statistics_s:g}: the job has "
                f"{steps * self._job.interval_s:g} s"
            )
        every = max(1, round(self._setting.update_s / self._job.interval_s))
        self._layout = self._allocated(first)
        for step in range(first, steps):
            is_correlated = self._allocation is Allocation.CORRELATED
            if is_correlated and step > first and (step - first) % every == 0:
                self._update(step)
            self._adapt(step)
        return self._outcome

    def _seen(self, step: int) -> Floats:
        """The newest loads, for as long as statistics were collected at first."""
        length = round(self._setting.statistics_s / self._job.interval_s)
        return self._job.loads[:, max(0, step - length) : step]

    def _allocated(self, step: int) -> Layout:
        if self._allocation is Allocation.CORRELATED:
            return self._correlated(step)
        make = baseline if self._allocation is Allocation.BASELINE else even
        return make(self._layout, 1, self._random)

    def _correlated(self, step: int) -> Layout:
        setting = self._setting
        return correlated(
            self._layout, self._seen(step), spread=setting.spread, reading=setting.reading,
            least=setting.least,
        )  # fmt: skip

    def _update(self, step: int) -> None:
        if math.isinf(self._setting.threshold):
            return  # A proposal that is never followed need not be made.
        setting = self._setting
        priced = costs(self._seen(step), self._layout, setting.reading, setting.least)
        update = updated(self._layout, self._correlated(step), priced, setting.threshold)
        self._outcome.copies_moved += len(update.moves)
        self._layout = update.layout

    def _adapt(self, step: int) -> None:
        load, outcome = self._averaged(step), self._outcome
        lazily = self._allocation is Allocation.LAZY_MOVE
        if lazily:
            self._move_what_is_due(step)
        usable, groups = usable_copies(self._layout, load, self._job.nodes, self._setting.overload)
        outcome.usable += usable
        outcome.on_overloaded += groups
        before = self._layout
        for _, group, target in self._due:
            before = before.moved(group, target)
        adaptation = plan(before, load, self._job.nodes, self._rules)
        number = {name: index for index, name in enumerate(before.groups)}
        places = {name: index for index, name in enumerate(before.nodes)}
        for move in adaptation.moves:
            if lazily:
                due = (self._next_checkpoint(step), number[move.group], places[move.target])
                self._due.append(due)
            else:
                self._count(step, number[move.group], move.protocol)
        if not lazily:
            self._layout = adaptation.layout
        after = Draft(self._layout, load, self._job.nodes, self._rules)
        above = int((after.used > self._setting.overload + EQUAL).sum())
        outcome.overloaded_s += above * self._job.interval_s

    def _averaged(self, step: int) -> Floats:
        length = max(1, round(self._setting.averaged_s / self._job.interval_s))
        return mean_loads(self._job.loads[:, max(0, step + 1 - length) : step + 1])

    def _next_checkpoint(self, step: int) -> int:
        every = max(1, round(self._setting.checkpoint_s / self._job.interval_s))
        return (step // every + 1) * every

    def _move_what_is_due(self, step: int) -> None:
        for _, group, target in [move for move in self._due if move[0] <= step]:
            holders = self._layout.holders.copy()
            holders[group] = target
            self._layout = self._layout.with_holders(holders).moved(group, target)
            self._count(step, group, self._setting.protocol)
        self._due = [move for move in self._due if move[0] > step]

    def _count(self, step: int, group: int, protocol: Protocol) -> None:
        job, setting = self._job, self._setting
        rows_per_s = float(job.rows_per_s[group, step])
        moved = Group(
            state_bytes=float(job.state_bytes[group, step]),
            replay_rows=rows_per_s * setting.checkpoint_s / 2,
            row_bytes=setting.row_bytes,
            row_s=float(job.row_s[group]),
            rows_per_s=rows_per_s,
        )
        self._outcome.moves += 1
        self._outcome.assisted += protocol.is_assisted
        self._outcome.latency_s += cost(protocol, moved, setting.links).latency_s
        direct = cost(Protocol.DIRECT, moved, setting.links)
        self._outcome.direct_latency_s += direct.latency_s
