"""Offsets that a reader takes of a queue: its start, how much at a time, and ranges for tasks.

Offsets are dictionaries from a partition to its next unread record; rules are the Kafka source's.
A reader keeps them as :class:`Positions`, which name their queue.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cec_store.errors import CecError, OutOfRange, QueueReplaced
from cec_store.log.positions import (
    Behind,
    Bounds,
    Range,
    check_queue,
    checked,
    gone_on_otherwise,
)
from cec_store.values import Position, format_timestamp_us, to_offset

Offsets = dict[int, int]
EARLIEST, LATEST = -2, -1
"""Values in place of an offset: the oldest in a partition, and its end."""
BEHIND = "behind"
"""Key of the commit beside the queue's id."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Positions:
    """Next unread offsets of one queue, as a reader's checkpoint has them."""

    queue: str
    """The queue's id, 32 hex digits; empty: of no queue yet."""
    offsets: Offsets
    behind: Behind | None = None
    """The commit with the last record before them; ``None`` in a queue without commits."""

    def said(self) -> dict[str, Any]:
        """Return them as Spark keeps them.

        That is ``{"<queue>": {"0": 17, "1": 4}, "behind": "12-9f0c…"}``.
        """
        if not self.queue:
            return {}
        offsets = {str(number): self.offsets[number] for number in sorted(self.offsets)}
        behind = {} if self.behind is None else {BEHIND: str(self.behind)}
        return {self.queue: offsets, **behind}

    @classmethod
    def of(cls, saved: Any) -> Positions:
        """Return what :meth:`said` made.

        Raises:
            CecError: it is something else.
        """
        try:
            if saved == {}:
                return cls("", {})
            rest = dict(saved)
            behind = Behind.of(rest.pop(BEHIND)) if BEHIND in rest else None
            ((queue, offsets),) = rest.items()
            return cls(queue, {int(n): to_offset(offset) for n, offset in offsets.items()}, behind)
        except (TypeError, ValueError, AttributeError):
            raise CecError(
                f"the checkpoint's offset {saved!r} is none of a queue: is it another source's, or "
                "of a release that did not name the queue? Begin anew with a new checkpoint"
            ) from None


@dataclass(frozen=True)
class Bound:
    """Beginning or end of a read: one offset for each partition, or a moment for each."""

    offsets: Offsets | None = None
    """Offset of each partition, which may be ``EARLIEST`` or ``LATEST``."""
    timestamps_us: dict[int, int] | None = None
    everywhere: int | None = None
    """``EARLIEST`` or ``LATEST`` of every partition."""
    timestamp_us: int | None = None
    """The moment for every partition."""
    queue: str = ""
    """Id of the queue whose offsets they are; empty: not said."""
    behind: Behind | None = None
    """See :class:`Positions`."""


