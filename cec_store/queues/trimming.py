"""Limits of a queue's trim: what a rebuild of it needs, and what its consumers need."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock

from cec_store.errors import CecError, OutOfRange
from cec_store.format.acknowledgement import damaged
from cec_store.format.retention import FOREVER, Retention, RetentionMode
from cec_store.ledger.reference_trims import TrimBounds
from cec_store.log.chain import Chain
from cec_store.log.frames import Frame
from cec_store.queues.consumers import acknowledgements, consumers_locked
from cec_store.queues.retention import read_retention
from cec_store.storage.folder import Folder
from cec_store.storage.names import acknowledgement_name, segment_name

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrimPlan:
    """Segments that a trim takes: those below the first that stays."""

    first_segment: int
    """The oldest that stays."""
    first_offset: int
    """Offset of the oldest record that stays."""
    segments: int
    """Number of segments that go."""
    held_by: tuple[str, ...]
    """Consumers that need the oldest segment that stays."""


def trim(
    folder: Folder, bounds: TrimBounds, remove_below: Callable[[int], object], now_us: int
) -> TrimPlan:
    """See :meth:`cec_store.OutputQueue.trim`; ``remove_below`` is how the writer does it."""
    with consumers_locked(folder):
        plan = plan_trim(Chain(folder), bounds, now_us)
        if plan.segments:
            # The consumers' files that were read here must survive a power cut that follows.
            folder.sync_names()
            remove_below(plan.first_segment)
    return plan


def plan_trim(chain: Chain, bounds: TrimBounds, now_us: int) -> TrimPlan:
    """Whole segments that no rebuild needs, as far as is asked for or the retention says.

    What a consumer needs stays, but where the retention is a time or a size and nothing else is
    asked for.

    Raises:
        OutOfRange: ``before`` is above the end.
        CorruptLog, UnsupportedVersion: the retention, or what a consumer needs, cannot be read.
    """
    before, folder = None if bounds.before is None else bounds.before[0], chain.folder
    if before is not None and before > chain.end.offset:
        raise OutOfRange(f"{folder.path}: trim to {before}, the end is {chain.end.offset}")
    keep, needed = bounds.keep, _needs_of_consumers(chain)
    if bounds.retention_decides:
        retention = bounds.retention or read_retention(folder)
        if retention.mode.has_value:
            keep = retention
        if retention.mode is not RetentionMode.CONSUMERS:
            needed = {}
    limits = [*needed.values()] if before is None else [before, *needed.values()]
    last = chain.last()
    limit, stop = min([_needed_from(chain, last), *limits]), chain.segments[-1]
    if last is not None:
        # The segment of the last frame always stays: it has the position of the operator's input.
        stop = min(stop, last.address.segment_id)
    first = chain.manifest.first_segment
    if limits or keep is not None:
        is_over = _over(chain, keep, now_us)
        while first < stop and chain.first_offset(first + 1) <= limit and is_over(first):
            first += 1
    held_by: tuple[str, ...] = ()
    if first < stop:
        ends_at = chain.first_offset(first + 1)
        held_by = tuple(sorted(name for name, offset in needed.items() if offset < ends_at))
    return TrimPlan(first, chain.first_offset(first), first - chain.manifest.first_segment, held_by)


def _needs_of_consumers(chain: Chain) -> dict[str, int]:
    """Return by name the offset from which on each consumer needs the records.

    Raises:
        CorruptLog, UnsupportedVersion: what a consumer needs cannot be read.
    """
    folder, end = chain.folder, chain.end.offset
    by_name = acknowledgements(folder, chain.manifest.log_id)
    for name, acknowledgement in by_name.items():
        if acknowledgement.received > end:
            path = f"{folder.path}/{acknowledgement_name(name)}"
            raise damaged(
                path, 40, f"received up to {acknowledgement.received}, the queue ends at {end}"
            )
    return {name: acknowledgement.effects_saved for name, acknowledgement in by_name.items()}


def _over(chain: Chain, keep: Retention | None, now_us: int) -> Callable[[int], bool]:
    """Return whether the oldest segment is older than what is kept, or above its size."""
    if keep is None:
        return lambda segment_id: True
    if keep.mode is RetentionMode.TIME:
        # All of it had been written when its successor was begun.
        return lambda n: chain.reader(n + 1).header.created_us <= now_us - keep.value
    sizes = {n: chain.folder.size(segment_name(n)) for n in chain.segments}
    newest_first = sorted(sizes, reverse=True)
    totals = accumulate((sizes[n] for n in newest_first), initial=0)
    behind = dict(zip(newest_first, totals, strict=False))
    return lambda n: behind[n] >= keep.value


def _needed_from(chain: Chain, last: Frame | None) -> int:
    return chain.end.offset if last is None else last.header.end_offset - last.header.extent_records


class Retaining:
    """Applies a queue's retention whenever a segment was completed, in the thread of an append."""

    def __init__(self, folder: Folder, newest_segment: int) -> None:
        self._folder = folder
        self._seen = newest_segment
        self._trimming = Lock()
        """Held by the thread that trims; the others go on."""

    def after(self, newest_segment: int, trim_queue: Callable[[TrimBounds], object]) -> None:
        """Trim by ``trim_queue`` what the retention says, if this segment is a new one."""
        if newest_segment == self._seen or not self._trimming.acquire(blocking=False):
            return
        try:
            self._seen = newest_segment
            if read_retention(self._folder) != FOREVER:
                trim_queue(TrimBounds())
        except (CecError, OSError) as error:
            # Of the setting or a consumer's file. Appending goes on all the same: the rows are in
            # line, and who is told otherwise appends them twice. A writer that this has ended says
            # so by itself.
            _log.warning("%s is not trimmed: %s", self._folder.path, error)
        finally:
            self._trimming.release()
