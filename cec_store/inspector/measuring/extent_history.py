"""History of an extent from commit to commit: with the CHECKs recorded, or those of a target."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.checkpoints.policy import Never, Policy, Targets
from cec_store.format.columns import Ints
from cec_store.operators.keys.words import grown
from cec_store.values import parse_count

# The rule of Spark's state store: state/ExtentTarget.scala and state/LiveState.scala there.
FRAME_COST_RECORDS = 128
FLOOR_RECORDS = 64 * FRAME_COST_RECORDS
FACTOR_MIN = 1.1


@dataclass(frozen=True)
class WhatIf:
    """A target to try: one of the first two or neither, and for operators' queues also U."""

    extent_records: int | None = None
    extent_factor: float | None = None
    replay_rows: int | None = None

    def __str__(self) -> str:
        words = []
        if self.extent_records is not None:
            words.append(f"Q={self.extent_records}")
        if self.extent_factor is not None:
            words.append(f"Q={self.extent_factor:g}x")
        if self.replay_rows is not None:
            words.append(f"U={self.replay_rows}")
        return ",".join(words)

    def cost_max(self, open_windows: int) -> int:
        """The most that the extent of a state store may cost with so many open windows."""
        asked = self.extent_records
        if asked is None:
            asked = max(FLOOR_RECORDS, int(open_windows * (self.extent_factor or 0)))
        return max(asked, int(open_windows * FACTOR_MIN))


def parse_what_if(text: str) -> WhatIf:
    """``Q=100000``, ``Q=2x`` (times the open windows), ``U=5000``, or Q and U with a comma.

    Raises:
        ValueError: it is none of these.
    """
    numbers: dict[str, float] = {}
    is_factor = False
    refusal = (
        f"{text!r} is no target: give Q=100000 (records), Q=2x (times the open windows), "
        "U=5000 (rows of input), or Q=2x,U=5000"
    )
    for word in text.split(","):
        match = re.fullmatch(
            r"\s*([QU])\s*=\s*(?:(\d+(?:\.\d+)?)\s*x|(.*\S))\s*", word, re.IGNORECASE
        )
        name, factor, count = match.groups() if match else ("", None, None)
        name = name.upper()
        try:
            number = float(factor) if factor else parse_count(count or "")
        except ValueError:
            raise ValueError(refusal) from None
        if not number or name in numbers or (factor and name != "Q"):
            raise ValueError(refusal)
        numbers[name] = number
        is_factor = is_factor or factor is not None
    q, u = numbers.get("Q"), numbers.get("U")
    return WhatIf(
        extent_records=int(q) if q and not is_factor else None,
        extent_factor=q if q and is_factor else None,
        replay_rows=int(u) if u else None,
    )


@dataclass(frozen=True)
class ExtentHistory:
    """Figures of an extent, commit by commit (a queue's are its frames)."""

    extent_records: Ints
    """q at the end of each."""
    replay_rows: Ints
    """u at the end of each; of a state store, versions."""
    checks: Ints
    """CHECKs that the policy wrote in each."""


@dataclass(frozen=True)
class CommitSummary:
    """Counts and windows of one commit; arrays have slots of the window table in place of keys."""

    position: int
    closed: Ints
    """Windows that were open before it and that it closes."""
    footprints: Ints
    """Windows of which it has a footprint that no policy wrote, in the order of the records."""
    footprint_rows: Ints
    """Row of each such footprint among the records that no policy wrote."""
    others: int
    """Number of records that no policy wrote."""
    renewed: Ints
    """Windows of which the policy wrote a footprint: these records stand last."""
    frames: int
    open_windows: int


