"""The end of a queue by manifest and notes, before its newest segment is read.

A manifest that does not know of segments which are there is an older copy that was put back.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from cec_store.errors import CorruptLog
from cec_store.format.durable_end import DurableEnd
from cec_store.format.frame import (
    SEGMENT_HEADER_BYTES,
    BadHeader,
    FrameType,
    NewerVersion,
    decode_segment_header,
)
from cec_store.format.manifest import Manifest
from cec_store.format.scan import intact_headers, refusal
from cec_store.log.epochs import read_manifest
from cec_store.log.notes import read_notes
from cec_store.log.segment import SegmentReader
from cec_store.storage.folder import Folder
from cec_store.storage.names import (
    durable_epoch_of,
    durable_name,
    manifest_name,
    segment_id_of,
    segment_name,
)

RESTORE_ADVICE = (
    "restore it from a copy as new as the rest of the queue; to go on without what is lost, move "
    "away the `durable-…` files, and the segments above the manifest's newest"
)
LOST_NOTE_ADVICE = (
    "open the queue for append once: whole frames are kept, and noted anew; or restore the file "
    "from a copy as new as the rest of the queue"
)


@dataclass(frozen=True)
class KnownEnd:
    """Segments that exist, and how far the newest is on disk at least."""

    manifest: Manifest
    noted: DurableEnd | None
    """Last note about the newest segment; ``None`` where there is none."""


def read_known_end(folder: Folder) -> KnownEnd:
    """Look beside a live writer or without one.

    Raises:
        NotAQueue, UnsupportedVersion: as reading the manifest does.
        CorruptLog: the manifest is damaged, or older than segments or notes that are there.
    """
    while True:
        # Before the manifest, which is then at least as new as all that is found here.
        names = folder.names() if folder.exists() else []
        notes = read_notes(folder, names)
        manifest = read_manifest(folder)
        try:
            _refuse_unknown_notes(folder, manifest, notes)
            refuse_unknown_segments(folder, manifest, names)
        except CorruptLog:
            # What was a segment in the making may have been published and written to meanwhile.
            if read_manifest(folder) == manifest:
                raise
        else:
            return KnownEnd(manifest, _newest_of(manifest, notes))


def _refuse_unknown_notes(
    folder: Folder, manifest: Manifest, notes: dict[str, list[DurableEnd]]
) -> None:
    for name, ends in notes.items():
        for end in ends:
            if end.log_id != manifest.log_id:
                raise CorruptLog(f"{folder.path}/{name}", 16, "the file belongs to another queue")
        later = [end for end in ends if end.segment_id > manifest.newest_segment]
        if later or (durable_epoch_of(name) or 0) > manifest.epoch:
            raise _older(folder, manifest, name)


def refuse_unknown_segments(folder: Folder, manifest: Manifest, names: list[str]) -> None:
    """Above the newest segment there may be one that was being born, and nothing else.

    Raises:
        CorruptLog: a segment that the manifest does not know of may hold acknowledged frames.
    """
    for name in names:
        number = segment_id_of(name)
        if number is None or number <= manifest.newest_segment:
            continue
        if number > manifest.newest_segment + 1 or holds_acknowledged(folder, number):
            raise _older(folder, manifest, name)


def refuse_without_note(folder: Folder, manifest: Manifest) -> None:
    """Refuse a newest segment with records about which no file says how far it is on disk.

    A writer makes its file before it appends, and removes those before it afterwards.

    Raises:
        CorruptLog: there is no such file; the last group would be missing in silence.
    """
    own = durable_name(manifest.epoch)
    try:
        folder.size(own)
    except FileNotFoundError:
        if any(durable_epoch_of(name) is not None for name in folder.names()):
            return
        path, what = f"{folder.path}/{own}", "the note of how far the log is on disk is missing"
        raise CorruptLog(path, 0, what, LOST_NOTE_ADVICE) from None


def _older(folder: Folder, manifest: Manifest, name: str) -> CorruptLog:
    path = f"{folder.path}/{manifest_name(manifest.epoch)}"
    what = f"the manifest is older than {name}, which it does not know of"
    return CorruptLog(path, 0, what, RESTORE_ADVICE)


def _newest_of(manifest: Manifest, notes: dict[str, list[DurableEnd]]) -> DurableEnd | None:
    ends = (end for slots in notes.values() for end in slots)
    of_newest = (end for end in ends if end.segment_id == manifest.newest_segment)
    return max(of_newest, key=lambda end: (end.byte, end.epoch), default=None)


def prove_noted(noted: DurableEnd, reader: SegmentReader) -> int:
    """Read the frame that ends where the log was noted to be durable; returns that frame's end.

    So nobody has to read what stands before it to know where the log ends: a log that ends below
    the note is damaged, not torn.

    Raises:
        CorruptLog: it is not there, or not whole.
        UnsupportedVersion: a later format wrote it.
    """
    if noted.salt != reader.header.salt:
        what = "another segment than was noted as durable"
        raise CorruptLog(reader.path, 40, what, RESTORE_ADVICE)
    has_records = noted.last_segment == noted.segment_id
    byte = noted.last_byte if has_records else SEGMENT_HEADER_BYTES
    try:
        header = reader.header_at(byte)
        reader.body_at(byte, header)
        ends_at = (header.seq, header.first_offset)
        if has_records:
            ends_at = (header.seq + 1, header.end_offset)
        frame_type = FrameType.BATCH if has_records else FrameType.SCHEMA
        if header.type != frame_type or ends_at != (noted.seq, noted.offset):
            raise BadHeader(f"not the frame before number {noted.seq}, record {noted.offset}")
        if header.continues:
            raise BadHeader("a step is not finished where the log was noted to end")
        if not byte + header.frame_bytes <= noted.byte <= reader.size():
            raise BadHeader(f"the frame or the file does not end at byte {noted.byte}")
        if header.durable_upto > noted.byte:
            raise BadHeader(f"it vouches for byte {header.durable_upto}")
    except NewerVersion as error:
        raise refusal(reader.path, byte, error) from None
    except BadHeader as error:
        what = f"{error}; the log was on disk up to byte {noted.byte}"
        raise CorruptLog(reader.path, byte, what, RESTORE_ADVICE) from None
    return byte + header.frame_bytes


def holds_acknowledged(folder: Folder, segment_id: int) -> bool:
    """Return whether a header in this segment vouches for more than its first SCHEMA.

    In one that was never published none does, as its first sync is that before it is published.
    """
    name = segment_name(segment_id)
    try:
        data = folder.read(name, 0, folder.size(name))
    except FileNotFoundError:
        return False  # its writer's successor has just removed it
    salt = None
    with suppress(BadHeader):  # else the frames of any segment are taken for its own
        salt = decode_segment_header(data).salt
    published = SEGMENT_HEADER_BYTES
    for _, header in intact_headers(data):
        if salt is not None and header.salt != salt:
            continue
        if header.type == FrameType.SCHEMA:
            published = max(published, header.schema_byte + header.frame_bytes)
        elif header.durable_upto > published:
            return True
    return False
