"""Writers of a queue's parts that stay open between commits, as long as nobody else writes."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import NamedTuple

from cec_store.errors import CecError, CorruptLog, NotAQueue, QueueLocked, UnsupportedVersion
from cec_store.format.bodies import Body
from cec_store.format.schema import RecordSchema
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.epochs import newest_claim, newest_epoch, read_manifest
from cec_store.log.frames import FrameMarks
from cec_store.log.reopening import reopen
from cec_store.log.writer import ClockAndEntropy, LogWriter
from cec_store.queues.trimming import NOTHING_ASKED, trim
from cec_store.storage.folder import FolderTree
from cec_store.storage.names import partition_name, segment_name

_log = logging.getLogger(__name__)
_OPEN_MAX = 100
"""Where there are more writers, each lets go of its two files once it has been used."""


class Part(NamedTuple):
    """How far a folder's log reaches."""

    visible: int
    """Next unread offset."""
    written: int
    """The same with whole frames that nothing vouches for yet."""


class KeptWriters:
    """One for each folder in the queue's own. Whoever uses them holds the queue's lock.

    Threads may ask for the writers of different folders at the same time, not for one twice.
    """

    def __init__(
        self, folder: FolderTree, clock_and_entropy: ClockAndEntropy, segment_bytes: int
    ) -> None:
        self._folder = folder
        self._clock_and_entropy = clock_and_entropy
        self._segment_bytes = segment_bytes
        self._writers: dict[str, LogWriter] = {}
        self._alone: set[str] = set()
        """Those that have been looked at since the lock was taken, and may be used."""

    def look_again(self) -> None:
        """To be called once the queue's lock is held: others may have written meanwhile."""
        self._alone.clear()

    def kept(self, name: str) -> LogWriter | None:
        """The one that is open; somebody else may have written since."""
        return self._writers.get(name)

    def writer(self, name: str, schema: RecordSchema) -> LogWriter:
        """The one that is open, unless somebody else has written since; makes what is not there.

        Raises:
            CorruptLog, SchemaMismatch, StorageError: as for opening any queue for append.
        """
        folder = self._folder.folder(name)
        writer = self._usable(name)
        if writer is not None:
            return writer
        writer = self._writers.pop(name, None)
        if writer is not None:
            writer.close()
        folder.make()
        if newest_epoch(folder) is None:
            writer = create(folder, schema, self._clock_and_entropy)
        else:
            writer, _ = reopen(folder, schema, self._clock_and_entropy)
        self._writers[name] = writer
        self._alone.add(name)
        return writer

    def part(self, number: int) -> Part:
        """How far a partition reaches; nothing is opened for append, and nothing changes.

        Raises:
            CorruptLog: it is damaged.
        """
        name = partition_name(number)
        writer = self._usable(name)
        if writer is not None:
            return Part(writer.durable.offset, writer.cursor.offset)
        try:
            chain = Chain(self._folder.folder(name))
        except NotAQueue:
            return Part(0, 0)
        return Part(chain.end.offset, chain.written_offset)

    def _usable(self, name: str) -> LogWriter | None:
        """The one that is open, if nobody else has written since."""
        writer = self._writers.get(name)
        if writer is not None and name not in self._alone:
            if not _is_alone(writer):
                return None
            self._alone.add(name)
        return writer

    def append(self, writer: LogWriter, body: Body) -> None:
        """Write a frame that is encoded already, in a new segment where the old one is full."""
        is_full = writer.segment_bytes + len(body.stored) > self._segment_bytes
        if is_full and writer.segment_has_records:
            writer.roll()
            self._index_and_trim(writer)
        writer.append(body, FrameMarks())

    def _index_and_trim(self, writer: LogWriter) -> None:
        """After a segment was completed: index its frames, and trim as the retention says."""
        chain = Chain(writer.folder)
        index = TimestampIndex(chain, writable=True)
        index.follow(chain)
        index.close()
        now_us = self._clock_and_entropy.clock_us()
        try:
            trim(writer.folder, NOTHING_ASKED, writer.trim, now_us, self._folder)
        except (CorruptLog, UnsupportedVersion, QueueLocked) as error:
            # Of the setting or a consumer's file. The commit goes on all the same.
            _log.warning("%s is not trimmed: %s", writer.folder.path, error)

    def rest(self, writer: LogWriter) -> None:
        """All of it is synced; hold its file open only if there are not too many."""
        if len(self._writers) > _OPEN_MAX:
            writer.rest()

    def close(self) -> None:
        """Close the files, even where one of them fails."""
        writers, self._writers = self._writers, {}
        self._alone.clear()
        for writer in writers.values():
            with suppress(CecError):  # what counts was synced
                writer.close()


def _is_alone(writer: LogWriter) -> bool:
    """Whether the queue is as this writer left it."""
    folder, manifest = writer.folder, writer.manifest
    if newest_epoch(folder) is None or newest_claim(folder.names()) != manifest.epoch:
        return False
    segment = segment_name(manifest.newest_segment)
    return read_manifest(folder) == manifest and folder.size(segment) == writer.segment_bytes