@dataclass
class RecordedExtent:
    """The extent of a log with its recorded CHECKs; subclasses put those of a target in instead."""

    policy: Policy = field(default_factory=Never)
    end: int = 0
    """Offset of the next record."""

    def __post_init__(self) -> None:
        self.windows = Checkpointer(self.policy)
        self.figures: list[tuple[int, int, int]] = []

    def begin(
        self, windows: tuple[Ints, Ints, Ints], end: int, commits: list[tuple[int, int]]
    ) -> None:
        """Begin with open windows; ``commits`` are those up to here, by first offset and frames."""
        self.windows.restored(*windows)
        self.end = end

    def take(self, commit: CommitSummary) -> None:
        """The next commit, with the CHECKs that this policy writes in it."""
        self.windows.closed(commit.closed)
        positions = np.full(len(commit.footprint_rows), commit.position)
        self.windows.restored(commit.footprints, self.end + commit.footprint_rows, positions)
        checked = self._checked(commit)
        self.end += commit.others
        self.windows.opened(checked, self.end, commit.position)
        self.end += len(checked)
        q, u = self.windows.extent(self.end), self.windows.replay_rows(commit.position)
        self.figures.append((q, u, len(checked)))

    def _checked(self, commit: CommitSummary) -> Ints:
        return commit.renewed

    def history(self, first: int) -> ExtentHistory:
        """Return the history from commit ``first`` on."""
        figures = np.array(self.figures[first:], np.int64).reshape(-1, 3)
        return ExtentHistory(figures[:, 0], figures[:, 1], figures[:, 2])


class SimulatedQueueExtent(RecordedExtent):
    """An extent with the CHECKs that an operator's :class:`Checkpointer` would have planned."""

    def __init__(self, target: WhatIf) -> None:
        super().__init__(Targets(target.extent_records, target.extent_factor, target.replay_rows))

    def _checked(self, commit: CommitSummary) -> Ints:
        return self.windows.plan(self.end + commit.others, commit.position)


class SimulatedStoreExtent(RecordedExtent):
    """An extent renewed as Spark's state store does it.

    While the extent costs too much, the store renews the oldest footprints of older commits. The
    cost is its records, and :data:`FRAME_COST_RECORDS` more for each of its frames.
    """

    def __init__(self, target: WhatIf) -> None:
        super().__init__()
        self._target = target
        # First offset of each commit, and the number of frames before it.
        self._starts: Ints = np.zeros(1024, np.int64)
        self._before: Ints = np.zeros(1024, np.int64)
        self._commits = self._frames = 0
        self._planned = 0

    def begin(
        self, windows: tuple[Ints, Ints, Ints], end: int, commits: list[tuple[int, int]]
    ) -> None:
        super().begin(windows, end, commits)
        for first_offset, frames in commits:
            self._note(first_offset, frames)

    def take(self, commit: CommitSummary) -> None:
        first_offset = self.end
        super().take(commit)
        self._note(first_offset, commit.frames)

    def _note(self, first_offset: int, frames: int) -> None:
        if self._commits == len(self._starts):
            self._starts = grown(self._starts, self._commits + 1)
            self._before = grown(self._before, self._commits + 1)
        self._starts[self._commits], self._before[self._commits] = first_offset, self._frames
        self._commits, self._frames = self._commits + 1, self._frames + frames

    def _checked(self, commit: CommitSummary) -> Ints:
        cost_max = self._target.cost_max(commit.open_windows)
        looked_at = max(64, self._planned + self._planned // 4)
        while True:
            slots, offsets, _ = self.windows.oldest(looked_at)
            (fits,) = np.nonzero((offsets >= self.end) | (self._costs(offsets, commit) <= cost_max))
            if len(fits) or len(slots) == self.windows.open_windows:
                break
            looked_at *= 4
        self._planned = int(fits[0]) if len(fits) else len(slots)
        return slots[: self._planned]

    def _costs(self, offsets: Ints, commit: CommitSummary) -> Ints:
        """Return the extent's cost in records at each offset, once all older footprints are
        renewed.
        """
        records = self.end + commit.others + np.arange(len(offsets)) - offsets
        commits = np.searchsorted(self._starts[: self._commits], offsets, "right") - 1
        return records + FRAME_COST_RECORDS * (self._frames - self._before[commits] + 1)
