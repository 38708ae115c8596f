"""A queue as its consumers use it, beside whoever writes it."""

from __future__ import annotations

from collections.abc import Callable

from cec_store.errors import ReadOnly
from cec_store.ledger.commit_chain import chain_at
from cec_store.log.chain import Chain, QueueChain
from cec_store.queues.consumers import Consumer, drop_consumer
from cec_store.queues.lags import ConsumerState, consumer_states
from cec_store.storage.folder import Folder
from cec_store.values import Position


class ConsumableQueue:
    """Acts under the names of consumers, and lists them."""

    def __init__(self, folder: Folder, clock_us: Callable[[], int]) -> None:
        self.folder = folder
        self._clock_us = clock_us

    def chain(self) -> QueueChain:
        """A reader of its own over all that is durable now."""
        return chain_at(self.folder)

    def consumer(
        self, name: str, *, start: Position | int | None = None, takeover: bool = False
    ) -> Consumer:
        """Act as the consumer of this name, for which the queue keeps what it needs.

        The first use registers it, durably, at offset ``start`` (default: the oldest there is);
        later ones go on with what it has acknowledged. Close it to let go of the name. Works in
        any mode, beside the writer. ``takeover`` fences a holder that hangs: it can acknowledge
        nothing more.

        Raises:
            ConsumerInUse: somebody else acts under this name.
            OutOfRange: ``start`` is trimmed or not there yet.
            CorruptLog, UnsupportedVersion: what it has acknowledged cannot be read.
            ValueError: not a name: 1 to 100 of ``A-Z a-z 0-9 . _ -``.
        """
        self._refuse_commits()
        return Consumer(self.folder, name, start, self._clock_us, takeover)

    def consumers(self) -> list[ConsumerState]:
        """All registered consumers by name, those that have gone among them, with their lag.

        Raises:
            CorruptLog, UnsupportedVersion: what one of them has acknowledged cannot be read.
        """
        return consumer_states(self.chain())

    def drop_consumer(self, name: str) -> None:
        """Forget a consumer, damaged or not: the queue waits for it no more.

        Raises:
            ConsumerInUse: somebody acts under this name.
            ValueError: there is none.
        """
        self._refuse_commits()
        drop_consumer(self.folder, name)

    def _refuse_commits(self) -> None:
        """Raise :class:`ReadOnly` for a queue whose rows are in commits."""
        if not isinstance(self.chain(), Chain):
            raise ReadOnly(
                f"{self.folder.path}: a queue without partitions in a store has no consumers in "
                "Python: make one with partitions=1"
            )
