"""Files that a queue has, those that it should have, and how much of each belongs to the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cec_store.errors import CecError, CorruptLog, NotAQueue
from cec_store.format.durable_end import DurableEnd
from cec_store.format.frame import SEGMENT_HEADER_BYTES, FrameType
from cec_store.format.manifest import Manifest
from cec_store.inspector.damage.faults import Fault, Note, kind_of, located
from cec_store.inspector.damage.log_segment import LogSegment
from cec_store.inspector.damage.segment_scan import ScannedFrame, SegmentScan
from cec_store.log.epochs import newest_epoch, read_manifest
from cec_store.log.known_end import read_known_end
from cec_store.operators.inputs.input_queues import read_input_queues
from cec_store.queues.consumers import read_acknowledgement
from cec_store.queues.retention import read_retention
from cec_store.storage.folder import Folder
from cec_store.storage.names import (
    INDEX_FOLDER,
    INPUTS,
    RETENTION,
    WRITER_LOCK,
    acknowledgement_name,
    consumer_of,
    durable_epoch_of,
    durable_name,
    is_consumer_lock,
    is_of_consumer_takeover,
    manifest_epoch_of,
    manifest_name,
    segment_id_of,
    segment_name,
)

_SETTINGS: tuple[tuple[str, str, Callable[[Folder], object]], ...] = (
    (RETENTION, "retention-damaged", read_retention),
    (INPUTS, "inputs-damaged", read_input_queues),
)


def _is_known(name: str) -> bool:
    known = name in (WRITER_LOCK, INDEX_FOLDER, INPUTS, RETENTION) or is_consumer_lock(name)
    return known or consumer_of(name) is not None or is_of_consumer_takeover(name)


def is_trimmed(folder: Folder, segment_id: int) -> bool:
    """Return True if a writer has trimmed this segment of a queue by now."""
    try:
        return segment_id < read_manifest(folder).first_segment
    except CecError:
        return False


class QueueFiles:
    """A queue's files at one moment."""

    def __init__(self, folder: Folder) -> None:
        """Raises :class:`NotAQueue` where there is neither a manifest nor a segment."""
        self.folder = folder
        self.faults: list[Fault] = []
        self.notes: list[Note] = []
        self._names = folder.names() if folder.exists() else []
        self._present = sorted(n for n in map(segment_id_of, self._names) if n is not None)
        self.manifest = self._read_manifest()
        if self.manifest is not None:
            first, newest = self.manifest.first_segment, self.manifest.newest_segment
        else:
            first, newest = self._present[0], self._present[-1]
        self.first_segment, self.newest_segment = first, newest
        self._noted = self._read_noted()
        self._newest_claimed = self._newest_whole = 0
        """Bytes of the newest segment that its headers vouch for, and up to its last record."""
        self._look_at_names()

    def _read_manifest(self) -> Manifest | None:
        try:
            return read_manifest(self.folder)
        except NotAQueue as error:
            if not self._present:
                raise
            self._fault("manifest-missing", manifest_name(0), f"no manifest: {error}")
        except CecError as error:
            kind = "manifest-damaged" if isinstance(error, CorruptLog) else kind_of(error)
            if not self._present:
                raise
            name = manifest_name(newest_epoch(self.folder) or 0)
            self._fault(kind, name, located(error, name)[2])
        return None

    def _read_noted(self) -> DurableEnd | None:
        """Return the writer's note on the newest segment, and add a fault if it cannot be read.

        Return ``None`` where there is no manifest, or the note is not on the newest segment.
        """
        if self.manifest is None:
            return None
        try:
            known = read_known_end(self.folder)
            return known.noted if known.manifest.newest_segment == self.newest_segment else None
        except CecError as error:
            name = manifest_name(self.manifest.epoch)
            kind = "manifest-old" if isinstance(error, CorruptLog) else kind_of(error)
            path, byte, what = located(error, f"{self.folder.path}/{name}")
            self.faults.append(Fault(kind, path, byte, what, True))
        return None

    def _fault(self, kind: str, name: str, what: str) -> None:
        self.faults.append(Fault(kind, f"{self.folder.path}/{name}", 0, what, True))

    def _look_at_names(self) -> None:
        is_old = any(fault.kind == "manifest-old" for fault in self.faults)
        for name in self._names:
            number = segment_id_of(name)
            epoch = manifest_epoch_of(name)
            noted = durable_epoch_of(name)
            what = ""
            if number is not None and number > self.newest_segment:
                what = "a segment that was being born; the next writer removes it"
                if is_old:
                    what = "a segment that the manifest does not know of; nobody removes it"
            elif number is not None and number < self.first_segment:
                what = "a segment that is trimmed but not removed yet"
            elif epoch is not None and self.manifest and epoch < self.manifest.epoch:
                what = "the manifest of an earlier writer; the next one removes it"
            elif noted is not None and self.manifest and noted < self.manifest.epoch:
                what = "the note of an earlier writer; the next one removes it"
            elif name.endswith(".torn"):
                what = "a copy of an unfinished write that was cut off after a crash"
            elif name.endswith(".tmp"):
                what = "a file that was never finished"
            elif number is None and epoch is None and noted is None and not _is_known(name):
                what = "not a file of this store"
            if what:
                self.notes.append(Note(f"{self.folder.path}/{name}", 0, what))

    def consumer_faults(self) -> Iterator[Fault]:
        """Yield a fault for each unreadable acknowledgement, retention or file of inputs."""
        if self.manifest is None:
            return
        for name, kind, read in _SETTINGS:
            path = f"{self.folder.path}/{name}"
            try:
                read(self.folder)
            except CorruptLog as error:
                yield Fault(kind, path, error.byte, error.reason, True)
            except CecError as error:
                yield Fault(kind_of(error), path, 0, str(error), True)
        for consumer in filter(None, map(consumer_of, self._names)):
            path = f"{self.folder.path}/{acknowledgement_name(consumer)}"
            try:
                read_acknowledgement(self.folder, consumer, self.manifest.log_id)
            except FileNotFoundError:
                continue  # dropped this very moment
            except CorruptLog as error:
                yield Fault("consumer-damaged", path, error.byte, error.reason, True)
            except CecError as error:
                yield Fault(kind_of(error), path, 0, str(error), True)

    def segments(self) -> Iterator[LogSegment | Fault]:
        """The segments in order; a fault in the place of one that is missing.

        What a writer beside this inspection trims meanwhile is passed over.
        """
        scan = SegmentScan.if_there(self.folder, self.first_segment)
        for segment_id in range(self.first_segment, self.newest_segment + 1):
            is_newest = segment_id == self.newest_segment
            successor = None if is_newest else SegmentScan.if_there(self.folder, segment_id + 1)
            if scan is not None:
                yield self._segment(scan, successor, is_newest)
            elif not self.is_trimmed(segment_id):
                path = f"{self.folder.path}/{segment_name(segment_id)}"
                yield Fault("segment-missing", path, 0, "the segment is missing", True)
            scan = successor

    def is_trimmed(self, segment_id: int) -> bool:
        """Return True if a writer has trimmed this segment by now."""
        return is_trimmed(self.folder, segment_id)

    def _segment(
        self, scan: SegmentScan, successor: SegmentScan | None, is_newest: bool
    ) -> LogSegment:
        if successor is not None and successor.header is not None:
            header = successor.header
            if header.prev_segment == scan.segment_id and header.segment_id == scan.segment_id + 1:
                return LogSegment(scan, header.prev_bytes, header.prev_bytes, True, is_newest)
        acknowledged, whole = self._claimed(scan)
        is_sealed = acknowledged == scan.bytes
        if is_newest:
            # What a header claims beyond the file is a fault of its own.
            self._newest_claimed = min(acknowledged, scan.bytes)
            self._newest_whole = whole
        if not is_newest:
            acknowledged = scan.bytes  # a segment is only followed by another once it is on disk
        stop, noted = scan.bytes, self._noted
        if is_newest and noted is not None and noted.salt == scan.salt:
            acknowledged, stop = max(acknowledged, noted.byte), max(stop, noted.byte)
        return LogSegment(scan, stop, acknowledged, is_sealed, is_newest)

    @staticmethod
    def _claimed(scan: SegmentScan) -> tuple[int, int]:
        """Return how far a segment's own headers say that it is on disk, and where its records end.

        The end is that of the last step that is whole; 0 without any.
        """
        claimed = whole = 0
        for frame in scan.frames(scan.bytes):
            if not isinstance(frame, ScannedFrame):
                continue
            if frame.header.type == FrameType.BATCH and not frame.header.continues:
                whole = frame.end_byte
            claimed = max(claimed, frame.header.durable_upto)
            if frame.header.type == FrameType.SCHEMA and frame.byte == SEGMENT_HEADER_BYTES:
                claimed = max(claimed, frame.end_byte)  # published only when it was on disk
        return claimed, whole

    def beyond_note(self) -> Fault | Note | None:
        """Return what is to be said of a note that says less than the newest segment has.

        Call it last. A fault is what no writer leaves: what stands behind the last header that
        vouches may then have been acknowledged.
        """
        if self.manifest is None or not self._newest_whole:
            return None
        try:
            known = read_known_end(self.folder)  # a writer beside this has noted more since
        except CecError:
            return None  # told already
        noted, claimed = known.noted, self._newest_claimed
        if known.manifest.newest_segment != self.newest_segment:
            return None
        if noted is not None and noted.byte >= claimed:
            return self._unnoted(noted.byte)
        path = f"{self.folder.path}/{durable_name(known.manifest.epoch)}"
        what = "it is missing, or says nothing of the newest segment"
        if noted is not None:
            what = f"it says that {noted.byte} bytes are on disk, and a later header that {claimed}"
        return Fault("note-old", path, 0, what, True)

    def _unnoted(self, noted_bytes: int) -> Note | None:
        if noted_bytes >= self._newest_whole:
            return None
        what = (
            f"records up to byte {self._newest_whole} stand behind what is noted as on disk, and "
            "readers are not shown them: a writer ended before it had acknowledged them, or the "
            "note is an older copy; the next opening for append keeps them"
        )
        path = f"{self.folder.path}/{segment_name(self.newest_segment)}"
        return Note(path, noted_bytes, what)

    def header_faults(self, segment: LogSegment, previous: LogSegment | None) -> Iterator[Fault]:
        """Yield the faults in a segment's header, alone and compared with the segment before."""
        scan, header = segment.scan, segment.scan.header
        fault = segment.header_fault()
        if fault is not None:
            yield fault
        if header is None:
            return
        if self.manifest is not None:
            if header.log_id != self.manifest.log_id:
                yield Fault("segment-foreign", scan.path, 16, "it belongs to another queue", True)
            if segment.is_newest and self._noted is not None and self._noted.salt != header.salt:
                what = "it is not the segment of which the durable end was noted"
                yield Fault("segment-foreign", scan.path, 40, what, True)
            if header.epoch > self.manifest.epoch:
                what = f"epoch {header.epoch} is above the manifest's, {self.manifest.epoch}"
                yield Fault("epoch", scan.path, 12, what, True)
        before = previous.scan if previous else None
        if before is None or before.segment_id + 1 != scan.segment_id:
            return
        if before.header is not None and header.epoch < before.header.epoch:
            what = f"epoch {header.epoch} after epoch {before.header.epoch}"
            yield Fault("epoch", scan.path, 12, what, True)
        if header.prev_segment != before.segment_id:
            what = f"it continues segment {header.prev_segment}, not {before.segment_id}"
            yield Fault("chain", scan.path, 56, what, True)
        elif before.salt is not None and header.prev_salt != before.salt:
            what = f"segment {before.segment_id} is not the one that it continues (salt)"
            yield Fault("chain", scan.path, 72, what, True)
