"""An input that is a queue, and whose consumer is somebody else until a standby takes over."""

from __future__ import annotations

from collections.abc import Iterator

from cec_store.errors import StandbyRefused
from cec_store.operators.contract import InputBatch
from cec_store.operators.inputs.sources import QueueSource
from cec_store.queues.consumable_queue import ConsumableQueue
from cec_store.queues.consumers import read_acknowledgement


class QueueInput:
    """Reads a queue as a standby does: without a word to it, until the name is its own.

    Examples:
        >>> queue = open_queue("queues/trades", "a")
        >>> queue.consumer("averages").close()
        >>> QueueInput(queue, "averages").end()
        3
        >>> queue.close()
    """

    def __init__(self, queue: ConsumableQueue, consumer: str, *, has_ended: bool = False) -> None:
        """``consumer`` is the name under which the primary acknowledges this input.

        ``has_ended`` as of :class:`QueueSource`.

        Raises:
            NotAQueue, CorruptLog: the queue cannot be read.
        """
        self.name = consumer
        self._queue = queue
        self._source = QueueSource(queue.chain)
        self.schema = self._source.schema
        self.path, self.queue_id = self._source.path, self._source.queue_id
        self.has_ended = has_ended

    def read(self, start: int, stop: int | None = None) -> Iterator[InputBatch]:
        """Read as :meth:`QueueSource.read` does."""
        return self._source.read(start, stop)

    def end(self) -> int:
        """Return the end as :meth:`QueueSource.end` does."""
        return self._source.end()

    def effects_saved(self) -> int:
        """Level 1: from here on the queue keeps its records for this consumer.

        Raises:
            StandbyRefused: no consumer is registered under the name.
        """
        folder = self._queue.folder
        try:
            acknowledgement = read_acknowledgement(folder, self.name, self._queue.chain().log_id)
        except FileNotFoundError:
            raise StandbyRefused(
                f"{folder.path}: no consumer {self.name!r} is registered, so nothing keeps the "
                "input of a standby; start the primary first, or register it"
            ) from None
        return acknowledgement.effects_saved

    def register(self) -> None:
        """Register the consumer's name, if it is not yet, so that the queue keeps its input."""
        try:
            self.effects_saved()
        except StandbyRefused:
            self._queue.consumer(self.name).close()

    def claimed(self) -> QueueSource:
        """Take the consumer's name over from its holder, and return the input under it."""
        consumer = self._queue.consumer(self.name, takeover=True)
        return QueueSource(self._queue.chain, consumer, has_ended=self.has_ended)
