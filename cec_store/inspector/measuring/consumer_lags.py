"""Lags of consumers over all partitions of a queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cec_store.queues.lags import ConsumerState


@dataclass(frozen=True)
class ConsumerLag:
    """One consumer of a queue, of one partition or many."""

    name: str
    partitions: int
    """Partitions in which it is registered."""
    lag_records: int
    """Records of every kind that it has not received, of all of them."""
    lag_us: int
    """Microseconds of event time from the next of these to the newest, where they are most."""
    acknowledged_us: int
    """Time at which it last acknowledged more than before, in microseconds."""
    waiting_since_us: int | None
    """Clock time since which the oldest of these has been there; ``None`` where there is none."""


def consumer_lags(states: Sequence[ConsumerState]) -> list[ConsumerLag]:
    """Return the lag of each consumer over all partitions, in order of names."""
    by_name: dict[str, list[ConsumerState]] = {}
    for state in states:
        by_name.setdefault(state.name, []).append(state)
    return [_over(name, those) for name, those in sorted(by_name.items())]


def _over(name: str, states: list[ConsumerState]) -> ConsumerLag:
    waiting = [state.waiting_since_us for state in states if state.waiting_since_us is not None]
    return ConsumerLag(
        name,
        len(states),
        sum(state.lag_records for state in states),
        max(state.lag_us for state in states),
        max(state.acknowledged_us for state in states),
        min(waiting, default=None),
    )
