"""Appends to a queue's newest segment, syncs, vouches and rolls, on the thread of the caller.

:mod:`cec_store.log.pipeline` runs it in the background; :mod:`cec_store.log.reopening` makes one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from cec_store.errors import Fenced, QueueReplaced, StorageError
from cec_store.format.bodies import Body
from cec_store.format.checksum import crc32c
from cec_store.format.durable_end import DurableEnd
from cec_store.format.frame import (
    NONE,
    RECORD_STREAM,
    FrameHeader,
    FrameType,
    SegmentHeader,
)
from cec_store.format.manifest import MANIFEST_BYTES, Manifest
from cec_store.format.schema import RecordSchema
from cec_store.log.epochs import has_successor, newest_claim, publish_manifest
from cec_store.log.frames import FrameMarks
from cec_store.log.notes import Note
from cec_store.log.positions import replaced, replaced_where_gone
from cec_store.log.segment import SegmentWriter
from cec_store.storage.folder import Folder
from cec_store.storage.names import manifest_name, segment_name
from cec_store.storage.publishing import remove


@dataclass(frozen=True)
class Predecessor:
    """The bytes that a new segment builds on: the ``prev_…`` fields of its header."""

    segment_id: int = NONE
    bytes: int = 0
    salt: int = 0
    running_crc: int = 0


class Cursor(NamedTuple):
    """The numbers that come next in the stream of records."""

    seq: int = 0
    """Number of the next BATCH frame."""
    offset: int = 0
    """Offset of the next record."""
    previous: tuple[int, int] = (NONE, 0)
    """Segment and byte of the last BATCH frame."""


@dataclass
class ClockAndEntropy:
    """Clock and randomness that a writer takes from outside; tests put in their own."""

    clock_us: Callable[[], int]
    entropy: Callable[[int], bytes] = field(default=secrets.token_bytes)


class GroupWriter(Protocol):
    """Takes frames and makes groups of them durable, on one thread: what a pipeline drives.

    The methods are those of :class:`LogWriter`, and raise the same errors.
    """

    schema: RecordSchema
    cursor: Cursor
    durable: Cursor
    in_step: bool

    @property
    def folder(self) -> Folder: ...

    @property
    def newest_segment(self) -> int: ...

    @property
    def segment_bytes(self) -> int: ...

    @property
    def segment_has_records(self) -> bool: ...

    @property
    def unsynced_bytes(self) -> int: ...

    def append(self, body: Body, marks: FrameMarks) -> None: ...

    def sync(self) -> None: ...

    def roll(self) -> None: ...

    def check(self) -> None: ...

    def close(self) -> None: ...


class LogWriter:
    """The one writer of a queue. Every error leaves it unusable: make a new one by recovery.

    Not for use by two threads at once. Whoever made it owns it, as a rule a
    :class:`cec_store.log.pipeline.Pipeline`, whose own thread then makes every call.
    """

    def __init__(self, folder: Folder, manifest: Manifest, schema: RecordSchema,
                 cursor: Cursor, clock_and_entropy: ClockAndEntropy,
                 note: Note | None = None) -> None:  # fmt: skip
        """``note``: the writer's own; made with the first segment where there is none yet."""
        self.folder = folder
        self.manifest = manifest
        self.schema = schema
        self.cursor = cursor
        self._clock_and_entropy = clock_and_entropy
        self._segment: SegmentWriter
        self._note = note
        self.durable = cursor
        """Everything below is on disk."""
        self.in_step = False
        """The last frame said that its step goes on: the next one has to be of the same step."""

    @property
    def newest_segment(self) -> int:
        """Return the number of the segment that is appended to."""
        return self.manifest.newest_segment

    @property
    def segment_bytes(self) -> int:
        return self._segment.bytes

    @property
    def segment_has_records(self) -> bool:
        return self.cursor.previous[0] == self._segment.header.segment_id

    @property
    def unsynced_bytes(self) -> int:
        return self._segment.bytes - self._segment.synced_bytes

    def begin_segment(self, predecessor: Predecessor, segment_id: int) -> None:
        """Create a segment with the schema as its first frame; not yet durable or published."""
        header = SegmentHeader(
            epoch=self.manifest.epoch,
            log_id=self.manifest.log_id,
            segment_id=segment_id,
            salt=int.from_bytes(self._clock_and_entropy.entropy(8), "little"),
            first_seq=self.cursor.seq,
            prev_segment=predecessor.segment_id,
            prev_bytes=predecessor.bytes,
            prev_salt=predecessor.salt,
            prev_chain=predecessor.running_crc,
            created_us=self._clock_and_entropy.clock_us(),
        )
        try:
            self._segment = SegmentWriter(self.folder, header)
        except FileExistsError:
            raise Fenced(
                f"{self.folder.path}/{segment_name(segment_id)} exists: "
                "another writer has taken over"
            ) from None
        body = self.schema.encode()
        with self.closed_on_failure():
            self._append(FrameType.SCHEMA, body, len(body))

    @contextmanager
    def closed_on_failure(self) -> Iterator[None]:
        """Close the file if the block fails: a writer in the making has no other owner yet."""
        try:
            yield
        except BaseException:
            with suppress(StorageError):
                self.close()
            raise

    def publish_segment(self, predecessor: SegmentWriter | None = None) -> None:
        """Make the newest segment durable and part of the log, and note so durably.

        Raises:
            Fenced, QueueReplaced: as :meth:`sync`; by the ``predecessor``, where this wrote it.
        """
        self._segment.sync()
        self.folder.sync_names()
        self._refuse_if_fenced()
        if predecessor is not None:
            self._take_back_if_replaced(predecessor)
        self.manifest = replace(self.manifest, newest_segment=self._segment.header.segment_id)
        publish_manifest(self.folder, self.manifest)
        # A successor that has not read this manifest must not find a note about the segment.
        self._refuse_if_fenced()
        if self._note is None:
            self._note = Note(self.folder, self.manifest.epoch)
            self.folder.sync_names()
        self._note_durable_end()
        self._note.sync()

    def _take_back_if_replaced(self, predecessor: SegmentWriter) -> None:
        """Remove the new segment again where it was made in the folder of another queue."""
        try:
            self._refuse_if_replaced(predecessor)
        except QueueReplaced:
            if self._segment.is_in_place():
                remove(self.folder, segment_name(self._segment.header.segment_id))
            raise

    def append(self, body: Body, marks: FrameMarks) -> None:
        """Write one BATCH frame under the next number.

        The frames of a step stand in one segment with nothing between them, so after one that
        ``continues`` the next call has to be this one again.
        """
        byte = self._append(
            FrameType.BATCH,
            body.stored,
            body.raw_bytes,
            codec=body.codec,
            flags=marks.flags,
            min_timestamp_us=body.min_timestamp_us,
            max_timestamp_us=body.max_timestamp_us,
            extent_records=marks.extent_records,
            input_upto=marks.input_upto,
            record_count=body.record_count,
            open_windows=marks.open_windows or 0,
        )
        self.cursor = Cursor(
            seq=self.cursor.seq + 1,
            offset=self.cursor.offset + body.record_count,
            previous=(self._segment.header.segment_id, byte),
        )
        self.in_step = marks.continues

    def _append(self, frame_type: FrameType, body: bytes, raw_bytes: int, **more: int) -> int:
        """Write a frame and return its byte. One without records has the number of the next one."""
        at = self.cursor
        header = FrameHeader(
            type=frame_type,
            stream_id=RECORD_STREAM,
            chain_crc=self._segment.running_crc,
            seq=self.cursor.seq,
            first_offset=at.offset,
            prev_segment=at.previous[0],
            prev_byte=at.previous[1],
            durable_upto=self._segment.synced_bytes,
            salt=self._segment.header.salt,
            body_bytes=len(body),
            raw_bytes=raw_bytes,
            body_crc=crc32c(body),
            **more,
        )
        try:
            return self._segment.append(header.encode(), body)
        except QueueReplaced:
            self._refuse_if_fenced()  # a successor cuts off what nobody vouched for
            raise

    def sync(self) -> None:
        """Put everything on disk and vouch for it. Only then may it be acknowledged.

        Not in the middle of a step, of which a reader would then be shown a part.

        Raises:
            Fenced: another writer has taken over; nothing new is acknowledged.
            QueueReplaced: another queue stands here now, or an older copy, or none.
        """
        assert not self.in_step, "a step is vouched for as a whole"
        self._segment.sync()
        # After write and sync: a successor that came after an earlier check might have read the
        # segment before these frames were in it, and they would be acknowledged all the same.
        if has_successor(self.folder, self.manifest.epoch):
            self._refuse_if_fenced()
        self._refuse_if_replaced()
        self._note_durable_end()
        self.durable = self.cursor

    def _note_durable_end(self) -> None:
        """Everything written has been synced, so the note is never ahead of what is on disk."""
        assert self._note is not None, "noted before the segment was published"
        self._note.write(self._end_at(self._segment.synced_bytes))
        if not self._note.is_in_place():  # no reader would ever see it
            self._refuse_if_fenced()
            raise replaced(self.folder.path)

    def _end_at(self, byte: int) -> DurableEnd:
        """Return the note of the log's end, at this byte of the segment."""
        segment, (last_segment, last_byte) = self._segment, self.cursor.previous
        return DurableEnd(
            epoch=self.manifest.epoch, log_id=self.manifest.log_id,
            segment_id=segment.header.segment_id, salt=segment.header.salt, byte=byte,
            seq=self.cursor.seq, offset=self.cursor.offset, last_segment=last_segment,
            last_byte=last_byte, running_crc=segment.running_crc,
        )  # fmt: skip

    def check(self) -> None:
        """Look whether the queue is still this writer's.

        Raises:
            Fenced: another writer has taken over.
            QueueReplaced: another queue stands here now, or an older copy, or none.
        """
        self._refuse_if_fenced()
        self._refuse_if_replaced()

    def _refuse_if_fenced(self) -> None:
        """Raise :class:`Fenced` if any claim is of a later epoch.

        All names are looked at, since a manifest of an older epoch may just have been published.
        """
        epoch = newest_claim(self.folder.names()) if self.folder.exists() else -1
        if epoch > self.manifest.epoch:
            raise Fenced(
                f"{self.folder.path}: a writer of epoch {epoch} has taken over from epoch "
                f"{self.manifest.epoch}"
            )

    def _refuse_if_replaced(self, segment: SegmentWriter | None = None) -> None:
        """Read by their names the manifest and the end of the newest segment, or of ``segment``.

        What this writer has open goes on to exist after the queue was removed or replaced, and
        what is written to it then is nowhere.
        """
        name, manifest = manifest_name(self.manifest.epoch), self.manifest.encode()
        segment = segment or self._segment
        with suppress(FileNotFoundError):
            is_here = self.folder.read(name, 0, MANIFEST_BYTES + 1) == manifest
            if is_here and segment.is_in_place():
                return
        # The manifest is gone as well once two writers have taken over, one after the other.
        self._refuse_if_fenced()
        raise replaced(self.folder.path)

    def roll(self) -> None:
        """Complete the segment and begin the next; raises as :meth:`sync`."""
        self.sync()
        old = self._segment
        old.close()
        predecessor = Predecessor(
            old.header.segment_id, old.bytes, old.header.salt, old.running_crc
        )
        self._refuse_if_replaced(old)
        with replaced_where_gone(self.folder.path, self._refuse_if_fenced):
            self.begin_segment(predecessor, old.header.segment_id + 1)
            self.publish_segment(old)

    def trim(self, first_segment: int) -> list[int]:
        """Remove the segments below ``first_segment``; returns their numbers.

        Raises as :meth:`sync`.
        """
        if first_segment <= self.manifest.first_segment:
            return []
        assert self._note is not None, "trimmed before a segment was published"
        old = range(self.manifest.first_segment, first_segment)
        # If a crash took the newest note a reader's log would end earlier, perhaps at a frame whose
        # extent reaches into a segment that is removed here.
        self._note.sync()
        self._refuse_if_fenced()
        self._refuse_if_replaced()
        with replaced_where_gone(self.folder.path, self._refuse_if_fenced):
            self.manifest = replace(self.manifest, first_segment=first_segment)
            publish_manifest(self.folder, self.manifest)
            self._refuse_if_fenced()
            for segment_id in old:
                remove(self.folder, segment_name(segment_id))
            self.folder.sync_names()
        return list(old)

    def close(self) -> None:
        """Close the files, the log's synced or not."""
        try:
            if self._note is not None:
                note, self._note = self._note, None
                note.close()
        finally:
            self._segment.close()
