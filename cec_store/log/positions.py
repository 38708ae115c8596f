"""Checks a position that a reader kept against the queue that it is used for.

A position is right for one queue only. Another queue at the same path, or an older copy put in its
place, would otherwise be read from somewhere in the middle, without a word about what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from cec_store.errors import OutOfRange, QueueReplaced
from cec_store.values import Position


class Behind(NamedTuple):
    """The commit with the last record before a position, by which its history is known again.

    Commits have random salts, so a copy of the queue that has gone on otherwise has another there.
    """

    number: int
    salt: int

    def __str__(self) -> str:
        return f"{self.number}-{self.salt:016x}"

    @classmethod
    def of(cls, text: str) -> Behind:
        """Return what :meth:`__str__` wrote; raises ``ValueError`` for anything else."""
        if not re.fullmatch("[0-9]{1,18}-[0-9a-f]{16}", text):
            raise ValueError(f"not a number and a salt: {text!r}")
        number, _, salt = text.partition("-")
        return cls(int(number), int(salt, 16))


@dataclass(frozen=True)
class Range:
    """Records ``[start, stop)`` of a partition."""

    partition: int
    start: int
    stop: int


class Bounds(NamedTuple):
    """Offsets of one partition at which a reader can go on."""

    path: str
    queue: str
    """The queue's id: 32 hex digits."""
    start: int
    """Offset of the oldest record that is left."""
    end: int
    """Next offset. Includes whole records behind the durable end that a writer has yet to vouch
    for after a power cut: a reader may have had them before it."""


def replaced(path: str) -> QueueReplaced:
    """Return the error of whoever has a queue open that does not stand there any more."""
    return QueueReplaced(
        f"{path}: the queue was removed, made anew, or replaced by an older copy since it was "
        "opened here; open the queue again"
    )


@contextmanager
def replaced_where_gone(path: str, look_first: Callable[[], None] | None = None) -> Iterator[None]:
    """Raise :class:`QueueReplaced` where the block misses the folder of a queue that is open.

    ``look_first`` raises where there is another reason, as that the writer is fenced.
    """
    try:
        yield
    except FileNotFoundError:  # NotAQueue is one
        if look_first is not None:
            look_first()
        raise replaced(path) from None


def check_queue(queue: str, path: str, here: str) -> None:
    """Check that a position of ``queue`` fits the queue ``here``; an empty id fits every queue.

    Raises:
        QueueReplaced: it is another queue's.
    """
    if queue not in ("", here):
        raise QueueReplaced(
            f"{path}: the position is of queue {queue}, and another one is here now, {here}: the "
            "queue was made anew, or another was put in its place. Put that queue back, or forget "
            "the position and begin anew"
        )


def gone_on_otherwise(path: str, behind: Behind) -> QueueReplaced:
    """Return the error for a position behind a commit that is not of this history."""
    return QueueReplaced(
        f"{path}: the position is behind commit {behind}, which is not in the queue any more: an "
        "older copy of the queue was put back, and has gone on otherwise. Put the newer one back, "
        "or forget the position and begin anew"
    )


def checked(position: Position, bounds: Bounds) -> int:
    """Return the offset of a position, of this queue and within these bounds.

    Raises:
        QueueReplaced: it is another queue's.
        OutOfRange: it is trimmed, or beyond the end.
    """
    check_queue(position.queue, bounds.path, bounds.queue)
    offset, start, end = position.offset, bounds.start, bounds.end
    if start <= offset <= end:
        return offset
    why = "it is trimmed"
    if offset > end:
        why = "it is beyond the end, as where an older copy of the queue was put back"
    raise OutOfRange(f"{bounds.path}: offset {offset} is not in {start} … {end}: {why}")
