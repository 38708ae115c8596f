"""Acts as a reader's consumer in a queue of any kind: it keeps what is not acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from cec_store.errors import ConsumerInUse, OutOfRange
from cec_store.partitioned.by_reference.partitioned_consumer import PartitionedConsumer
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.plain_queue import PlainQueue
from cec_store.queues.appendable_queue import now_us
from cec_store.queues.consumers import Consumer
from cec_store.storage.retrying import retry_while_busy

_RELEASE_S = 3.0
_log = logging.getLogger(__name__)
_Consumer = TypeVar("_Consumer")


class Holding(Protocol):
    """The queue keeps what this consumer has not acknowledged."""

    def acknowledge(self, ends: Mapping[int, int]) -> None:
        """The effects of everything below are saved.

        Raises:
            Fenced: somebody else acts under the name since.
        """

    def close(self) -> None:
        """Let go of the name."""


def hold(
    queue: PlainQueue | ReferenceQueue,
    name: str,
    start: Mapping[int, int],
    *,
    fail_on_data_loss: bool,
) -> Holding:
    """Be the consumer of this name; one that is new begins at these offsets, by partition.

    In a partitioned queue whoever held the name before is fenced; in one without partitions it
    must let go.

    Raises:
        ConsumerInUse: another reader acts under the name.
        OutOfRange: what it needs is gone, unless ``fail_on_data_loss`` is off.
    """
    begin = {number: max(offset, queue.first(number)) for number, offset in start.items()}
    if isinstance(queue, ReferenceQueue):
        whole = PartitionedQueue(queue.store, "r", clock_us=now_us)
        register = partial(whole.consumer, name, start=begin)
        return _OfPartitions(_registered(register, whole.drop_consumer, name, fail_on_data_loss))
    log = queue.log
    # A query that has just been stopped may not have let go yet.
    register_log = partial(log.consumer, name, start=begin.get(0))
    in_time = partial(retry_while_busy, register_log, ConsumerInUse, _RELEASE_S)
    return _OfLog(_registered(in_time, log.drop_consumer, name, fail_on_data_loss))


def _registered(
    register: Callable[[], _Consumer],
    drop: Callable[[str], None],
    name: str,
    fail_on_data_loss: bool,
) -> _Consumer:
    try:
        return register()
    except OutOfRange as error:
        if fail_on_data_loss:
            raise
        _log.warning("%s; it is registered anew, where its reader goes on", error)
        drop(name)
        return register()


class _OfLog:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def acknowledge(self, ends: Mapping[int, int]) -> None:
        self._consumer.acknowledge(effects_saved=ends[0])

    def close(self) -> None:
        self._consumer.close()


class _OfPartitions:
    def __init__(self, consumer: PartitionedConsumer) -> None:
        self._consumer = consumer

    def acknowledge(self, ends: Mapping[int, int]) -> None:
        self._consumer.acknowledge(effects_saved=ends)

    def close(self) -> None:
        """Nothing is held: whoever comes next takes over."""
