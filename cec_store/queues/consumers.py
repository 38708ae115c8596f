"""Consumers of a queue, and what they still need of it. docs/format.md §10.

High-availability paper (Hwang and others, 2005), 5.2: a consumer acknowledges what it has received
(level 0), and what it will never ask for again because its effects are saved (level 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

from cec_store.errors import OutOfRange, QueueLocked, QueueReplaced
from cec_store.format.acknowledgement import ACKNOWLEDGEMENT_BYTES, Acknowledgement, damaged
from cec_store.log.chain import Chain
from cec_store.log.positions import check_queue, replaced_where_gone
from cec_store.queues.holding import Holding, acknowledgement_files, remove_acknowledgements
from cec_store.storage.folder import Folder
from cec_store.storage.forking import OwnProcess
from cec_store.storage.names import (
    CONSUMERS_LOCK,
    acknowledgement_name,
    check_consumer_name,
    consumer_of,
)
from cec_store.storage.publishing import publish_file
from cec_store.storage.retrying import retry_while_busy
from cec_store.values import Position, to_offset

_LOCK_WAIT_S = 10.0


def read_acknowledgement(folder: Folder, name: str, log_id: bytes) -> Acknowledgement:
    """Return what a consumer has acknowledged.

    Raises:
        FileNotFoundError: there is no such consumer.
        CorruptLog: its file is damaged, or another queue's.
        UnsupportedVersion: a later format wrote it.
    """
    while files := acknowledgement_files(folder.names(), name):
        with suppress(FileNotFoundError):  # somebody has taken over, or drops it
            data = folder.read(files[-1], 0, ACKNOWLEDGEMENT_BYTES + 1)
            break
    else:
        raise FileNotFoundError(f"{folder.path}/{acknowledgement_name(name)}")
    path = f"{folder.path}/{files[-1]}"
    acknowledgement = Acknowledgement.decode(data, path)
    if acknowledgement.log_id != log_id:
        raise damaged(path, 16, "the acknowledgement belongs to another queue")
    return acknowledgement


def acknowledgements(folder: Folder, log_id: bytes) -> dict[str, Acknowledgement]:
    """Return each consumer's acknowledgement by name; raises as :func:`read_acknowledgement`."""
    by_name = {}
    for name in filter(None, map(consumer_of, folder.names())):
        with suppress(FileNotFoundError):  # dropped meanwhile
            by_name[name] = read_acknowledgement(folder, name, log_id)
    return by_name


@contextmanager
def consumers_locked(folder: Folder) -> Iterator[None]:
    """Held by each trim and each registration, so that the later one sees what the earlier did.

    In a store there is nothing to hold: nobody registers there.

    Raises:
        QueueLocked: somebody has held it for ten seconds.
        QueueReplaced: the queue was removed.
    """
    if not folder.appends:
        yield
        return
    try:
        with replaced_where_gone(folder.path):
            lock = retry_while_busy(lambda: folder.lock(CONSUMERS_LOCK), QueueLocked, _LOCK_WAIT_S)
    except QueueLocked:
        raise QueueLocked(
            f"{folder.path}/{CONSUMERS_LOCK}: held for {_LOCK_WAIT_S:.0f} s by a trim or "
            "a registration that hangs; end that process"
        ) from None
    with closing(lock):
        yield


