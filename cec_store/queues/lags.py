"""Progress of each consumer of a queue."""

from __future__ import annotations

from dataclasses import dataclass

from cec_store.log.chain import QueueChain
from cec_store.log.frames import Frame
from cec_store.log.reader import despite_trims
from cec_store.queues.consumers import acknowledgements


@dataclass(frozen=True)
class ConsumerState:
    """Progress of a consumer.

    Examples:
        >>> with open_queue("queues/trades", "a") as queue:
        ...     queue.consumer("hourly").close()
        ...     [(each.name, each.lag_records) for each in queue.consumers()]
        [('hourly', 3)]
    """

    name: str
    received: int
    """Level 0, a next-unread offset."""
    effects_saved: int
    """Level 1, a next-unread offset: from here on the queue keeps its records for this one."""
    lag_records: int
    """Records of every kind that it has not received."""
    lag_us: int
    """Microseconds of event time: from the timestamp of the next of these to the newest."""
    acknowledged_us: int
    """Microseconds since 1970 at which it last acknowledged more, or registered."""
    waiting_since_us: int | None
    """Since when, by the clock, the next of these has been there, at the longest; ``None``: there
    is none. Where timestamps are the user's own, since the segment that holds it was begun."""


def consumer_states(chain: QueueChain) -> list[ConsumerState]:
    """All registered consumers by name; raises as :func:`acknowledgements`."""
    by_name = acknowledgements(chain.folder, chain.log_id)
    return [
        ConsumerState(
            name,
            acknowledgement.received,
            acknowledgement.effects_saved,
            max(0, chain.end.offset - acknowledgement.received),
            _lag_us(chain, acknowledgement.received),
            acknowledgement.acknowledged_us,
            _waiting_since_us(chain, acknowledgement.received),
        )
        for name, acknowledgement in sorted(by_name.items())
    ]


def _next_unread(chain: QueueChain, received: int) -> Frame | None:
    """The frame of the next record that a consumer has not received."""
    if received >= chain.end.offset:
        return None
    return despite_trims(chain, lambda: chain.find_offset(max(received, chain.first_offset())))


def _lag_us(chain: QueueChain, received: int) -> int:
    first = _next_unread(chain, received)
    if first is None:
        return 0
    last = chain.find_offset(chain.end.offset - 1)
    assert last is not None
    return max(0, last.header.max_timestamp_us - first.header.min_timestamp_us)


def _waiting_since_us(chain: QueueChain, received: int) -> int | None:
    first = _next_unread(chain, received)
    if first is None:
        return None
    schema = chain.schema()
    began_us = chain.reader(first.address.segment_id).header.created_us
    has_own_times = schema.timestamp_column is not None or schema.inputs > 0
    # A user may give timestamps to a queue without a column of them, too.
    return began_us if has_own_times else max(began_us, first.header.min_timestamp_us)
