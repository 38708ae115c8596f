"""Consumers of a queue of many partitions, and the records they need. docs/format.md §11."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import pyarrow.compute as pc

from cec_store.errors import CorruptLog, OutOfRange
from cec_store.format.by_reference.acknowledgements import PartitionsAcknowledged
from cec_store.ledger.queue_state import QueueState
from cec_store.storage.names import (
    acknowledgement_number_of,
    acknowledgement_object_name,
    commit_object_name,
    consumer_folder_name,
)
from cec_store.storage.stores.store import Store

FIRST_STEP = 1 << 20
"""Distance of the first number that counts from the last one there is.

Whoever acts under the name while somebody drops it and registers it anew comes to none that counts.
"""
SETTING = "consumer/"
"""Prefix of a consumer's name among the queue's settings."""


class Registration(NamedTuple):
    """A consumer's entry in the queue's settings."""

    starts: tuple[int, ...]
    """An offset of each partition."""
    first: int
    """Number of the first acknowledgement that counts: one that was dropped may have left some."""

    def encode(self) -> str:
        return json.dumps({"starts": self.starts, "first": self.first})


def registered(
    state: QueueState, path: str, settings: Mapping[str, str] | None = None
) -> dict[str, Registration]:
    """Each consumer of the queue by name: of its settings, or of ``settings``.

    Raises:
        CorruptLog: they say what cannot be.
    """
    settings = state.commit.settings if settings is None else settings
    names = sorted(key for key in settings if key.startswith(SETTING))
    place = f"{path}/{commit_object_name(state.number)}"
    registrations = {}
    for key in names:
        try:
            facts = json.loads(settings[key])
            starts, first = tuple(map(int, facts["starts"])), int(facts["first"])
        except (ValueError, TypeError, KeyError):
            raise CorruptLog(place, 0, f"no offsets in {key}: {settings[key]!r}") from None
        registrations[key.removeprefix(SETTING)] = Registration(of_all(starts, state), first)
    return registrations


def of_all(offsets: tuple[int, ...], state: QueueState) -> tuple[int, ...]:
    """A consumer needs all of a partition that was added later."""
    return offsets + (0,) * (len(state.commit.ends) - len(offsets))


def numbers_of(store: Store, name: str) -> list[int]:
    """Return the numbers of a consumer's acknowledgements, also of those that no longer count."""
    entries = store.list(consumer_folder_name(name))
    numbers = (acknowledgement_number_of(entry.name) for entry in entries)
    return [number for number in numbers if number is not None]


def dropped_names(store: Store, name: str) -> list[str]:
    """Return names of the acknowledgements that go when a consumer is dropped.

    The newest stays, so that numbers go on: who has acted under the name finds those of the next
    one taken.
    """
    numbers = sorted(numbers_of(store, name))
    return [acknowledgement_object_name(name, number) for number in numbers[:-1]]


def newest_number(store: Store, name: str) -> int:
    """Return the highest number of a consumer's acknowledgements; -1 where there is none."""
    return max(numbers_of(store, name), default=-1)


def acknowledged(
    store: Store, state: QueueState, name: str, first: int
) -> PartitionsAcknowledged | None:
    """Return a consumer's newest acknowledgement; ``None`` if none has number ``first`` or more.

    Raises:
        CorruptLog: its newest object is damaged, or another queue's.
        UnsupportedVersion: a later format wrote it.
    """
    while (number := newest_number(store, name)) >= first:
        object_name = acknowledgement_object_name(name, number)
        path = f"{store.url}/{object_name}"
        try:
            acknowledgement = PartitionsAcknowledged.decode(store.read(object_name), path)
        except FileNotFoundError:
            continue  # there is a newer one
        if acknowledgement.log_id != state.log_id:
            raise CorruptLog(path, 16, "the acknowledgement belongs to another queue")
        if acknowledgement.number != number:
            raise CorruptLog(path, 32, f"it is number {acknowledgement.number}")
        return acknowledgement
    return None


def effects_saved(store: Store, state: QueueState) -> dict[str, tuple[int, ...]]:
    """Return by name the offsets from which on consumers need the records, as :func:`saved_by`."""
    return {name: saved_by(store, state, name) for name in registered(state, store.url)}


