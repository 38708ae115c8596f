"""Checks of a queue: that it opens, who writes it, and which consumers hold its records back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from cec_store.doctor.diagnoses import Diagnosis, fault, note, of_error, sound
from cec_store.errors import CecError, QueueLocked
from cec_store.format.frame import FORMAT_VERSION
from cec_store.format.retention import Retention, RetentionMode
from cec_store.inspector.measuring.consumer_lags import ConsumerLag, consumer_lags
from cec_store.inspector.measuring.reference_consumers import partition_consumers
from cec_store.inspector.places.places import Place, PlaceKind
from cec_store.ledger.commit_chain import chain_at
from cec_store.log.notes import refuse_if_held
from cec_store.queues.lags import ConsumerState
from cec_store.storage.names import manifest_epoch_of

_IDLE_S = 86_400
"""Seconds after which a consumer that has not taken the next record is said to hold it back."""


def queue_lines(place: Place) -> Iterator[Diagnosis]:
    """Yield the lines about a queue."""
    try:
        place.require_open()
        if place.kind is PlaceKind.PARTITIONED_QUEUE:
            records = sum(place.reference.ends().values())
            what = f"{len(place.logs):,} partitions, {records:,} records in all"
        else:
            chain = chain_at(place.folder)
            what = f"offsets {chain.first_offset():,} to {chain.end.offset:,}"
        consumers = partition_consumers(place)
    except (CecError, FileNotFoundError) as error:
        yield of_error(error, place.path)
        return
    yield sound("version", f"segments of format {FORMAT_VERSION}, which this release writes")
    yield sound("state", f"opens: {what}")
    if place.kind is PlaceKind.QUEUE:
        yield from _writer(place)
    if place.has_one_writer:
        what = "a queue without partitions: one writer appends, and Python has no consumers of it"
        yield note("writer", what, "make it with partitions where it is to have consumers")
    yield from _consumers(place, consumers)


def _writer(place: Place) -> Iterator[Diagnosis]:
    folder = place.folder
    if not folder.appends:
        if any(manifest_epoch_of(name) is not None for name in folder.names()):
            what = "a copy of a queue of local files: it is read here, and not appended to"
            advice = "append to it on its own disk, or make a queue here"
            yield note("writer", what, advice)
        return
    try:
        refuse_if_held(folder)
        yield sound("writer", "nobody has it open for append")
    except QueueLocked:
        yield sound("writer", "a process of this machine has it open for append")
    except (CecError, FileNotFoundError) as error:
        yield of_error(error, place.path)


def _consumers(
    place: Place, partitions: Sequence[tuple[int, Sequence[ConsumerState]]]
) -> Iterator[Diagnosis]:
    retention = place.retention()
    if retention is None:
        what = "its retention cannot be read: nothing is trimmed by itself"
        yield fault("consumer", what, "set it again: `cec-store consumers --retention`")
        return
    states = [state for _, those in partitions for state in those]
    lags = consumer_lags(states)
    if not lags:
        yield _without_consumers(place, Retention.of(retention))
    # Of what they have yet to process, records are deleted.
    names_behind = {
        state.name for first, those in partitions for state in those if state.effects_saved < first
    }
    for lag in lags:
        if lag.name in names_behind:
            drop = f"`cec-store consumers {place.path} --drop {lag.name} --yes`"
            what = f"{lag.name}: records that it needs are deleted: its next start is refused"
            yield fault("consumer", what, f"forget it ({drop}) and register it anew")
            continue
        kept = sum(
            state.received - state.effects_saved for state in states if state.name == lag.name
        )
        yield _consumer(place, lag, kept + lag.lag_records, Retention.of(retention))


def _without_consumers(place: Place, retention: Retention) -> Diagnosis:
    if retention.mode is RetentionMode.CONSUMERS:
        what = "retention consumers, and none is registered: nothing is deleted"
        advice = f"register one (`cec-store consumers {place.path} --add NAME`), or set a time"
        return note("consumer", what, advice)
    return sound("consumer", f"none; retention {retention}")


def _consumer(place: Place, lag: ConsumerLag, kept: int, retention: Retention) -> Diagnosis:
    what = f"{lag.name}: {lag.lag_records:,} records not received, retention {retention}"
    if lag.waiting_since_us is None:
        return sound("consumer", what)
    waits_s = max(0.0, time.time() - lag.waiting_since_us / 1e6)
    what += f", the next for {waits_s / 3600:,.1f} h"
    if retention.mode is RetentionMode.TIME and waits_s > retention.value / 1e6 / 2:
        advice = "start it before its records go, or set a longer retention"
        return fault("consumer", f"{what}: more than half of what is kept", advice)
    if waits_s < _IDLE_S:
        return sound("consumer", what)
    drop = f"`cec-store consumers {place.path} --drop {lag.name}`"
    if retention.mode is RetentionMode.CONSUMERS:
        what += f": the queue keeps {kept:,} records for it"
        return fault("consumer", what, f"start it again, or forget it: {drop}")
    return note("consumer", what, f"start it again, or forget it: {drop}")
