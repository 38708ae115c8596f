"""Trims, consumers and the retention of partitioned queues, where each change is a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from cec_store.errors import CorruptLog, UnsupportedVersion
from cec_store.format.retention import Retention
from cec_store.inspector.places.places import Log, Place
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.reference_trims import TrimBounds, consumers_needs, limits
from cec_store.ledger.registrations import (
    check_is_there,
    dropped_names,
    registered,
    saved_by,
)
from cec_store.partitioned.by_reference.partitioned_consumer import (
    drop_consumer,
    register_consumer,
)
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from cec_store.queues.appendable_queue import now_us
from cec_store.queues.trimming import TrimPlan
from cec_store.storage.names import check_consumer_name
from cec_store.storage.stores.store import Store
from cec_store.verbs.upkeep.by_log import Drop, Trim

# -- trims ------------------------------------------------------------------------------------


def plan_reference_trims(
    place: Place,
    before_us: int | None,
    keep: Retention | None,
    by: Retention | None = None,
) -> Callable[[Log], Trim]:
    """Look what would go of each partition: whole segments before a moment, beyond what is kept, or
    as the retention says; ``by`` is one to try instead of the queue's own.

    Raises:
        CorruptLog, UnsupportedVersion: it cannot be read who needs what.
    """
    queue, state = place.reference, place.reference.state
    offsets = None
    if before_us is not None:
        offsets = {}
        for number, end in queue.ends().items():
            offset = queue.offset_at(number, before_us)
            offsets[number] = end if offset is None else offset
    bounds = TrimBounds(offsets, keep, by)
    limit_of = limits(queue.store, state, bounds, now_us())
    needed = consumers_needs(queue.store, state, bounds)

    def of_partition(log: Log) -> Trim:
        number = _number(log)
        segments = state.segments_of(number)
        ends = pc.add(segments.column("first_offset"), segments.column("records")).to_numpy()
        goes = ends <= limit_of.get(number, 0)
        first = state.commit.starts[number]
        gone, stays = segments.filter(pa.array(goes)), ends[~goes]
        held_by = [
            name for name, saved in needed.items() if len(stays) and saved[number] < stays[0]
        ]
        return Trim(
            log,
            tuple(gone.column("file").to_pylist()),
            int(pc.sum(gone.column("bytes")).as_py() or 0),
            bounds,
            TrimPlan(0, int(ends[goes][-1]) if goes.any() else first, len(gone), tuple(held_by)),
            first,
        )

    return of_partition


def carry_out_reference_trims(place: Place, planned: Sequence[Trim]) -> None:
    """Take the segments away; their objects are deleted a day later, for those who read them.

    Raises:
        CecError: as for any commit.
    """
    due = {_number(trim.log): trim for trim in planned if trim.plan.segments}
    if not due:
        return
    queue = place.reference
    with PartitionedQueue(
        queue.store, "a", partitions=len(queue.ends()), clock_us=now_us
    ) as writer:
        bounds = next(iter(due.values())).bounds
        if bounds.before is not None:
            writer.trim(before={n: trim.plan.first_offset for n, trim in due.items()})
        else:
            writer.trim(keep=bounds.keep)


def _number(log: Log) -> int:
    assert log.partition is not None
    return log.partition


# -- consumers --------------------------------------------------------------------------------


def plan_reference_drop(place: Place, name: str) -> list[Drop]:
    """Return what dropping a consumer deletes; objects of all partitions are with the first.

    Raises:
        ValueError: there is no such consumer.
    """
    queue = place.reference
    if check_consumer_name(name) not in registered(queue.state, place.path):
        raise ValueError(f"{place.path}: no consumer {name!r}")
    files = dropped_names(queue.store, name)
    total = sum(map(queue.store.size, files))
    saved = _saved(queue.store, queue.state, name)
    drops = [Drop(log, (), 0, None if saved is None else saved[_number(log)]) for log in place.logs]
    drops[0] = replace(drops[0], files=tuple(files), bytes=total)
    return drops


def _saved(store: Store, state: QueueState, name: str) -> tuple[int, ...] | None:
    """Return the offsets from which the queue keeps records for it; ``None`` where unreadable."""
    try:
        return saved_by(store, state, name)
    except (CorruptLog, UnsupportedVersion):
        return None


def carry_out_reference_drop(place: Place, name: str) -> None:
    """Remove the consumer, even while its name is in use; raise ValueError where it is gone."""
    drop_consumer(ReferenceLog(place.reference.store), name, now_us)


def plan_reference_addition(place: Place, name: str) -> dict[Log, int]:
    """Return where :func:`add_reference_consumer` would let it begin; writes nothing.

    Raises as that does.
    """
    store, state = place.reference.store, place.reference.state
    saved = state.commit.starts
    if check_consumer_name(name) in registered(state, place.path):
        saved = saved_by(store, state, name)
        check_is_there(store.url, state, name, saved)
    return {log: saved[_number(log)] for log in place.logs}


def add_reference_consumer(place: Place, name: str) -> dict[Log, int]:
    """Register a consumer of every partition at its oldest offset; return where it begins.

    One that is registered already keeps its offsets, even while its name is in use.

    Raises:
        OutOfRange: it is registered, and what it needs is gone.
        CorruptLog, UnsupportedVersion: what it has acknowledged cannot be read.
    """
    store = place.reference.store
    state = register_consumer(ReferenceLog(store), name, {}, now_us)
    saved = saved_by(store, state, name)
    check_is_there(store.url, state, name, saved)
    return {log: saved[_number(log)] for log in place.logs}
