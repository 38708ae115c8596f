"""The segments of a queue in order, each with the bytes that count: how everyone reads it.

Only vouched frames are shown (docs/format.md §7), so a reader in another process never sees a
record that a power cut could take back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from cec_store.errors import CorruptLog, OutOfRange, QueueReplaced
from cec_store.format.manifest import Manifest
from cec_store.log.epochs import read_manifest
from cec_store.log.frames import LogEnd
from cec_store.log.known_end import (
    KnownEnd,
    read_known_end,
    refuse_without_note,
)
from cec_store.log.positions import replaced, replaced_where_gone
from cec_store.log.reader import LogReader
from cec_store.log.segment import SegmentReader, SegmentReaders
from cec_store.log.visible_end import VisibleEnd
from cec_store.storage.folder import Folder
from cec_store.storage.names import segment_name


class QueueChain(LogReader):
    """The log of a queue of one writer, in files or in commits.

    Cheap to make; not for use by two threads at once.
    """

    @property
    def log_id(self) -> bytes:
        """Return the queue's id as 16 bytes."""
        return bytes.fromhex(self.queue_id)

    @abstractmethod
    def first_seq(self) -> int:
        """Return the number of the oldest frame; of an empty queue that of the next one."""


class Chain(QueueChain):
    """A reader of the whole queue, of segment files. Not for use by two threads at once."""

    def __init__(self, folder: Folder) -> None:
        """Raises :class:`NotAQueue`, :class:`CorruptLog` or :class:`UnsupportedVersion`."""
        self.folder = folder
        self.manifest: Manifest
        self._readers = SegmentReaders()
        self._ends: dict[int, int] = {}
        self._newest = -1
        self.refresh()

    # -- where the log ends -------------------------------------------------------------------

    @property
    def end(self) -> LogEnd:
        """End of the readable log at the last look."""
        return self._visible_end.end

    @property
    def queue_id(self) -> str:
        return self.manifest.log_id.hex()

    @property
    def written_offset(self) -> int:
        """Offset behind the last whole step at the last look; it may not be on disk yet."""
        return self._visible_end.written_offset

    def refresh(self) -> LogEnd:
        """Look again how far the log reaches.

        Raises:
            CorruptLog: damage where the log was acknowledged.
            QueueReplaced: another queue stands here now, or an older copy, or none.
        """
        while True:
            known = self._known_end()
            newest = known.manifest.newest_segment
            try:
                self._refuse_older(known)
                self.manifest = known.manifest
                if newest != self._newest:
                    reader, schema_frame = self.reader(newest), self._schema_frame(newest)
                    self._visible_end = VisibleEnd(reader, schema_frame, known.noted)
                    self._newest = newest
                end = self._visible_end.advance(known.noted)
                if known.noted is None and self._visible_end.has_records:
                    refuse_without_note(self.folder, known.manifest)
            except QueueReplaced:
                raise
            except (CorruptLog, OutOfRange) as error:
                if read_manifest(self.folder) != known.manifest:
                    continue  # segments have been completed since, cut or trimmed
                if isinstance(error, OutOfRange):
                    path = f"{self.folder.path}/{segment_name(newest)}"
                    raise CorruptLog(path, 0, "the segment is missing") from None
                raise
            # Recovery cuts a segment off behind what is vouched for, once it has a successor.
            if read_manifest(self.folder).newest_segment == newest:
                return end

    def _known_end(self) -> KnownEnd:
        if self._newest < 0:
            return read_known_end(self.folder)
        with replaced_where_gone(self.folder.path):
            known = read_known_end(self.folder)
        if known.manifest.log_id != self.manifest.log_id:
            raise QueueReplaced(
                f"{self.folder.path}: another queue stands here since it was opened; open it "
                "again, and read it from its beginning"
            )
        return known

    def _refuse_older(self, known: KnownEnd) -> None:
        """Refuse a queue that has not all of the log that was seen, and as it was seen.

        Raises:
            QueueReplaced: an older copy was put in its place, whether it has gone on or not.
        """
        if self._newest < 0:
            return
        manifest, noted, seen = known.manifest, known.noted, self.end.address.byte
        salt = self._readers[self._newest].header.salt
        if manifest.newest_segment == self._newest:
            # After a power cut the note may be older, and the file still has what was seen.
            is_older = noted is not None and (
                noted.salt != salt or (noted.byte < seen > self._readers[self._newest].size())
            )
        elif manifest.newest_segment > self._newest:
            successor = self._newest + 1
            if successor < manifest.first_segment:
                return  # all that was seen is trimmed
            header = self.reader(successor).header
            is_older = header.prev_salt != salt or header.prev_bytes < seen
        else:
            is_older = True
        if is_older:
            raise replaced(self.folder.path)

    def first_seq(self) -> int:
        """The number of the oldest frame; of an empty queue that of the next one."""
        first = next(self.frames(), None)
        return self.end.seq if first is None else first.header.seq

    # -- segments -----------------------------------------------------------------------------

    def reader(self, segment_id: int) -> SegmentReader:
        """Raises :class:`OutOfRange` for a trimmed segment, :class:`CorruptLog` for a lost one."""
        if segment_id not in self._readers:
            try:
                reader = SegmentReader(self.folder, segment_id)
            except CorruptLog:
                oldest = read_manifest(self.folder).first_segment
                if segment_id < oldest:
                    self.manifest = replace(self.manifest, first_segment=oldest)
                    raise OutOfRange(
                        f"{self.folder.path}: segment {segment_id} is trimmed, and with it what a "
                        f"reader still wants; the oldest is segment {oldest}"
                    ) from None
                raise
            if reader.header.log_id != self.manifest.log_id:
                raise CorruptLog(reader.path, 16, "the segment belongs to another queue")
            self._readers[segment_id] = reader
        return self._readers.switch_to(segment_id)

    def segment_end(self, segment_id: int) -> int:
        """Return how many bytes of the segment belong to the log, as far as it is vouched for."""
        if segment_id == self._newest:
            return self.end.address.byte if self.end.address.segment_id == segment_id else 0
        if segment_id not in self._ends:
            reader, successor = self.reader(segment_id), self.reader(segment_id + 1).header
            if reader.header.salt != successor.prev_salt:
                raise CorruptLog(reader.path, 40, "its salt is not the one its successor continues")
            self._ends[segment_id] = successor.prev_bytes
        return self._ends[segment_id]

    @property
    def segments(self) -> range:
        """Numbers of the segments that exist."""
        return range(self.manifest.first_segment, self._newest + 1)

    def _segments_from(self, segment_id: int) -> Iterable[int]:
        # Not out of `segments`: one that has been trimmed meanwhile is refused by its reader.
        return range(segment_id, self._newest + 1)
