"""The newest commit of a local queue, noted in a second place. docs/format.md §11.

Without it nobody could tell the loss of the newest commit's file from a commit never made.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cec_store.errors import StorageError
from cec_store.format.durable_end import (
    NOTE_BYTES,
    SLOTS_AT,
    DurableEnd,
    decode_durable_ends,
)
from cec_store.storage.folder import HeldFile
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import COMMIT_MARK, LOG_FOLDER
from cec_store.storage.publishing import remove
from cec_store.storage.stores.store import Store

_log = logging.getLogger(__name__)
ADVICE = (
    f"restore it from a copy; to go on without what it committed, move {LOG_FOLDER}/{COMMIT_MARK} "
    "away"
)
"""Advice for errors about a commit that the mark names and that is missing."""


class CommitMark:
    """The file `log/mark`: two slots, which the queue's committers write in turn.

    In a store there is none, nor on a network file system, where a file may be seen late.
    """

    def __init__(self, store: Store) -> None:
        self._folder: LocalFolder | None = None
        if store.appends and not LocalFolder(store.url).is_remote():
            self._folder = LocalFolder(store.url).folder(LOG_FOLDER)

    @property
    def path(self) -> str | None:
        """Path of the file, there or not; ``None`` where the queue can have none."""
        return None if self._folder is None else f"{self._folder.path}/{COMMIT_MARK}"

    def newest(self, log_id: bytes | None = None) -> DurableEnd | None:
        """Return the slot of the highest commit, of this queue if one is given.

        Slots of another queue are passed over: the writer of one that stood here may leave them.

        Raises:
            CorruptLog: something else is in the place of the file.
            UnsupportedVersion: a later format wrote it.
        """
        slots = [slot for slot in self._slots() if log_id in (None, slot.log_id)]
        return max(slots, key=lambda slot: slot.segment_id, default=None)

    def _slots(self) -> list[DurableEnd]:
        if self._folder is not None:
            with suppress(FileNotFoundError):
                data = self._folder.read(COMMIT_MARK, 0, NOTE_BYTES)
                return decode_durable_ends(data, f"{self._folder.path}/{COMMIT_MARK}")
        return []

    @contextmanager
    def opened(self) -> Iterator[HeldFile | None]:
        """Open the file for one commit, before the commit is proven.

        If another queue takes this one's place afterwards, the slot goes into the old file.
        """
        if self._folder is None:
            yield None
            return
        try:
            file = self._folder.open_shared(COMMIT_MARK)
        except FileNotFoundError:  # no folder, no queue: creating the commit makes it or finds out
            yield None
            return
        try:
            yield file
        finally:
            file.close()

    def write(self, file: HeldFile, log_id: bytes, number: int, salt: int, size: int) -> None:
        """Note a commit that is durable and proven. If that fails, the queue goes on without."""
        place = number % len(SLOTS_AT)
        end = DurableEnd(
            epoch=0, log_id=log_id, segment_id=number, salt=salt, byte=size, seq=0, offset=0,
            last_segment=0, last_byte=0, running_crc=0,
        )  # fmt: skip
        try:
            ours = [slot for slot in self._slots() if slot.log_id == log_id]
            # A committer that was quicker may have noted a later one there.
            if all(slot.segment_id <= number or slot.segment_id % 2 != place for slot in ours):
                file.write_at(SLOTS_AT[place], end.encode())
        except StorageError as error:
            _log.warning("%s: commit %d is not noted: %s", self.path, number, error)

    def remove(self) -> None:
        """Delete the file, durably: before commits go that it names."""
        if self._folder is not None:
            remove(self._folder, COMMIT_MARK)
            self._folder.sync_names()