class Consumer:
    """A reader that the queue waits for: no trim takes what it needs. One holder at a time.

    ``_holding`` keeps other holders of the name out, in any process; the holder's threads take
    turns.

    Examples:
        >>> with open_queue("queues/trades", "a") as queue, queue.consumer("hourly") as consumer:
        ...     rows = queue.replay(since=consumer.start).read_all()
        ...     consumer.acknowledge(received=3, effects_saved=3)
        >>> rows.num_rows
        3
    """

    def __init__(
        self,
        folder: Folder,
        name: str,
        start: Position | int | None,
        clock_us: Callable[[], int],
        takeover: bool = False,
    ) -> None:
        """See :meth:`cec_store.OutputQueue.consumer`."""
        self.name = check_consumer_name(name)
        self._folder = folder
        self._clock_us = clock_us
        self._process = OwnProcess()
        # Whoever makes the queue may not have done this yet. After a power cut there must be no
        # file of a consumer without the queue's manifest.
        with replaced_where_gone(folder.path):
            folder.sync_names()
            self._holding: Holding | None = Holding(folder, name, takeover)
        try:
            with consumers_locked(folder):
                self._chain = Chain(folder)
                self._said = self._find_or_register(start)
                self._take_name(self._holding)
        except BaseException:
            self.close()
            raise

    def _find_or_register(self, start: Position | int | None) -> Acknowledgement:
        oldest, end = self._chain.first_offset(), self._chain.end.offset
        log_id = self._chain.manifest.log_id
        try:
            state = read_acknowledgement(self._folder, self.name, log_id)
        except FileNotFoundError:
            at = oldest if start is None else self._offset_of(start)
            if not oldest <= at <= end:
                raise OutOfRange(
                    f"{self._folder.path}: consumer {self.name!r} cannot start at {at}, which is "
                    f"not in {oldest} … {end}"
                ) from None
            state = Acknowledgement(log_id, at, at, at, self._clock_us())
            remove_acknowledgements(self._folder, self.name, 2**32)  # of one that was dropped
            self._publish(acknowledgement_name(self.name), state)
        check_is_left(self._folder.path, self.name, state.effects_saved, oldest)
        written = self._chain.written_offset
        if state.received > written:
            raise OutOfRange(
                f"{self._folder.path}: consumer {self.name!r} has received records up to "
                f"{state.received}, and the queue has them up to {written}: an older copy of the "
                "queue was put back. Drop the consumer and register it anew to go on from there"
            )
        return state

    def _offset_of(self, position: Position | int) -> int:
        """Return an offset of this queue; raises :class:`QueueReplaced` for another queue's."""
        if isinstance(position, Position):
            check_queue(position.queue, self._folder.path, self._chain.queue_id)
        return to_offset(position)

    def _take_name(self, holding: Holding) -> None:
        """Put what counts under the holder's own number, where others cannot replace it."""
        if holding.number and holding.file_name not in self._folder.names():
            self._publish(holding.file_name, self._said)
            remove_acknowledgements(self._folder, self.name, holding.number)

    @property
    def start(self) -> int:
        """Offset at which it registered."""
        return self._said.start

    @property
    def received(self) -> int:
        """Level 0: every record below this offset has been received."""
        return self._said.received

    @property
    def effects_saved(self) -> int:
        """Level 1: no record below this offset will be asked for again."""
        return self._said.effects_saved

    def acknowledge(
        self,
        *,
        received: Position | int | None = None,
        effects_saved: Position | int | None = None,
    ) -> None:
        """Say how far this consumer is; returns once that is on disk.

        Both are next-unread offsets, or positions, such as :attr:`Replay.cursor`.
        ``effects_saved`` implies ``received``. Numbers below those already acknowledged change
        nothing, so that one may acknowledge again after a restart.

        Raises:
            OutOfRange: above the queue's durable end.
            QueueReplaced: a position of another queue; or another queue stands here now, or an
                older copy, or none.
            Fenced: somebody has taken over the name; this was not acknowledged.
            Forked: the parent of this process is the consumer.
            ValueError: effects of records that were not received, or a consumer that is closed.
        """
        self._process.check(f"{self._folder.path}: consumer {self.name!r}")
        holding = self._holding
        if holding is None:
            raise ValueError(f"consumer {self.name!r} is closed; it acknowledges no more")
        holding.check()
        saved = 0 if effects_saved is None else self._offset_of(effects_saved)
        got = saved if received is None else self._offset_of(received)
        if saved > got:
            raise ValueError(f"effects saved up to {saved}, and only received up to {got}")
        got = max(got, self.received)
        saved = max(saved, self.effects_saved)
        end = self._chain.refresh().offset
        # The end may look lower than it was, until a writer opens the queue after a power cut.
        if got > max(self.received, end):
            raise OutOfRange(
                f"{self._folder.path}: consumer {self.name!r} acknowledges {got}, the queue's "
                f"durable end is {end}"
            )
        if (got, saved) != (self.received, self.effects_saved):
            acknowledgement = replace(self._said, received=got, effects_saved=saved)
            acknowledgement = replace(acknowledgement, acknowledged_us=self._clock_us())
            self._publish(holding.file_name, acknowledgement)
            self._take_back_if_replaced(holding.file_name, acknowledgement)
            # Last: whoever took over before this was published may not have read it.
            holding.check()
            self._said = acknowledgement

    def _publish(self, file_name: str, acknowledgement: Acknowledgement) -> None:
        with replaced_where_gone(self._folder.path):
            publish_file(self._folder, file_name, acknowledgement.encode())

    def _take_back_if_replaced(self, file_name: str, acknowledgement: Acknowledgement) -> None:
        """Remove what was published in the folder of another queue, and raise `QueueReplaced`."""
        try:
            self._chain.refresh()
        except QueueReplaced:
            data = acknowledgement.encode()
            with suppress(FileNotFoundError):
                if self._folder.read(file_name, 0, len(data) + 1) == data:
                    self._folder.unlink(file_name)
            raise

    def close(self) -> None:
        """Free the name. The consumer stays registered, and the queue keeps what it needs."""
        if self._holding is not None:
            self._holding.close()
            self._holding = None

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_is_left(path: str, name: str, saved: int, oldest: int) -> None:
    """Raises :class:`OutOfRange` where records that a consumer needs are gone."""
    if saved < oldest:
        raise OutOfRange(
            f"{path}: consumer {name!r} needs records from {saved} on, and the oldest is {oldest}: "
            "they were deleted, as the queue's retention or a trim said, or its file was restored "
            f"from an old copy. Drop the consumer and register it anew to go on from {oldest}"
        )


def drop_consumer(folder: Folder, name: str) -> None:
    """See :meth:`cec_store.OutputQueue.drop_consumer`."""
    file_name = acknowledgement_name(check_consumer_name(name))
    with replaced_where_gone(folder.path):
        names = folder.names()
    if file_name not in names:
        raise ValueError(f"{folder.path}: no consumer {name!r}")
    with closing(Holding(folder, name)):
        # The first file goes last: without it the consumer is registered no more.
        remove_acknowledgements(folder, name, 2**32)
        with suppress(FileNotFoundError):  # dropped by somebody else meanwhile
            folder.unlink(file_name)
        folder.sync_names()
