"""Acts under a consumer's name, for all partitions of a queue. docs/format.md §11.

High-availability paper (Hwang and others, 2005), 5.2, as :mod:`cec_store.queues.consumers`, on
stores without locks: whoever acts under a name last is its holder.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace

from cec_store.errors import Fenced, OutOfRange, QueueReplaced
from cec_store.format.by_reference.acknowledgements import PartitionsAcknowledged
from cec_store.format.by_reference.commits import ReferenceObject
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import settings_after
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.registrations import (
    FIRST_STEP,
    SETTING,
    Registration,
    acknowledged,
    check_is_there,
    dropped_names,
    newest_number,
    numbers_of,
    of_all,
    registered,
)
from cec_store.log.positions import check_queue
from cec_store.storage.names import (
    acknowledgement_object_name,
    check_consumer_name,
)
from cec_store.values import Position, to_offset

Places = Mapping[int, Position | int]
"""Next offsets by partition. A position names its queue, so that another queue refuses it."""


def _offsets_of(places: Places, state: QueueState, path: str) -> dict[int, int]:
    """Return plain offsets.

    Raises:
        QueueReplaced: a position of another queue.
        ValueError: not a whole number from 0 on.
    """
    for place in places.values():
        if isinstance(place, Position):
            check_queue(place.queue, path, state.log_id.hex())
    return {n: to_offset(at) for n, at in places.items()}


def register_consumer(
    log: ReferenceLog, name: str, places: Places, clock_us: Callable[[], int]
) -> QueueState:
    """The queue, with this consumer in its settings; it begins at ``places``, else at the oldest.

    One that is there stays as it is, and so does whoever acts under its name.

    Raises:
        OutOfRange: there is no such partition, or it is trimmed there or not there yet.
        QueueReplaced: a position of another queue.
        ValueError: not a name, or not an offset.
    """
    key = f"{SETTING}{check_consumer_name(name)}"

    def commit(now: QueueState) -> ReferenceObject | None:
        starts, ends = now.commit.starts, now.commit.ends
        if key in now.commit.settings:
            return None
        begins = [start.get(n, first) for n, first in enumerate(starts)]
        for n, at in enumerate(begins):
            if not starts[n] <= at <= ends[n]:
                raise OutOfRange(
                    f"{path}: consumer {name!r} cannot start at {at} of partition {n}, which "
                    f"is not in {starts[n]} … {ends[n]}"
                )
        first = newest_number(log.store, name) + FIRST_STEP
        setting = Registration(tuple(begins), first).encode()
        return settings_after(now, {**now.commit.settings, key: setting}, clock_us())

    path, state = log.store.url, log.open()
    start = _offsets_of(places, state, path)
    unknown = sorted(start.keys() - range(len(state.commit.ends)))
    if unknown:
        raise OutOfRange(f"{path}: there is no partition {unknown[0]}")
    state = log.add(state, commit)
    log.settle(state)
    return state


class PartitionedConsumer:
    """A reader that the queue waits for: no trim takes what it needs. For one thread.

    Whoever acts under its name later takes over from it.

    Examples:
        >>> schema = pa.schema([("item", pa.string())])
        >>> with open_queue("items", "a", schema=schema, partitions=1) as queue:
        ...     _ = queue.append(pa.table({"item": ["a", "b"]}))
        ...     queue.consumer("hourly").acknowledge(effects_saved={0: 2})
    """

    def __init__(
        self, log: ReferenceLog, name: str, start: Places | None, clock_us: Callable[[], int]
    ) -> None:
        """See :meth:`.partitioned_queue.PartitionedQueue.consumer`."""
        self.name = check_consumer_name(name)
        self._store = log.store
        self._log = log
        self._clock_us = clock_us
        self._state = register_consumer(log, name, dict(start or {}), clock_us)
        self._registration = registered(self._state, log.store.url)[name]
        self._said = self._taken_over()
        check_is_there(log.store.url, self._state, name, self.effects_saved)

    def _taken_over(self) -> PartitionsAcknowledged:
        """Write the last holder's offsets under a new number, which fences it; return them."""
        holder = secrets.token_bytes(16)
        while True:
            first = self._registration.first
            before = acknowledged(self._store, self._state, self.name, first)
            number, received, saved = first, self.start, self.start
            when_us = self._clock_us()
            if before is not None:
                number, when_us = before.number + 1, before.acknowledged_us
                received = of_all(before.received, self._state)
                saved = of_all(before.effects_saved, self._state)
            acknowledgement = PartitionsAcknowledged(
                self._state.log_id, number, holder, when_us, received, saved
            )
            if self._create(acknowledgement):
                self._delete_below(number)
                return acknowledgement

    def _create(self, acknowledgement: PartitionsAcknowledged) -> bool:
        name = acknowledgement_object_name(self.name, acknowledgement.number)
        try:
            self._store.create(name, [acknowledgement.encode()])
        except FileExistsError:
            return False
        return True

    def _delete_below(self, number: int) -> bool:
        """Delete acknowledgements below ``number``; return True if none is above it."""
        numbers = numbers_of(self._store, self.name)
        older = [n for n in numbers if n < number]
        self._store.delete(acknowledgement_object_name(self.name, n) for n in older)
        return max(numbers, default=number) <= number

    @property
    def start(self) -> tuple[int, ...]:
        """Offset of each partition at which it registered."""
        return self._registration.starts

    @property
    def received(self) -> tuple[int, ...]:
        """Level 0, of each partition: every record below this offset has been received."""
        return self._said.received

    @property
    def effects_saved(self) -> tuple[int, ...]:
        """Level 1, of each partition: no record below will be asked for again."""
        return self._said.effects_saved

    def acknowledge(
        self,
        *,
        received: Places | None = None,
        effects_saved: Places | None = None,
    ) -> None:
        """Say how far this consumer is, by partition; returns once that is durable.

        Places are next offsets, or positions, such as :attr:`Replay.cursor`.

        ``effects_saved`` implies ``received``. Offsets below those already acknowledged, and
        partitions that are not named, change nothing.

        Raises:
            OutOfRange: a partition that is not there, or an offset above its end.
            QueueReplaced: a position of another queue; or another queue stands here now, or an
                older copy, or none.
            Fenced: somebody acts under the name since; this was not acknowledged.
            ValueError: effects of records that were not received.
        """
        path = self._store.url
        self._state = self._log.young(self._state)
        saved_now = _offsets_of(effects_saved or {}, self._state, path)
        got_now = _offsets_of(received or effects_saved or {}, self._state, path)
        early = [n for n, offset in saved_now.items() if offset > got_now.get(n, offset)]
        if early:
            raise ValueError(f"partition {early[0]}: effects saved of records not received")
        got = self._raised(self.received, {**saved_now, **got_now})
        saved = self._raised(self.effects_saved, saved_now)
        if (got, saved) == (self.received, self.effects_saved):
            return
        acknowledgement = replace(
            self._said, number=self._said.number + 1, received=got, effects_saved=saved,
            acknowledged_us=self._clock_us(),
        )  # fmt: skip
        self._log.settle(self._state)
        if not self._create(acknowledgement):
            raise self._fenced()
        try:
            self._log.prove(self._state)
        except QueueReplaced:
            self._store.delete([acknowledgement_object_name(self.name, acknowledgement.number)])
            raise
        if not self._delete_below(acknowledgement.number):
            raise self._fenced()
        self._said = acknowledgement

    def _fenced(self) -> Fenced:
        return Fenced(
            f"{self._store.url}: somebody has taken over consumer {self.name!r}; nothing more "
            "is acknowledged here"
        )

    def _raised(self, before: tuple[int, ...], now: Mapping[int, int]) -> tuple[int, ...]:
        ends = self._state.commit.ends
        if any(n >= len(ends) or offset > ends[n] for n, offset in now.items()):
            self._state = self._log.refresh(self._state)
            ends = self._state.commit.ends
        for n, offset in now.items():
            if not 0 <= n < len(ends) or offset > ends[n]:
                end = ends[n] if 0 <= n < len(ends) else "not there"
                raise OutOfRange(
                    f"{self._store.url}: consumer {self.name!r} acknowledges {offset} of partition "
                    f"{n}, whose end is {end}"
                )
        all_before = of_all(before, self._state)
        return tuple(max(old, now.get(n, 0)) for n, old in enumerate(all_before))


def drop_consumer(log: ReferenceLog, name: str, clock_us: Callable[[], int]) -> None:
    """See :meth:`.partitioned_queue.PartitionedQueue.drop_consumer`."""
    state = log.open()
    key = f"{SETTING}{check_consumer_name(name)}"
    if key not in state.commit.settings:
        raise ValueError(f"{log.store.url}: no consumer {name!r}")

    def commit(state: QueueState) -> ReferenceObject | None:
        left = {setting: text for setting, text in state.commit.settings.items() if setting != key}
        return settings_after(state, left, clock_us())

    log.add(state, commit)
    # Only now: as long as it was registered they said what may be trimmed.
    log.store.delete(dropped_names(log.store, name))
