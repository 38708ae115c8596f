"""Opening a queue for append after whatever happened to it. docs/format.md §7."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from cec_store.errors import (
    CorruptLog,
    DiskFull,
    Fenced,
    NotAQueue,
    OutOfRange,
    SchemaMismatch,
    StorageError,
)
from cec_store.format.bodies import Body
from cec_store.format.frame import BadHeader, FrameType
from cec_store.format.manifest import Manifest
from cec_store.format.scan import refusal
from cec_store.format.schema import RecordSchema
from cec_store.log.epochs import (
    claim_epoch,
    newest_claim,
    publish_manifest,
    remove_older_manifests,
)
from cec_store.log.frames import FrameMarks
from cec_store.log.known_end import KnownEnd, read_known_end, refuse_unknown_segments
from cec_store.log.notes import Note, remove_older_notes
from cec_store.log.segment import SegmentReader
from cec_store.log.tail import Tail, read_tail
from cec_store.log.writer import ClockAndEntropy, Cursor, LogWriter, Predecessor
from cec_store.storage.folder import Folder
from cec_store.storage.names import (
    segment_id_of,
    segment_name,
    torn_name,
)
from cec_store.storage.publishing import remove, write_file
from cec_store.storage.retrying import retry_when_changed

_TORN_BYTES_MAX = 64 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecoveryReport:
    """Report of an opening for append: what it found and did."""

    carried_frames: int = 0
    """Whole frames that nobody had vouched for, written again into the new segment."""
    torn_bytes: int = 0
    """Bytes of an unfinished write, cut off; a copy is in the ``.torn`` file."""
    torn_reason: str = ""


def reopen(
    folder: Folder, schema: RecordSchema | None, clock_and_entropy: ClockAndEntropy
) -> tuple[LogWriter, RecoveryReport]:
    """Take over the queue: fence its last writer, decide what its tail means, start a new segment.

    Raises:
        CorruptLog: damage where the log was acknowledged; nothing is changed.
        Fenced: another writer has taken over while this one was opening.
        SchemaMismatch: ``schema`` is not the queue's.
    """
    # Damage must be refused before anything is changed on disk, so the tail is read twice: now,
    # and again once the last writer cannot acknowledge any more.
    # The last writer may still be at work in it, so only what stays bad is damage.
    first_tail, stored = retry_when_changed(
        lambda: _tail_and_schema(folder), (CorruptLog, OutOfRange)
    )
    check_schema(folder, schema, stored)
    epoch = claim_epoch(folder)
    with _fenced_if_taken_over(folder, epoch):
        return _take_over(folder, stored, epoch, clock_and_entropy, first_tail)


@contextmanager
def _fenced_if_taken_over(folder: Folder, epoch: int) -> Iterator[None]:
    """Raise :class:`Fenced` for a file that is missing because a successor has trimmed it."""
    try:
        yield
    except (CorruptLog, OutOfRange, NotAQueue, FileNotFoundError) as error:
        if newest_claim(folder.names()) <= epoch:
            raise
        raise Fenced(f"{folder.path}: another writer has taken over meanwhile") from error


def _take_over(
    folder: Folder,
    stored: RecordSchema,
    epoch: int,
    clock_and_entropy: ClockAndEntropy,
    first_tail: Tail,
) -> tuple[LogWriter, RecoveryReport]:
    # Only now does the last writer's manifest say all that it ever acknowledged.
    known = read_known_end(folder)
    manifest = replace(known.manifest, epoch=epoch)
    publish_manifest(folder, manifest)
    remove_older_manifests(folder, epoch)
    note = Note(folder, epoch)
    try:
        tail = _newest_tail(folder, replace(known, manifest=manifest), first_tail)
        cursor = cursor_behind(tail)
        writer = LogWriter(folder, manifest, stored, cursor, clock_and_entropy, note)
        old = tail.reader.header
        _begin_segment(
            writer, Predecessor(old.segment_id, tail.vouched_end, old.salt, tail.running_crc)
        )
    except BaseException:
        with suppress(StorageError):
            note.close()
        raise
    with writer.closed_on_failure():
        carried = _carry_over(writer, tail)
        writer.publish_segment()
        writer.sync()
        remove_older_notes(folder, epoch)
        if tail.torn_bytes:
            _keep_torn(folder, tail)
            _log.warning(
                "%s: an unfinished write of %d bytes at byte %d, which nobody was promised, is cut "
                "off (%s); a copy is in %s", tail.reader.path, tail.torn_bytes, tail.end,
                tail.reason, torn_name(tail.reader.header.segment_id),
            )  # fmt: skip
        if tail.file_bytes > tail.vouched_end:
            folder.truncate(tail.reader.name, tail.vouched_end)
    _log.info("%s: opened for append, epoch %d", folder.path, epoch)
    return writer, RecoveryReport(carried, tail.torn_bytes, tail.reason if tail.torn_bytes else "")


def check_schema(folder: Folder, asked: RecordSchema | None, stored: RecordSchema) -> None:
    """Check that the queue is what the caller expects; what was not given may be anything.

    Raises:
        SchemaMismatch: other columns, or another timestamp column.
    """
    if asked is None:
        return
    if not stored.has_columns_of(asked):
        raise SchemaMismatch(
            f"{folder.path}: the queue's columns are\n{stored.arrow}\nnot\n{asked.arrow}"
        )
    if asked.timestamp_column not in (None, stored.timestamp_column):
        raise SchemaMismatch(
            f"{folder.path}: the queue's timestamp column is {stored.timestamp_column!r}, "
            f"not {asked.timestamp_column!r}"
        )


def _begin_segment(writer: LogWriter, predecessor: Predecessor) -> None:
    """Remove the strays and begin the next segment."""
    _remove_strays(writer.folder, writer.manifest)
    try:
        writer.begin_segment(predecessor, predecessor.segment_id + 1)
    except Fenced:
        # The last writer was in a roll and has made the file just now. Fenced by the claim, it
        # can publish it no more.
        _remove_strays(writer.folder, writer.manifest)
        writer.begin_segment(predecessor, predecessor.segment_id + 1)


def _newest_tail(folder: Folder, known: KnownEnd, before: Tail | None = None) -> Tail:
    """``before``: what was found when it was last looked at."""
    manifest = known.manifest
    present = {segment_id_of(name) for name in folder.names()}
    for segment_id in range(manifest.first_segment, manifest.newest_segment + 1):
        if segment_id not in present:
            path = f"{folder.path}/{segment_name(segment_id)}"
            raise CorruptLog(path, 0, "the segment is missing")
    reader = SegmentReader(folder, manifest.newest_segment)
    if reader.header.log_id != manifest.log_id:
        raise CorruptLog(reader.path, 16, "the segment belongs to another queue")
    proven = None
    if before is not None and before.reader.header == reader.header:
        proven = before.noted
    tail = read_tail(reader, noted=known.noted, proven=proven)
    if not tail.frames or tail.frames[0][1].type != FrameType.SCHEMA:
        # A published segment was durable with its schema.
        raise CorruptLog(reader.path, tail.end, tail.reason or "the segment has no schema")
    return tail


def _tail_and_schema(folder: Folder) -> tuple[Tail, RecordSchema]:
    tail = _newest_tail(folder, read_known_end(folder))
    return tail, schema_of(tail)


def schema_of(tail: Tail) -> RecordSchema:
    byte, header = tail.frames[0]
    try:
        return tail.reader.schema(header)
    except BadHeader as error:
        raise refusal(tail.reader.path, byte, error) from None


def cursor_behind(tail: Tail) -> Cursor:
    """Return the position of the next append, behind the vouched frames."""
    first, noted = tail.frames[0][1], tail.noted
    cursor = Cursor(first.seq, first.first_offset, (first.prev_segment, first.prev_byte))
    if noted is not None:
        cursor = Cursor(noted.seq, noted.offset, (noted.last_segment, noted.last_byte))
    for byte, header in tail.frames:
        if header.type == FrameType.BATCH and byte < tail.vouched_end:
            address = (tail.reader.header.segment_id, byte)
            cursor = Cursor(header.seq + 1, header.end_offset, address)
    return cursor


def _carry_over(writer: LogWriter, tail: Tail) -> int:
    """Write unvouched whole frames again: after a failed sync they may be in memory only."""
    carried = 0
    for byte, header in tail.frames:
        if header.type != FrameType.BATCH or byte < tail.vouched_end:
            continue
        stored = tail.reader.body_at(byte, header).to_pybytes()
        writer.append(Body.of_frame(header, stored), FrameMarks.of_frame(header))
        carried += 1
    return carried


def _keep_torn(folder: Folder, tail: Tail) -> None:
    name = torn_name(tail.reader.header.segment_id)
    if name in folder.names():
        folder.unlink(name)
    size = min(tail.torn_bytes, _TORN_BYTES_MAX)
    # The copy is for people: a full disk must not keep the queue from opening.
    with suppress(DiskFull):
        write_file(folder, name, folder.read(tail.reader.name, tail.end, size))


def _remove_strays(folder: Folder, manifest: Manifest) -> None:
    """Segments that a dead writer had made and not published, or trimmed and not removed.

    Raises:
        CorruptLog: one may hold acknowledged frames; nothing is removed.
    """
    names = folder.names()
    if newest_claim(names) > manifest.epoch:
        raise Fenced(f"{folder.path}: another writer is taking over as well")
    refuse_unknown_segments(folder, manifest, names)
    for name in names:
        segment_id = segment_id_of(name)
        known = range(manifest.first_segment, manifest.newest_segment + 1)
        if segment_id is not None and segment_id not in known:
            remove(folder, name)
    folder.sync_names()
