"""How far a queue may be trimmed: what a rebuild of it needs, and what its consumers need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cec_store.errors import OutOfRange
from cec_store.format.acknowledgement import Acknowledgement, damaged
from cec_store.log.chain import Chain
from cec_store.log.frames import Frame
from cec_store.queues.consumers import acknowledgements, consumers_locked
from cec_store.storage.folder import Folder
from cec_store.storage.names import acknowledgement_name


@dataclass(frozen=True)
class TrimPlan:
    """What a trim takes: the segments below the first that stays."""

    first_segment: int
    """The oldest that stays."""
    first_offset: int
    """Of the oldest record that stays."""
    segments: int
    """How many go."""
    held_by: tuple[str, ...]
    """Consumers that need the oldest segment that stays."""


def trim(folder: Folder, before: int | None, remove_below: Callable[[int], object]) -> TrimPlan:
    """See :meth:`cec_store.OutputQueue.trim`; ``remove_below`` is how the writer does it."""
    with consumers_locked(folder):
        chain = Chain(folder)
        said = acknowledgements(folder, chain.manifest.log_id)
        for name, each in said.items():
            if each.received > chain.end.offset:
                path = f"{folder.path}/{acknowledgement_name(name)}"
                reason = f"received up to {each.received}, the queue ends at {chain.end.offset}"
                raise damaged(path, 40, reason)
        plan = plan_trim(chain, said, before)
        if plan.segments:
            # The consumers' files that were read here must survive a power cut that follows.
            folder.sync_names()
            remove_below(plan.first_segment)
    return plan


def plan_trim(
    chain: Chain, said: Mapping[str, Acknowledgement], before: int | None = None
) -> TrimPlan:
    """Whole segments with no record that anybody needs, and none at or above ``before``.

    Without ``before`` and without consumers nothing is removed.

    Raises:
        OutOfRange: ``before`` is above the end.
    """
    if before is not None and before > chain.end.offset:
        raise OutOfRange(f"{chain.folder.path}: trim to {before}, the end is {chain.end.offset}")
    needed = {name: each.effects_saved for name, each in said.items()}
    limits = [*needed.values()] if before is None else [before, *needed.values()]
    last = chain.last()
    limit, stop = min([_needed_from(chain, last), *limits]), chain.segments[-1]
    if last is not None:
        # The segment of the last frame always stays: it has the position of the operator's input.
        stop = min(stop, last.address.segment_id)
    first = chain.manifest.first_segment
    if limits:
        while first < stop and chain.first_offset(first + 1) <= limit:
            first += 1
    held_by: tuple[str, ...] = ()
    if first < stop:
        ends_at = chain.first_offset(first + 1)
        held_by = tuple(sorted(name for name, offset in needed.items() if offset < ends_at))
    return TrimPlan(first, chain.first_offset(first), first - chain.manifest.first_segment, held_by)


def _needed_from(chain: Chain, last: Frame | None) -> int:
    return chain.end.offset if last is None else last.header.end_offset - last.header.extent_records
