"""Appends to a queue in a store, one object a group commit. docs/format.md §13."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from cec_store.errors import Fenced, StorageError
from cec_store.format.checksum import crc32c
from cec_store.format.durable_end import DurableEnd
from cec_store.format.frame import SegmentHeader, decode_frame_header
from cec_store.format.manifest import Manifest
from cec_store.format.schema import RecordSchema
from cec_store.log.segment import SegmentWriter
from cec_store.log.writer import ClockAndEntropy, Cursor, LogWriter, Predecessor
from cec_store.storage.names import durable_name, manifest_name, segment_name
from cec_store.storage.stores.store_folder import StoreFolder

_log = logging.getLogger(__name__)
_LOOK_S = 1.0
_ROLL_SEGMENTS = 64
"""Number of segments that count as one that is completed: automatic trims look then."""


class _ObjectSegment(SegmentWriter):
    """A segment in memory, which the sync makes, whole or not at all.

    So its last frame can vouch for itself, and says by this that the segment is complete.
    """

    def __init__(self, folder: StoreFolder, header: SegmentHeader) -> None:
        self._parts: list[bytes] = []
        self._crc_before = 0
        super().__init__(folder, header)

    def _write(self, parts: list[bytes]) -> None:
        self._parts += parts
        self.bytes += sum(map(len, parts))

    def append(self, header: bytes, body: bytes = b"") -> int:
        """Append as :meth:`SegmentWriter.append` does."""
        self._crc_before = self.running_crc
        return super().append(header, body)

    def sync(self) -> None:
        """Make the object; raises as :meth:`StoreFolder.put`, ``FileExistsError`` among others."""
        byte, header = self._last
        last = decode_frame_header(header)._replace(durable_upto=self.bytes).encode()
        self._parts[self._parts.index(header, -2)] = last
        self._last = (byte, last)
        self.running_crc = crc32c(last[-4:], self._crc_before)
        self._file.write(self._parts)
        super().sync()


class ObjectWriter(LogWriter):
    """A :class:`LogWriter` whose segment stands in memory until it is synced, and is complete then.

    Whoever makes the object of the next number is the writer: so this one learns that it has been
    replaced by its own create, and that decides. That it also looks for a successor from time to
    time is for the successor, which would else have to be quicker than a writer that is busy.
    """

    def __init__(
        self,
        folder: StoreFolder,
        manifest: Manifest,
        schema: RecordSchema,
        cursor: Cursor,
        clock_and_entropy: ClockAndEntropy,
        predecessor: Predecessor | None = None,
    ) -> None:
        """Begin behind the ``predecessor``; without one the next segment is the queue's first."""
        super().__init__(folder, manifest, schema, cursor, clock_and_entropy)
        self._objects = folder
        self._last: DurableEnd | None = None
        """The end of the last object that was made here."""
        self._has_failed = False
        self._looked_s = time.monotonic()
        self._begin(predecessor)

    def _new_segment(self, header: SegmentHeader) -> SegmentWriter:
        return _ObjectSegment(self._objects, header)

    def _begin(self, predecessor: Predecessor | None) -> None:
        self._predecessor = predecessor
        segment_id = 0 if predecessor is None else predecessor.segment_id + 1
        self.begin_segment(predecessor or Predecessor(), segment_id)

    def put_segment(self) -> None:
        """Make an object of what was appended, if only to take the number.

        Raises:
            Fenced: another writer has it; nothing was acknowledged here.
            StorageError: it is not there, or nobody can say.
        """
        segment = self._segment
        name = segment_name(segment.header.segment_id)
        self._has_failed = True
        try:
            segment.sync()
        except FileExistsError:
            raise self._fenced(f"{name} exists") from None
        self._has_failed = False
        self.durable = self.cursor
        self._last = self._end_at(segment.bytes)
        number = segment.header.segment_id
        if number - self.manifest.newest_segment >= _ROLL_SEGMENTS:
            self.manifest = replace(self.manifest, newest_segment=number)
        self._begin(Predecessor(number, segment.bytes, segment.header.salt, segment.running_crc))

    def sync(self) -> None:
        """Sync as :meth:`LogWriter.sync` does; without records nothing is made."""
        assert not self.in_step, "a step is vouched for as a whole"
        if self.segment_has_records:
            self._refuse_if_succeeded()
            self.put_segment()

    def roll(self) -> None:
        """Each object is a segment that is complete."""
        self.sync()

    def trim(self, first_segment: int) -> list[int]:
        """Remove the segments below ``first_segment``; returns their numbers.

        Manifests are never replaced, so this writer goes on under the next epoch.
        """
        if first_segment <= self.manifest.first_segment:
            return []
        self.sync()
        before = self.manifest
        newest = self._segment.header.segment_id - 1
        manifest = replace(
            before, epoch=before.epoch + 1, first_segment=first_segment, newest_segment=newest
        )
        self._put(manifest_name(manifest.epoch), manifest.encode())
        self.manifest = manifest
        self._begin(self._predecessor)  # what is appended from here on is of the new epoch
        old = range(before.first_segment, first_segment)
        self._objects.delete([manifest_name(before.epoch), *map(segment_name, old)])
        return list(old)

    def _put(self, name: str, data: bytes) -> None:
        self._has_failed = True
        try:
            self._objects.put(name, [data])
        except FileExistsError:
            raise self._fenced(f"{name} exists") from None
        self._has_failed = False

    def _refuse_if_succeeded(self) -> None:
        if time.monotonic() - self._looked_s >= _LOOK_S:
            self.check()

    def check(self) -> None:
        """Check as :meth:`LogWriter.check` does, by one request."""
        self._looked_s = time.monotonic()
        name = manifest_name(self.manifest.epoch + 1)
        if _is_there(lambda: self._objects.size(name)):
            self._has_failed = True
            raise self._fenced(f"{name} is there")

    def _fenced(self, what: str) -> Fenced:
        return Fenced(f"{self.folder.path}: {what}: another writer has taken over")

    def close(self) -> None:
        """Note where the log ends; what was appended and not synced was never there."""
        last, self._last = self._last, None
        if last is None or self._has_failed:
            return
        try:
            self._objects.put(durable_name(last.epoch), [last.encode()])
        except (FileExistsError, StorageError) as error:
            # All that was acknowledged is there without it.
            _log.warning("%s: its end could not be noted: %s", self.folder.path, error)


def _is_there(look: Callable[[], object]) -> bool:
    try:
        look()
    except FileNotFoundError:
        return False
    return True
