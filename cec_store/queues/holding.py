"""Holders of a consumer's name: one at a time, and takeovers.

A holder that hangs cannot be made to let go of its lock, and it may go on at any moment. So whoever
takes over has a number of its own, with a lock and a file of acknowledgements of that number: the
one before it can only replace its own file, which counts no more. docs/format.md §10.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from cec_store.errors import ConsumerInUse, Fenced, QueueLocked
from cec_store.storage.folder import Folder, Lock
from cec_store.storage.names import (
    acknowledgement_name,
    consumer_lock_name,
    takeover_of_acknowledgement,
    takeover_of_lock,
)
from cec_store.storage.publishing import remove


def acknowledgement_files(names: Sequence[str], consumer: str) -> list[str]:
    """Return the names of a registered consumer's files: the last one counts. Empty without one."""
    if acknowledgement_name(consumer) not in names:
        return []
    numbers = [takeover_of_acknowledgement(name, consumer) for name in names]
    return [acknowledgement_name(consumer, n) for n in [0, *sorted(n for n in numbers if n)]]


def remove_acknowledgements(folder: Folder, consumer: str, below: int) -> None:
    """Remove the files of takeovers before ``below``; the first stays, as it registers the name."""
    for name in folder.names():
        number = takeover_of_acknowledgement(name, consumer)
        if number is not None and 0 < number < below:
            remove(folder, name)


class Holding:
    """The right to act under a name, until closed or taken over."""

    def __init__(self, folder: Folder, consumer: str, takeover: bool = False) -> None:
        """Take the right to act under the name; with ``takeover`` another holder loses it.

        Raises:
            ConsumerInUse: somebody holds it.
        """
        self._folder = folder
        self._consumer = consumer
        self._locks: list[Lock] = []
        try:
            if not self._lock(0) and not takeover:
                raise self._in_use()
            numbers = [takeover_of_lock(name, consumer) for name in folder.names()]
            self.number = max((number for number in numbers if number is not None), default=0)
            """Number of takeovers of this name, this one included."""
            if takeover:
                self.number += 1
                while not self._lock(self.number):
                    self.number += 1
            elif self.number and not self._lock(self.number):
                raise self._in_use()
        except BaseException:
            self.close()
            raise

    def _lock(self, number: int) -> bool:
        with suppress(QueueLocked):
            self._locks.append(self._folder.lock(consumer_lock_name(self._consumer, number)))
            return True
        return False

    def _in_use(self) -> ConsumerInUse:
        return ConsumerInUse(
            f"{self._folder.path}: consumer {self._consumer!r} is in use; close it there, take "
            "another name, or use takeover=True if it hangs"
        )

    @property
    def file_name(self) -> str:
        """The holder's own file of acknowledgements."""
        return acknowledgement_name(self._consumer, self.number)

    def check(self) -> None:
        """Raises :class:`Fenced` where somebody has taken over."""
        with suppress(FileNotFoundError):
            self._folder.size(consumer_lock_name(self._consumer, self.number + 1))
            raise Fenced(
                f"{self._folder.path}: somebody has taken over consumer {self._consumer!r}; "
                "nothing more is acknowledged here"
            )

    def close(self) -> None:
        """Let go of the name."""
        for lock in self._locks:
            lock.close()
