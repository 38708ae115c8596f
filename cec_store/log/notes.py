"""The durable end in a second place, so that no one fault hides it. docs/format.md §2, §7.

A header vouches for the frames before it, and one fault may take them all; for the newest frame no
header does. So a writer notes in a file of its own, after each sync, how far the log is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cec_store.errors import QueueLocked
from cec_store.format.durable_end import (
    NOTE_BYTES,
    SLOTS_AT,
    DurableEnd,
    decode_durable_ends,
)
from cec_store.storage.folder import Folder
from cec_store.storage.names import durable_epoch_of, durable_name, temporary_name
from cec_store.storage.publishing import remove


class Note:
    """A writer's own file. It is locked for as long as the writer lives."""

    def __init__(self, folder: Folder, epoch: int) -> None:
        """Make the file; its name is not durable yet."""
        self._has_failed = self._is_closed = False
        self._folder, self._name, self._last = folder, durable_name(epoch), b""
        name = self._name
        remove(folder, temporary_name(name))
        # It has its name only once it is locked, so that nobody finds it free.
        self._file = folder.create_held(temporary_name(name))
        try:
            folder.rename(temporary_name(name), name)
        except BaseException:
            self._file.close()
            raise

    def write(self, end: DurableEnd) -> None:
        """Put it in both slots, one after the other, so that one is whole at all times; not synced.

        So either may be lost, and readers are still shown all that was acknowledged.
        """
        self._last = end.encode()
        with self._failing():
            for at in SLOTS_AT:
                self._file.write_at(at, self._last)

    def is_in_place(self) -> bool:
        """Return True if the file under the note's name has what was written last.

        A copy of the queue that was put in its place, equal or not, has a note of its own.
        """
        try:
            return self._folder.read(self._name, SLOTS_AT[0], len(self._last)) == self._last
        except FileNotFoundError:
            return False

    def sync(self) -> None:
        """Return once it is on disk."""
        with self._failing():
            self._file.sync()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._has_failed = True
            raise

    def close(self) -> None:
        """Put it on disk and let go of it; what has failed before is not synced again."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if not self._has_failed:
                self.sync()
        finally:
            self._file.close()


def read_notes(folder: Folder, names: list[str]) -> dict[str, list[DurableEnd]]:
    """Return the notes of the files in a listing, by name, without those that are gone.

    Raises:
        UnsupportedVersion: a later format wrote one of them.
    """
    notes: dict[str, list[DurableEnd]] = {}
    for name in names:
        if durable_epoch_of(name) is not None:
            with suppress(FileNotFoundError):
                data = folder.read(name, 0, NOTE_BYTES)
                notes[name] = decode_durable_ends(data, f"{folder.path}/{name}")
    return notes


def refuse_if_held(folder: Folder) -> None:
    """A writer that took over from one that hung holds no other lock than that on its own file.

    Raises:
        QueueLocked: somebody appends to the queue.
    """
    newest = max(
        (name for name in folder.names() if durable_epoch_of(name) is not None), default=""
    )
    if newest and folder.is_held(newest):
        raise QueueLocked(
            f"{folder.path}: another process has this queue open for append, by a takeover; "
            "close it, or open with takeover=True if it hangs"
        )


def remove_older_notes(folder: Folder, epoch: int) -> None:
    """Remove the notes of earlier writers, which nobody needs once this writer's own is durable."""
    for name in folder.names():
        older = durable_epoch_of(name)
        if older is not None and older < epoch:
            remove(folder, name)
