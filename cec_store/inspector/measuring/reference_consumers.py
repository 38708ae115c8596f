"""Consumers of a queue, and how far each is in a partition. docs/format.md §11."""

from __future__ import annotations

from collections.abc import Callable

from cec_store.inspector.places.places import Place, PlaceKind
from cec_store.ledger.commit_chain import chain_at
from cec_store.ledger.registrations import consumer_states, unread_times
from cec_store.queues.lags import ConsumerState
from cec_store.queues.lags import consumer_states as chain_consumers
from cec_store.storage.stores.folders import store_of


def reference_consumers(place: Place) -> Callable[[int], list[ConsumerState]]:
    """Return a function that lists a partition's registered consumers, in order of names.

    Times are those of segments: how long records have waited is what the oldest may have.

    Raises:
        CorruptLog, UnsupportedVersion: what one of them has acknowledged cannot be read.
    """
    store, state = store_of(place.folder), place.reference.state
    assert store is not None
    states = consumer_states(store, state)

    def of_partition(number: int) -> list[ConsumerState]:
        in_partition = []
        for consumer in states:
            lag_us, since_us = unread_times(state, number, consumer.received[number])
            lag = max(0, state.commit.ends[number] - consumer.received[number])
            in_partition.append(
                ConsumerState(
                    consumer.name,
                    consumer.received[number],
                    consumer.effects_saved[number],
                    lag,
                    lag_us,
                    consumer.acknowledged_us or 0,
                    since_us,
                )
            )
        return in_partition

    return of_partition


def place_consumers(place: Place) -> list[ConsumerState]:
    """Return the registered consumers of a queue of any kind, of each partition; none elsewhere.

    Raises:
        CorruptLog, UnsupportedVersion: what one of them has acknowledged cannot be read.
        NotAQueue: the queue is not there any more.
    """
    return [state for _, states in partition_consumers(place) for state in states]


def partition_consumers(place: Place) -> list[tuple[int, list[ConsumerState]]]:
    """Return the oldest offset that is left of each partition, and its registered consumers.

    Raises as :func:`place_consumers`.
    """
    if place.has_versions:
        return []
    if place.kind is not PlaceKind.PARTITIONED_QUEUE:
        chain = chain_at(place.folder)
        return [(chain.first_offset(), chain_consumers(chain))]
    of_partition = reference_consumers(place)
    numbers = [log.partition or 0 for log in place.logs]
    return [(place.reference.first(number), of_partition(number)) for number in numbers]
