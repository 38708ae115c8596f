"""Who reads a queue, and what they still need of it. docs/format.md §10.

High-availability paper (Hwang and others, 2005), 5.2: a consumer acknowledges what it has received
(level 0), and what it will never ask for again because its effects are saved (level 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace

from cec_store.errors import ConsumerInUse, OutOfRange, QueueLocked
from cec_store.format.acknowledgement import ACKNOWLEDGEMENT_BYTES, Acknowledgement, damaged
from cec_store.log.chain import Chain
from cec_store.log.frames import Frame
from cec_store.log.reader import despite_trims
from cec_store.storage.folder import Folder, Lock
from cec_store.storage.names import (
    CONSUMERS_LOCK,
    acknowledgement_name,
    check_consumer_name,
    consumer_lock_name,
    consumer_of,
)
from cec_store.storage.publishing import publish_file
from cec_store.storage.retrying import retry_while_busy
from cec_store.values import Position, to_offset

_LOCK_WAIT_S = 10.0


def read_acknowledgement(folder: Folder, name: str, log_id: bytes) -> Acknowledgement:
    """What a consumer has acknowledged.

    Raises:
        FileNotFoundError: there is no such consumer.
        CorruptLog: its file is damaged, or another queue's.
        UnsupportedVersion: a later format wrote it.
    """
    file_name = acknowledgement_name(name)
    path = f"{folder.path}/{file_name}"
    said = Acknowledgement.decode(folder.read(file_name, 0, ACKNOWLEDGEMENT_BYTES + 1), path)
    if said.log_id != log_id:
        raise damaged(path, 16, "the acknowledgement belongs to another queue")
    return said


def acknowledgements(folder: Folder, log_id: bytes) -> dict[str, Acknowledgement]:
    """What each registered consumer has acknowledged; raises as :func:`read_acknowledgement`."""
    found = {}
    for name in filter(None, map(consumer_of, folder.names())):
        with suppress(FileNotFoundError):  # dropped meanwhile
            found[name] = read_acknowledgement(folder, name, log_id)
    return found


@contextmanager
def consumers_locked(folder: Folder) -> Iterator[None]:
    """Held by each trim and each registration, so that the later one sees what the earlier did.

    Raises:
        QueueLocked: somebody has held it for ten seconds.
    """
    try:
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

    The file behind ``_lock`` keeps other holders of the name out, in any process; the holder's
    threads take turns.
    """

    def __init__(
        self, folder: Folder, name: str, start: Position | int | None, clock_us: Callable[[], int]
    ) -> None:
        """See :meth:`cec_store.OutputQueue.consumer`."""
        self.name = check_consumer_name(name)
        self._folder = folder
        self._clock_us = clock_us
        # Whoever makes the queue may not have done this yet. After a power cut there must be no
        # file of a consumer without the queue's manifest.
        folder.sync_names()
        self._lock: Lock | None = _lock_of(folder, name)
        try:
            with consumers_locked(folder):
                self._chain = Chain(folder)
                self._said = self._find_or_register(start)
        except BaseException:
            self.close()
            raise

    def _find_or_register(self, start: Position | int | None) -> Acknowledgement:
        oldest, end = self._chain.first_offset(), self._chain.end.offset
        log_id = self._chain.manifest.log_id
        try:
            said = read_acknowledgement(self._folder, self.name, log_id)
        except FileNotFoundError:
            at = oldest if start is None else to_offset(start)
            if not oldest <= at <= end:
                raise OutOfRange(
                    f"{self._folder.path}: consumer {self.name!r} cannot start at {at}, which is "
                    f"not in {oldest} … {end}"
                ) from None
            said = Acknowledgement(log_id, at, at, at, self._clock_us())
            self._publish(said)
        if said.effects_saved < oldest:
            raise OutOfRange(
                f"{self._folder.path}: consumer {self.name!r} needs records from "
                f"{said.effects_saved} on, and the oldest is {oldest}: they were deleted, as the "
                "queue's retention or a trim said, or its file was restored from an old copy. Drop "
                f"the consumer and register it anew to go on from {oldest}"
            )
        return said

    @property
    def start(self) -> int:
        """Where it registered."""
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
            ValueError: effects of records that were not received, or a consumer that is closed.
        """
        if self._lock is None:
            raise ValueError(f"consumer {self.name!r} is closed; it acknowledges no more")
        saved = 0 if effects_saved is None else to_offset(effects_saved)
        got = saved if received is None else to_offset(received)
        if saved > got:
            raise ValueError(f"effects saved up to {saved}, and only received up to {got}")
        got = max(got, self.received)
        saved = max(saved, self.effects_saved)
        # The end may look lower than it was, until a writer opens the queue after a power cut.
        if got > max(self.received, self._chain.end.offset) and got > self._chain.refresh().offset:
            raise OutOfRange(
                f"{self._folder.path}: consumer {self.name!r} acknowledges {got}, the queue's "
                f"durable end is {self._chain.end.offset}"
            )
        if (got, saved) != (self.received, self.effects_saved):
            said = replace(self._said, received=got, effects_saved=saved)
            self._publish(replace(said, acknowledged_us=self._clock_us()))

    def _publish(self, said: Acknowledgement) -> None:
        publish_file(self._folder, acknowledgement_name(self.name), said.encode())
        self._said = said

    def close(self) -> None:
        """Free the name. The consumer stays registered, and the queue keeps what it needs."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lock_of(folder: Folder, name: str) -> Lock:
    try:
        return folder.lock(consumer_lock_name(name))
    except QueueLocked:
        raise ConsumerInUse(
            f"{folder.path}: consumer {name!r} is in use; close it there, or take another name"
        ) from None


