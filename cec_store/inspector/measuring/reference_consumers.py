"""Consumers of a queue by reference, and how far each is in a partition. docs/format.md §11."""

from __future__ import annotations

from collections.abc import Callable

from cec_store.inspector.places.places import Place
from cec_store.partitioned.by_reference.registrations import consumer_states, unread_times
from cec_store.queues.lags import ConsumerState
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
        found = []
        for each in states:
            lag_us, since_us = unread_times(state, number, each.received[number])
            lag = max(0, state.commit.ends[number] - each.received[number])
            found.append(
                ConsumerState(
                    each.name,
                    each.received[number],
                    each.effects_saved[number],
                    lag,
                    lag_us,
                    each.acknowledged_us or 0,
                    since_us,
                )
            )
        return found

    return of_partition
