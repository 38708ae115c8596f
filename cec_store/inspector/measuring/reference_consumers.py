"""Who reads a queue by reference, and how far each is in one partition. docs/format.md §11."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cec_store.inspector.damage.reference_objects import segments_of_partition
from cec_store.inspector.places.places import Place
from cec_store.partitioned.by_reference.registrations import consumer_states
from cec_store.queues.lags import ConsumerState
from cec_store.storage.stores.folders import store_of


def reference_consumers(place: Place) -> Callable[[int], list[ConsumerState]]:
    """Of a partition all that are registered, by name.

    Times are those of segments: how long records have waited is what the oldest may have.

    Raises:
        CorruptLog, UnsupportedVersion: what one of them has acknowledged cannot be read.
    """
    store, state = store_of(place.folder), place.reference.state
    assert store is not None
    states = consumer_states(store, state)

    def of_partition(number: int) -> list[ConsumerState]:
        segments = segments_of_partition(state, number) if states else []
        found = []
        for each in states:
            unread = [
                s for s in segments if s["first_offset"] + s["records"] > each.received[number]
            ]
            lag = max(0, state.commit.ends[number] - each.received[number])
            found.append(
                ConsumerState(
                    each.name,
                    each.received[number],
                    each.effects_saved[number],
                    lag,
                    _span_us(unread),
                    each.acknowledged_us or 0,
                    unread[0]["written_us"] if unread else None,
                )
            )
        return found

    return of_partition


def _span_us(segments: list[dict[str, Any]]) -> int:
    """From the earliest moment of the first to the newest of all."""
    if not segments:
        return 0
    newest_us = max(segment["greatest_us"] for segment in segments)
    return max(0, int(newest_us - segments[0]["least_us"]))