@dataclass(frozen=True)
class AvailableOffsets:
    """Offsets of each partition that are in the queue now."""

    path: str
    queue: str
    """The queue's id: 32 hex digits."""
    firsts: Offsets
    ends: Offsets
    written: Offsets
    """Ends of what a writer has yet to show again after a power cut; else the same."""
    offset_at: Callable[[int, int], int | None]
    """The earliest record of a partition at or after a moment (microseconds), if there is one."""
    has_behind: Callable[[Behind], bool]
    """Returns True if this commit is in the queue."""
    fail_on_data_loss: bool

    def starting(self, bound: Bound, *, without_match_is_latest: bool) -> Offsets:
        """Return the offsets at which a new query begins.

        Raises:
            OutOfRange: no record at or after a moment, or an offset that is not (any more) there.
            ValueError: offsets for some of the partitions only.
        """
        return self._offsets(bound, "starting", without_match_is_latest)

    def ending(self, bound: Bound) -> Offsets:
        """Return the offsets at which a batch query ends.

        That is the end of a partition without a record that late.
        """
        return self._offsets(bound, "ending", without_match_is_latest=True)

    def _offsets(self, bound: Bound, side: str, without_match_is_latest: bool) -> Offsets:
        moments = bound.timestamps_us
        if bound.timestamp_us is not None:
            moments = dict.fromkeys(self.ends, bound.timestamp_us)
        if moments is None:
            return self._said(bound, f"{side}Offsets")
        self._require_all(moments, f"{side}OffsetsByTimestamp")
        offsets: Offsets = {}
        for number, moment in moments.items():
            offset = self.offset_at(number, moment)
            if offset is None:
                if not without_match_is_latest:
                    raise OutOfRange(
                        f"partition {number} has no record at or after "
                        f"{format_timestamp_us(moment)}; "
                        "startingOffsetsByTimestampStrategy=latest begins at its end then"
                    )
                offset = self.ends[number]
            offsets[number] = offset
        return offsets

    def _said(self, bound: Bound, name: str) -> Offsets:
        offsets = bound.offsets
        if offsets is None:
            assert bound.everywhere is not None
            offsets = dict.fromkeys(self.ends, bound.everywhere)
        self._require_all(offsets, name)
        words = {EARLIEST: self.firsts, LATEST: self.ends}
        resolved = {
            n: words[offset][n] if offset in words else offset for n, offset in offsets.items()
        }
        return self._here(Positions(bound.queue, resolved, bound.behind), self.ends)

    def _require_all(self, given: Offsets, name: str) -> None:
        if given.keys() != self.ends.keys():
            raise ValueError(
                f"{name} names partitions {sorted(given)}, the queue has {sorted(self.ends)}: "
                "name them all, -1 for latest, -2 for earliest"
            )

    def resumed(self, position: Positions) -> Offsets:
        """Return where a reader goes on that had come so far, in every partition.

        A partition that was added since is read from its beginning. Where loss is allowed, another
        queue is read from its beginning, and an older copy from its end on, or from the same
        offsets on where it has grown beyond them.

        Raises:
            QueueReplaced: it is a position of another queue, or of another history of this one,
                and ``failOnDataLoss`` is on.
            OutOfRange: it is trimmed, or beyond the end, and ``failOnDataLoss`` is on.
        """
        offsets = self._here(position, self.written)
        if position.queue == self.queue:
            for number in sorted(self.firsts.keys() - position.offsets.keys()):
                if self.firsts[number] > 0:
                    path = f"{self.path}: partition {number}, which was added since"
                    what = f"begins at {self.firsts[number]} instead of 0: it is trimmed"
                    self._lose(OutOfRange(f"{path}, {what}"))
        return offsets

    def shown(self, position: Positions) -> Offsets:
        """Return where a batch ends that ended so far, as :meth:`resumed`; and it must be shown."""
        return self._here(position, self.ends)

    def _here(self, position: Positions, ends: Offsets) -> Offsets:
        try:
            check_queue(position.queue, self.path, self.queue)
        except QueueReplaced as error:
            self._lose(error)
            return {**self.firsts}
        offsets = {n: self._checked(n, offset, ends) for n, offset in position.offsets.items()}
        behind, is_there = position.behind, offsets == position.offsets
        if behind is not None and is_there and not self.has_behind(behind):
            self._lose(gone_on_otherwise(self.path, behind))
        return {number: offsets.get(number, first) for number, first in self.firsts.items()}

    def _checked(self, number: int, offset: int, ends: Offsets) -> int:
        first, end = self.firsts.get(number, 0), ends.get(number, 0)
        path = f"{self.path}: partition {number}"
        try:
            return checked(Position(offset, number), Bounds(path, self.queue, first, end))
        except OutOfRange as error:
            self._lose(error)
            return min(max(offset, first), self.ends.get(number, 0))

    def _lose(self, error: OutOfRange) -> None:
        """Raise the error, unless loss is allowed: then say it as a warning."""
        if self.fail_on_data_loss:
            raise type(error)(
                f"{error}. Some data may have been lost; failOnDataLoss=false goes on without it"
            ) from error
        _log.warning("%s; going on without what is missing", error)


def limited(start: Offsets, ends: Offsets, records_max: int) -> Offsets:
    """Return ends of at most ``records_max`` records, a share of what waits in each partition."""
    waiting = {number: max(0, end - start[number]) for number, end in ends.items()}
    total = sum(waiting.values())
    if total <= records_max:
        return {number: start[number] + waiting[number] for number in ends}
    # One each first, so that small partitions get on beside large ones; where there are more of
    # them than records, the fullest.
    some = sorted((number for number in waiting if waiting[number]), key=lambda n: (-waiting[n], n))
    first = set(some[:records_max])
    rest, left = records_max - len(first), total - len(first)
    return {
        number: start[number]
        + (number in first)
        + (rest * (size - (number in first)) // left if left else 0)
        for number, size in sorted(waiting.items())
    }


def cut(ranges: Sequence[Range], partitions_min: int | None, records_max: int) -> list[Range]:
    """Ranges for tasks: none above ``records_max``, and at least so many if there is enough."""
    ranges = [one for one in ranges if one.stop > one.start]
    total = sum(one.stop - one.start for one in ranges)
    parts = []
    for one in ranges:
        size = one.stop - one.start
        pieces = math.ceil(size / records_max)
        if partitions_min is not None and len(ranges) < partitions_min:
            pieces = max(pieces, min(size, round(partitions_min * size / total)))
        ends = [one.start + size * (piece + 1) // pieces for piece in range(pieces)]
        starts = [one.start, *ends[:-1]]
        parts += [Range(one.partition, a, b) for a, b in zip(starts, ends, strict=True)]
    return parts


class Admission:
    """Rule by which a batch begins, and its size: the minimum, the maximum and the delay."""

    def __init__(
        self, records_min: int | None, records_max: int | None, delay_s: float,
        clock_s: Callable[[], float],
    ) -> None:  # fmt: skip
        self._min, self._max = records_min, records_max
        self._delay_s = delay_s
        self._clock_s = clock_s
        self._last_s = clock_s()

    def next(self, start: Offsets, ends: Offsets, *, is_bounded: bool) -> Offsets:
        """Return the next batch's ends; ``start`` to wait. ``is_bounded``: nothing more comes."""
        waiting = sum(max(0, end - start[number]) for number, end in ends.items())
        now_s = self._clock_s()
        too_few = self._min is not None and waiting < self._min and not is_bounded
        if too_few and now_s - self._last_s < self._delay_s:
            return {**start}
        if waiting:
            self._last_s = now_s
        return limited(start, ends, self._max if self._max is not None else waiting)
