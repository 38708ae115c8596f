"""Checks of a fleet: its driver, its queries, their checkpoints and queues."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.fleet.status import QueryStatus, message_of, queries_of
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.doctor.diagnoses import Diagnosis, fault, note, of_error, sound
from cec_store.doctor.held_leases import sighting_line, sighting_of
from cec_store.errors import CecError
from cec_store.standby.leases import Sign

Look = Callable[[str], Iterable[Diagnosis]]


def fleet_lines(folder: FleetFolder, look: Look) -> Iterator[Diagnosis]:
    """Yield the lines about a fleet; ``look`` gives those about a checkpoint or queue of it."""
    try:
        notes = folder.read()
        paused = folder.requests().paused
        seen = sighting_of(folder.leases(), LEASE)
    except CecError as error:
        yield of_error(error, folder.path)
        return
    is_alive = seen.sign is Sign.ALIVE and seen.has_moved
    queries = queries_of(notes, is_alive, time.time(), paused)
    driver = f"{len(queries):,} queries; driver {seen.sign.value}"
    yield sound("fleet", f"{driver} ({seen.holder})" if seen.holder else driver)
    yield sighting_line(LEASE, seen)
    if notes.going_back is not None:
        what = f"a rollback to global checkpoint {notes.going_back.checkpoint} was begun"
        yield fault("fleet", what, f"end it: `cec-store fleet rollback {folder.path} --yes`")
    if is_alive and (message := message_of(notes)):
        yield note("fleet", message, "bring executors back, or `cec-store fleet run --accept`")
    if notes.missing.failure:
        what = f"on_missing has failed: {notes.missing.failure}"
        yield fault("fleet", what, "mend the command or function; it is run again by itself")
    for name in sorted(paused & {query.name for query in queries}):
        yield note("fleet", f"{name} is paused", f"`cec-store fleet resume {folder.path} {name}`")
    yield from filter(None, map(_query, queries))
    places = [folder.checkpoint_of(query.name, notes.generation) for query in notes.declared]
    graph = notes.graph
    queues = {*graph.read_queues, *graph.writers}
    for place in (*places, *sorted(queues)):
        for line in look(place):
            yield replace(line, place=place)


def _query(query: QueryStatus) -> Diagnosis | None:
    if not query.failures:
        return None
    what = f"{query.name} has failed {query.failures:,} times: {query.reason}"
    return fault("fleet", what, "mend what it says; the driver tries again by itself")
