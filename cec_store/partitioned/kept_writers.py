"""Writers of a queue's parts that stay open between commits, as long as nobody else writes."""

from __future__ import annotations

import logging
from contextlib import suppress

from cec_store.errors import CecError, CorruptLog, QueueLocked, UnsupportedVersion
from cec_store.format.bodies import Body
from cec_store.format.schema import RecordSchema
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.log.chain import Chain
from cec_store.log.epochs import newest_claim, newest_epoch, read_manifest
from cec_store.log.frames import FrameMarks
from cec_store.log.reopening import create, reopen
from cec_store.log.writer import ClockAndEntropy, LogWriter
from cec_store.queues.trimming import trim
from cec_store.storage.folder import FolderTree
from cec_store.storage.names import segment_name

_log = logging.getLogger(__name__)


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

    def kept(self, name: str) -> LogWriter | None:
        """The one that is open; somebody else may have written since."""
        return self._writers.get(name)

    def writer(self, name: str, schema: RecordSchema) -> LogWriter:
        """The one that is open, unless somebody else has written since; makes what is not there.

        Raises:
            CorruptLog, SchemaMismatch, StorageError: as for opening any queue for append.
        """
        folder = self._folder.folder(name)
        writer = self._writers.get(name)
        if writer is not None:
            if _is_alone(writer):
                return writer
            del self._writers[name]
            writer.close()
        folder.make()
        if newest_epoch(folder) is None:
            writer = create(folder, schema, self._clock_and_entropy)
        else:
            writer, _ = reopen(folder, schema, self._clock_and_entropy)
        self._writers[name] = writer
        return writer

    def append(self, writer: LogWriter, body: Body) -> None:
        """Write a frame that is encoded already, in a new segment where the old one is full."""
        is_full = writer.segment_bytes + len(body.stored) > self._segment_bytes
        if is_full and writer.segment_has_records:
            writer.roll()
            _index_and_trim(writer)
        writer.append(body, FrameMarks())

    def close(self) -> None:
        """Close the files, even where one of them fails."""
        writers, self._writers = self._writers, {}
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


def _index_and_trim(writer: LogWriter) -> None:
    """After a segment was completed: index its frames, and trim what no consumer needs."""
    chain = Chain(writer.folder)
    index = TimestampIndex(chain, writable=True)
    index.follow(chain)
    index.close()
    try:
        trim(writer.folder, None, writer.trim)
    except (CorruptLog, UnsupportedVersion, QueueLocked) as error:
        # Of a consumer's file. The commit goes on all the same.
        _log.warning("%s is not trimmed: %s", writer.folder.path, error)
