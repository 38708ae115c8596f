"""Trims, new indexes and dropped consumers of queues whose partitions are logs of their own.

Each is planned first, for all partitions and without a change on disk, and then carried out, while
no other process writes. Where one partition cannot be read, nothing is done to any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass

from cec_store.errors import CecError
from cec_store.format.retention import Retention
from cec_store.indexes.files import index_folder
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.inspector.places.places import Log, Place, PlaceKind
from cec_store.ledger.reference_trims import TrimBounds
from cec_store.log.chain import Chain
from cec_store.log.notes import refuse_if_held
from cec_store.log.reopening import reopen
from cec_store.log.replay import offset_at
from cec_store.log.selection import Moment
from cec_store.log.writer import ClockAndEntropy
from cec_store.queues.appendable_queue import now_us
from cec_store.queues.consumers import (
    Consumer,
    check_is_left,
    drop_consumer,
    read_acknowledgement,
)
from cec_store.queues.holding import acknowledgement_files
from cec_store.queues.trimming import TrimPlan, plan_trim, trim
from cec_store.storage.folder import Folder
from cec_store.storage.names import (
    WRITER_LOCK,
    check_consumer_name,
    segment_name,
)


def queues_of(place: Place) -> tuple[Log, ...]:
    """The queues in which records stand.

    Raises:
        ValueError: a state store or a checkpoint, or a partitioned queue.
    """
    if place.has_versions:
        raise ValueError(
            f"{place.path}: a {place.kind.value}, and no queue; Spark's own maintenance forgets "
            "what no kept version needs (spark.sql.streaming.minBatchesToRetain)"
        )
    if place.kind is PlaceKind.PARTITIONED_QUEUE:
        raise ValueError(f"{place.path}: a {place.kind.value}, which has no index")
    return place.logs


@dataclass(frozen=True)
class Deletion:
    """Files that a plan deletes in one queue."""

    log: Log
    files: tuple[str, ...]
    bytes: int


def _size(folder: Folder, names: Iterable[str]) -> int:
    return sum(map(folder.size, names))


@contextmanager
def _writing(folder: Folder) -> Iterator[None]:
    """Keep all others from writing to the queue."""
    with closing(folder.lock(WRITER_LOCK)):
        refuse_if_held(folder)
        yield


# -- trims ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trim(Deletion):
    """Segments that a trim removes from one queue."""

    bounds: TrimBounds
    plan: TrimPlan
    oldest_offset: int
    """Oldest offset that there is now."""

    @property
    def records(self) -> int:
        """Records that the trim removes."""
        return self.plan.first_offset - self.oldest_offset


def plan_trim_of(
    log: Log, before: Moment | None, keep: Retention | None = None, by: Retention | None = None
) -> Trim:
    """Look what would go; ``by`` is a retention to try instead of the queue's own.

    Raises:
        OutOfRange: ``before`` is above the end.
        CorruptLog, UnsupportedVersion: it cannot be read who needs what.
    """
    chain = Chain(log.folder)
    limit = None if before is None else offset_at(chain, chain, before)
    bounds = TrimBounds(None if limit is None else {0: limit}, keep, by)
    plan = plan_trim(chain, bounds, now_us())
    names = tuple(map(segment_name, range(plan.first_segment - plan.segments, plan.first_segment)))
    return Trim(log, names, _size(log.folder, names), bounds, plan, chain.first_offset())


def carry_out_trims(place: Place, planned: Iterable[Trim]) -> None:
    """Remove the segments; a queue of which none goes is not touched.

    Raises:
        QueueLocked: somebody else is writing.
        CecError: as for any opening for append.
    """
    due = [planned_trim for planned_trim in planned if planned_trim.plan.segments]
    if not due:
        return
    with _writing(place.folder):
        for planned_trim in due:
            writer, _ = reopen(planned_trim.log.folder, None, ClockAndEntropy(now_us))
            with closing(writer):
                trim(planned_trim.log.folder, planned_trim.bounds, writer.trim, now_us())


# -- indexes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reindex(Deletion):
    """Files that a new index replaces, and the number of frames that it will cover."""

    frames: int


def plan_reindex_of(log: Log) -> Reindex:
    """Look what is there; raises :class:`CecError` where the log cannot be read."""
    chain = Chain(log.folder)
    frames = chain.end.seq - chain.first_seq()
    folder = index_folder(log.folder, chain.manifest.log_id)
    names = tuple(folder.names()) if folder is not None and folder.exists() else ()
    return Reindex(log, names, 0 if folder is None else _size(folder, names), frames)


def carry_out_reindexes(place: Place, planned: Iterable[Reindex]) -> None:
    """Make the indexes anew; one in the user's cache needs no lock, because it is this user's."""
    is_cached = not place.folder.appends
    with nullcontext() if is_cached else _writing(place.folder):
        for reindex in planned:
            chain = Chain(reindex.log.folder)
            with closing(TimestampIndex(chain, writable=True)) as index:
                index.rebuild(chain)


# -- consumers --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drop(Deletion):
    """Files that dropping a consumer deletes in one queue."""

    effects_saved: int | None
    """Offset from which the queue has kept its records for it; ``None`` where it cannot be read."""


def plan_drops(place: Place, name: str) -> list[Drop]:
    """Return what to drop in each log that has such a consumer.

    Raises:
        ValueError: no log has it, or no consumer may have this name.
    """
    check_consumer_name(name)
    files = {log: acknowledgement_files(log.folder.names(), name) for log in queues_of(place)}
    drops = [
        Drop(log, tuple(of), sum(map(log.folder.size, of)), _saved(log, name))
        for log, of in files.items()
        if of
    ]
    if not drops:
        raise ValueError(f"{place.path}: no consumer {name!r}")
    return drops


def _saved(log: Log, name: str) -> int | None:
    try:
        chain = Chain(log.folder)
        return read_acknowledgement(log.folder, name, chain.manifest.log_id).effects_saved
    except CecError:
        return None


def plan_addition(place: Place, name: str) -> dict[Log, int]:
    """Return where :func:`add_consumer` would let it begin in every partition; writes nothing.

    Raises:
        CorruptLog, UnsupportedVersion: a partition, or what it has acknowledged, cannot be read.
        OutOfRange: it is registered, and what it needs is gone.
        ValueError: not a name.
    """
    check_consumer_name(name)
    begins = {}
    for log in queues_of(place):
        chain = Chain(log.folder)
        begins[log] = chain.first_offset()
        with suppress(FileNotFoundError):  # it is not registered yet
            known = read_acknowledgement(log.folder, name, chain.manifest.log_id)
            check_is_left(log.folder.path, name, known.effects_saved, begins[log])
            begins[log] = known.effects_saved
    return begins


def add_consumer(place: Place, name: str) -> dict[Log, int]:
    """Register a consumer in every partition at its oldest offset; return where it begins.

    One that is registered already keeps its offsets.

    Raises:
        ConsumerInUse: somebody acts under this name.
        OutOfRange: it is registered, and what it needs is gone.
    """
    begins = {}
    for log in queues_of(place):
        with closing(Consumer(log.folder, check_consumer_name(name), None, now_us)) as consumer:
            begins[log] = consumer.effects_saved
    return begins


def carry_out_drops(planned: Iterable[Drop], name: str) -> None:
    """Forget the consumer.

    Raises:
        ConsumerInUse: somebody acts under this name.
    """
    for drop in planned:
        drop_consumer(drop.log.folder, name)
