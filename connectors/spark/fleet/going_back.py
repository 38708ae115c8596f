"""A fleet at a global checkpoint: gone back to in place, or forked beside it.

All queries and all queues, or none: a query that goes back alone would write again what its queue
has already, and read again what its readers have had. What is to be done is noted before the first
step, and each step can be done twice, so whoever is killed in the middle is finished by the next.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from dataclasses import replace

from cec_store.connectors.spark.checkpoint.fork import fork_as
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.fleet.backoff import Failures
from cec_store.connectors.spark.fleet.checkpointing import drop_holds, now_us
from cec_store.connectors.spark.fleet.costs import QueryCost
from cec_store.connectors.spark.fleet.cuts import Offsets
from cec_store.connectors.spark.fleet.declaration import Graph, Query, queue_path
from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.history import FleetHistory, id_of
from cec_store.connectors.spark.fleet.missing import Missing
from cec_store.connectors.spark.fleet.notes import (
    GlobalCheckpoint,
    GoingBack,
    Notes,
    QueryNotes,
)
from cec_store.connectors.spark.fleet.outer import OuterEffect, outer_effects
from cec_store.connectors.spark.fleet.recovery import Situation
from cec_store.errors import (
    BadFleet,
    NoGlobalCheckpoint,
    NotACheckpoint,
    NotAQueue,
    OutOfRange,
    OutputNotTakenBack,
)
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.positions import Bounds, check_queue, checked
from cec_store.partitioned.by_reference.earlier import (
    copy_at,
    forget_consumers,
    go_back,
    keep_settings,
    state_at,
)
from cec_store.partitioned.by_reference.partitioned_consumer import register_consumer
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import folder_at
from cec_store.storage.stores.new_trees import check_new_folder
from cec_store.storage.stores.store import Store
from cec_store.values import Position


def check_is_kept(folder: FleetFolder, notes: Notes, checkpoint: GlobalCheckpoint) -> None:
    """Raises :class:`NoGlobalCheckpoint` where something that it needs is not there any more."""
    graph = notes.graph
    strange = checkpoint.batches.keys() ^ graph.queries.keys()
    if strange:
        raise NoGlobalCheckpoint(
            f"{folder.path}: global checkpoint {checkpoint.number} is of other queries: "
            f"{', '.join(sorted(strange))}"
        )
    try:
        for queue, queue_id in checkpoint.queues.items():
            if here := id_of(folder, queue):
                check_queue(queue_id, queue, here)
        for name, batch in checkpoint.batches.items():
            if batch is not None:
                old = folder.checkpoint_of(name, checkpoint.generation)
                fork_as(
                    None, old, f"{old}-tried", None, batch, dry_run=True,
                    storage_options=folder.options_of(old), history=1,
                )  # fmt: skip
        for queue, number in checkpoint.commits.items():
            if (store := _written(folder, queue, number)) is not None:
                state_at(ReferenceLog(store), number)
        _check_inputs(folder, notes, checkpoint)
    except (OutOfRange, NotAQueue) as error:
        raise NoGlobalCheckpoint(
            f"{folder.path}: global checkpoint {checkpoint.number} is not kept any more: {error}"
        ) from error


def _written(folder: FleetFolder, queue: str, number: int) -> Store | None:
    """The queue that a query had written by this commit; ``None`` where it had not made it yet."""
    store = folder.queue(queue)
    return store if number or store.list("log") else None


def _check_inputs(folder: FleetFolder, notes: Notes, checkpoint: GlobalCheckpoint) -> None:
    """Check that each query can read on from its own offsets.

    ``checkpoint.needed`` is no help: it is 0 where another reader of the queue has no batch.
    """
    graph = notes.graph
    history = FleetHistory(folder, replace(notes, generation=checkpoint.generation), graph)
    for name, batch in checkpoint.batches.items():
        if batch is None:
            continue
        for queue in graph.reads(name):
            # A queue of which nothing had been read may not have been there.
            if offsets := history.read(name, batch, queue):
                _check_input(folder, queue, offsets)


def _check_input(folder: FleetFolder, queue: str, offsets: Offsets) -> None:
    state = ReferenceLog(folder.queue(queue)).open()
    starts, ends = dict(enumerate(state.commit.starts)), dict(enumerate(state.commit.ends))
    for number, needed in offsets.items():
        path, start, end = (
            f"{queue}: partition {number}",
            starts.get(number, 0),
            ends.get(number, 0),
        )
        checked(Position(needed, number), Bounds(path, state.log_id.hex(), start, end))


def not_taken_back(
    folder: FleetFolder, notes: Notes, checkpoint: GlobalCheckpoint
) -> tuple[OuterEffect, ...]:
    """Return what a rollback to this global checkpoint cannot take back, by its queries."""
    sinks = {name: query.sink for name, query in notes.graph.queries.items() if query.sink}
    begun = {name: _last_begun(folder, name, notes.generation) for name in sinks}
    return outer_effects(sinks, checkpoint.batches, begun)


def _last_begun(folder: FleetFolder, name: str, generation: int) -> int | None:
    path = folder.checkpoint_of(name, generation)
    try:
        return max(Checkpoint(path, folder.options_of(path)).logged_batches(), default=None)
    except NotACheckpoint:
        return None


def check_consent(
    notes: Notes, effects: Collection[OuterEffect], again: Collection[str], path: str
) -> None:
    """Check that all effects which cannot be taken back are consented to.

    Raises:
        BadFleet: ``again`` has the name of a query without a sink of its own.
        OutputNotTakenBack: an effect of another query. Nothing was changed.
    """
    queries = notes.graph.queries
    for name in again:
        if name not in queries or queries[name].sink is None:
            raise BadFleet(f"{path}: no query {name!r} with a sink that is no queue")
    if missing := [effect for effect in effects if effect.query not in again]:
        names = " ".join(f"--again {effect.query}" for effect in missing)
        raise OutputNotTakenBack(
            f"{path}: this cannot be taken back: {'; '.join(map(str, missing))}. Take it out of "
            f"there by hand where it does harm, then consent to it by name: {names} (in Python "
            "again=[…])"
        )


def roll_back(
    folder: FleetFolder,
    notes: Notes,
    checkpoint: GlobalCheckpoint,
    check_lease: Callable[[], None],
    again: Collection[str] = (),
) -> Notes:
    """Bring queries and queues back to a global checkpoint; the notes after it.

    For the holder of the fleet's lease, while no query runs. What the queues had got since is
    deleted; readers outside the fleet that have had it are not told.

    Args:
        again: Names of queries whose sinks, which are no queues, may get their batches once more.

    Raises:
        NoGlobalCheckpoint: what it needs is not there any more; nothing was changed.
        OutputNotTakenBack: a sink has had batches that are run again, and its query is not among
            ``again``; nothing was changed.
        BadFleet: a name of ``again`` is that of no query with such a sink; nothing was changed.
        Fenced: somebody else holds the lease by now, and finishes what was begun.
    """
    check_is_kept(folder, notes, checkpoint)
    check_consent(notes, not_taken_back(folder, notes, checkpoint), again, folder.path)
    kept = [
        old_generation
        for name in notes.graph.queries
        for old_generation in folder.generations(name)
    ]
    generation = max([notes.generation, *kept]) + 1
    back = GoingBack(checkpoint.number, generation, settings_now(folder, checkpoint))
    begun = replace(notes, going_back=back)
    check_lease()
    folder.write(begun, check_lease)
    return finished(folder, begun, check_lease)


def settings_now(folder: FleetFolder, checkpoint: GlobalCheckpoint) -> dict[str, dict[str, str]]:
    """Return the settings of each queue that is written: its retention and its consumers."""
    stores = {
        queue: _written(folder, queue, number) for queue, number in checkpoint.commits.items()
    }
    return {
        queue: dict(ReferenceLog(store).open().commit.settings)
        for queue, store in stores.items()
        if store is not None
    }


def finished(folder: FleetFolder, notes: Notes, check_lease: Callable[[], None]) -> Notes:
    """A rollback that was begun, brought to its end; the notes where none was.

    ``check_lease`` is called before each step, and raises where it is somebody else's by now.
    """
    back = notes.going_back
    if back is None:
        return notes
    checkpoint = folder.checkpoint(back.checkpoint)
    for name, batch in checkpoint.batches.items():
        if batch is not None and not folder.is_whole(name, back.generation):
            old = folder.checkpoint_of(name, checkpoint.generation)
            new = folder.checkpoint_of(name, back.generation)
            check_lease()
            folder.discard_parts(name, back.generation)
            _fork(folder, old, new, batch)
    for queue, number in checkpoint.commits.items():
        if (store := _written(folder, queue, number)) is not None:
            check_lease()
            go_back(store, number, now_us())
            if queue in back.settings:
                keep_settings(store, back.settings[queue], now_us())
    check_lease()
    folder.drop_checkpoints(above=checkpoint.number)
    # From now on it is of this generation.
    folder.add_checkpoint(
        replace(checkpoint, generation=back.generation), notes.rules.kept_checkpoints
    )
    done = replace(
        notes,
        generation=back.generation,
        going_back=None,
        checkpointed_us=None,
        queries={name: _begun_anew(query_notes) for name, query_notes in notes.queries.items()},
    )
    folder.write(done, check_lease)
    return done


def _fork(folder: FleetFolder, old: str, new: str, batch: int) -> None:
    """The same query after a batch, at another place."""
    query_id = Checkpoint(old, folder.options_of(old)).query_id
    options = folder.options_of(old) or folder.options_of(new)
    fork_as(query_id, old, new, None, batch, storage_options=options)


def _begun_anew(query: QueryNotes) -> QueryNotes:
    cost = replace(query.cost, pending_cpu_s=0.0, caught_up_at_s=None)
    return replace(query, cost=cost, failures=Failures(), batch=None, is_active=False)


def shared_outputs(notes: Notes, checkpoint: GlobalCheckpoint) -> tuple[OuterEffect, ...]:
    """Return the sinks that a fork would write to as well as the fleet that it is made of."""
    effects = []
    for name, query in notes.graph.queries.items():
        if query.sink is not None and (shared := query.sink.shared()):
            batch = checkpoint.batches[name]
            first = 0 if batch is None else batch + 1
            effects.append(OuterEffect(name, query.sink.name, first, None, shared))
    return tuple(effects)


def fork_fleet(
    folder: FleetFolder, new: AnyPath, checkpoint: GlobalCheckpoint, again: Collection[str] = ()
) -> Notes:
    """A fleet that goes on from a global checkpoint; this one is left alone, and may run.

    Its queries have checkpoints and queues of their own, below ``new``; inputs, which nobody in the
    fleet writes, are read by both. Until its notes are there, which is last, it is no fleet.

    Args:
        again: Names of queries whose sinks, which are no queues, both may write to.

    Raises:
        NoGlobalCheckpoint: what it needs is not there any more.
        OutputNotTakenBack: a query that is not among ``again`` has such a sink.
        BadFleet: a name of ``again`` is that of no such query.
        FileExistsError: there is something at ``new``.
    """
    notes = folder.read()
    check_is_kept(folder, notes, checkpoint)
    check_consent(notes, shared_outputs(notes, checkpoint), again, folder.path)
    target = folder.beside(new)
    check_new_folder(folder_at(new, target.options_of(new)))
    graph = notes.graph
    places = {queue: f"{target.path}/queues/{writer}" for queue, writer in graph.writers.items()}
    forked = replace(
        notes,
        fleet_id=secrets.token_hex(16),
        declared=tuple(_moved(query, places) for query in notes.declared),
        generation=0,
        situation=Situation({}),
        missing=Missing(),
        queries={
            name: _of_fork(query_notes, places) for name, query_notes in notes.queries.items()
        },
        going_back=None,
        checkpointed_us=None,
    )
    target.make()
    try:
        _hold_inputs(folder, graph, forked.consumer, checkpoint)
        _copy(folder, target, checkpoint, places)
        target.write(forked)
    except BaseException:
        # Nobody would ever acknowledge for it, so that the inputs would be kept for ever.
        drop_holds(folder, forked.consumer, graph.inputs)
        raise
    return forked


def _copy(
    folder: FleetFolder, target: FleetFolder, checkpoint: GlobalCheckpoint, places: dict[str, str]
) -> None:
    """Copy the checkpoints of queries, and the queues that they write to ``places``."""
    for name, batch in checkpoint.batches.items():
        if batch is not None:
            old = folder.checkpoint_of(name, checkpoint.generation)
            _fork(folder, old, target.checkpoint_of(name, 0), batch)
    for queue, number in checkpoint.commits.items():
        if (store := _written(folder, queue, number)) is not None:
            new_queue = places[queue]
            old_folder = folder_at(queue, folder.options_of(queue))
            copy_at(old_folder, store, folder_at(new_queue, target.options_of(new_queue)), number)
            forget_consumers(target.queue(new_queue), now_us)


def _hold_inputs(
    folder: FleetFolder, graph: Graph, consumer: str, checkpoint: GlobalCheckpoint
) -> None:
    for queue in graph.inputs:
        log = ReferenceLog(folder.queue(queue))
        starts = log.open().commit.starts
        # A query that had read nothing of it begins where it begins.
        start = {
            number: max(offset, starts[number]) if number < len(starts) else offset
            for number, offset in enumerate(checkpoint.needed[queue])
        }
        register_consumer(log, consumer, start, now_us)


def _moved(query: Query, places: dict[str, str]) -> Query:
    reads = tuple(places.get(queue_path(queue), queue) for queue in query.reads)
    writes = "" if query.sink is not None else places[queue_path(query.writes)]
    return replace(query, reads=reads, writes=writes)


def _of_fork(query: QueryNotes, places: dict[str, str]) -> QueryNotes:
    sources = tuple(places.get(queue, queue) for queue in query.sources)
    cost = QueryCost(query.cost.cpu_s, query.cost.input_s)
    return QueryNotes(cost=cost, sources=sources)