def drop_consumer(folder: Folder, name: str) -> None:
    """See :meth:`cec_store.OutputQueue.drop_consumer`."""
    file_name = acknowledgement_name(check_consumer_name(name))
    if file_name not in folder.names():
        raise ValueError(f"{folder.path}: no consumer {name!r}")
    with closing(_lock_of(folder, name)):
        with suppress(FileNotFoundError):  # dropped by somebody else meanwhile
            folder.unlink(file_name)
        folder.sync_names()


@dataclass(frozen=True)
class ConsumerState:
    """How far a consumer is."""

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
    """When it last acknowledged more than before."""
    waiting_since_us: int | None
    """Since when, by the clock, the next of these has been there, at the longest; ``None``: there
    is none. Where timestamps are the user's own, since the segment that holds it was begun."""


def consumer_states(chain: Chain) -> list[ConsumerState]:
    """All registered consumers by name; raises as :func:`acknowledgements`."""
    said = acknowledgements(chain.folder, chain.manifest.log_id)
    return [
        ConsumerState(
            name,
            each.received,
            each.effects_saved,
            max(0, chain.end.offset - each.received),
            _lag_us(chain, each.received),
            each.acknowledged_us,
            _waiting_since_us(chain, each.received),
        )
        for name, each in sorted(said.items())
    ]


def _next_unread(chain: Chain, received: int) -> Frame | None:
    """The frame of the next record that a consumer has not received."""
    if received >= chain.end.offset:
        return None
    return despite_trims(chain, lambda: chain.find_offset(max(received, chain.first_offset())))


def _lag_us(chain: Chain, received: int) -> int:
    first = _next_unread(chain, received)
    if first is None:
        return 0
    last = chain.find_offset(chain.end.offset - 1)
    assert last is not None
    return max(0, last.header.max_timestamp_us - first.header.min_timestamp_us)


def _waiting_since_us(chain: Chain, received: int) -> int | None:
    first = _next_unread(chain, received)
    if first is None:
        return None
    schema = chain.schema()
    began_us = chain.reader(first.address.segment_id).header.created_us
    has_own_times = schema.timestamp_column is not None or schema.inputs > 0
    # A user may give timestamps to a queue without a column of them, too.
    return began_us if has_own_times else max(began_us, first.header.min_timestamp_us)