def saved_by(store: Store, state: QueueState, name: str) -> tuple[int, ...]:
    """Return the offset of each partition from which on a consumer needs the records.

    Raises:
        CorruptLog: its registration or its newest acknowledgement is damaged.
        UnsupportedVersion: a later format wrote the acknowledgement.
    """
    starts, first = registered(state, store.url)[name]
    acknowledgement = acknowledged(store, state, name, first)
    return starts if acknowledgement is None else of_all(acknowledgement.effects_saved, state)


def check_is_there(path: str, state: QueueState, name: str, saved: tuple[int, ...]) -> None:
    """Raises :class:`OutOfRange` where records that a consumer needs or had are gone."""
    for n, (received, end) in enumerate(zip_longest(saved, state.commit.ends, fillvalue=0)):
        if received > end:
            raise OutOfRange(
                f"{path}: consumer {name!r} has received records of partition {n} up to "
                f"{received}, and the queue has them up to {end}: an older copy of the queue was "
                "put back. Drop the consumer and register it anew"
            )
    for n, (needed, oldest) in enumerate(zip(saved, state.commit.starts, strict=False)):
        if needed < oldest:
            raise OutOfRange(
                f"{path}: consumer {name!r} needs records of partition {n} from {needed} on, and "
                f"the oldest is {oldest}: they were deleted, as the queue's retention or a trim "
                "said. Drop the consumer and register it anew"
            )


@dataclass(frozen=True)
class PartitionedConsumerState:
    """Progress of a consumer, by partition.

    Examples:
        >>> schema = pa.schema([("item", pa.string())])
        >>> with open_queue("items", "a", schema=schema, partitions=2) as queue:
        ...     _ = queue.consumer("hourly")
        ...     [(each.name, each.received) for each in queue.consumers()]
        [('hourly', (0, 0))]
    """

    name: str
    received: tuple[int, ...]
    effects_saved: tuple[int, ...]
    lag_records: int
    """Records that it has not received, of all partitions."""
    lag_us: int
    """Microseconds of event time from the next of these to the newest, where they are most; by
    what commits say of segments, so at the longest."""
    acknowledged_us: int | None
    """Microseconds since 1970 at which it last acknowledged more; ``None``: never."""
    waiting_since_us: int | None
    """Since when, by the clock, the oldest of these has been there; ``None``: there is none."""


def consumer_states(store: Store, state: QueueState) -> list[PartitionedConsumerState]:
    """All registered consumers by name; raises :class:`CorruptLog`."""
    states = []
    for name, (starts, first) in registered(state, store.url).items():
        acknowledgement = acknowledged(store, state, name, first)
        received = starts if acknowledgement is None else of_all(acknowledgement.received, state)
        saved = starts if acknowledgement is None else of_all(acknowledgement.effects_saved, state)
        # An older copy of the queue, put back beside its consumers, may have fewer partitions.
        received, saved = (offsets[: len(state.commit.ends)] for offsets in (received, saved))
        ends = zip(state.commit.ends, received, strict=True)
        lag = sum(max(0, end - offset) for end, offset in ends)
        times = [unread_times(state, *partition) for partition in enumerate(received)]
        states.append(
            PartitionedConsumerState(
                name,
                received,
                saved,
                lag,
                max(lag_us for lag_us, _ in times),
                None if acknowledgement is None else acknowledgement.acknowledged_us,
                min((since_us for _, since_us in times if since_us is not None), default=None),
            )
        )
    return states


def unread_times(state: QueueState, partition: int, received: int) -> tuple[int, int | None]:
    """Return the event time that unread records span, and when the oldest of them was written.

    Both in microseconds, by what commits say of segments: 0 and ``None`` where all are read.
    """
    segments = state.segments_of(partition)
    ends = pc.add(segments.column("first_offset"), segments.column("records"))
    unread = segments.filter(pc.greater(ends, received))
    if not unread.num_rows:
        return 0, None
    least_us = unread.column("least_us")[0].as_py()
    newest_us = pc.max(unread.column("greatest_us")).as_py()
    return max(0, newest_us - least_us), unread.column("written_us")[0].as_py()
