"""Files and locks that a process has open, closed in the children that it forks.

A child inherits the descriptors of all open files, and none of its parent's threads. A lock would
stay held for as long as any child lives, and bytes that a child writes would land between those of
its parent. So descriptors are closed as the child begins, and each use of their files raises
``Forked`` there. A process that is made by ``spawn`` inherits nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from weakref import WeakSet

from cec_store.errors import Forked


def forked(what: str) -> Forked:
    """The error for something that the parent process has opened."""
    return Forked(
        f"{what}: was opened before this process was forked, and belongs to its parent; open it "
        "here again, or start processes by multiprocessing.get_context('spawn')"
    )


class OwnProcess:
    """The process that made this object."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def is_other(self) -> bool:
        """Return True if the calling process is not the one that made this object."""
        return os.getpid() != self._pid

    def check(self, what: str) -> None:
        """Raises :class:`Forked` in a child."""
        if self.is_other():
            raise forked(what)


class Descriptor:
    """An open file's number: closed once, at the latest when nobody refers to it any more.

    An exception may strike anywhere, an interrupt for one. So who holds a descriptor by an object
    of this class needs no ``finally`` for it.
    """

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        # It forgets the number and closes it in one step, which nothing interrupts.
        self._file = FileIO(number)
        self._is_inherited = False
        _open.add(self)

    @property
    def number(self) -> int:
        """Number of the open file for system calls; -1, which they refuse, once it is closed.

        Raises:
            Forked: in a child of the process that has opened it.
        """
        if self._is_inherited:
            raise forked(self.path)
        return -1 if self._file.closed else self._file.fileno()

    def close(self) -> None:
        """Close the file once; later the number may stand for another open file."""
        self._file.close()

    def leave_to_parent(self) -> None:
        """Close this child's copy. The parent's stays open, and so does the lock on it."""
        self._is_inherited = True
        with suppress(OSError):
            self.close()

    def __del__(self) -> None:
        if not self._file.closed:
            with suppress(OSError):
                self.close()


_open: WeakSet[Descriptor] = WeakSet()
_in_child: list[Callable[[], None]] = []


def run_in_children(task: Callable[[], None]) -> None:
    """Call ``task`` in each child as it begins."""
    _in_child.append(task)


def _begin_child() -> None:
    for descriptor in list(_open):
        descriptor.leave_to_parent()
    for task in _in_child:
        task()


os.register_at_fork(after_in_child=_begin_child)
