"""Opening a queue in a store for append, or making one there. docs/format.md §13."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from cec_store.errors import CorruptLog, Fenced, QueueLocked, ReadOnly, StorageError
from cec_store.format.frame import FrameType
from cec_store.format.manifest import BY_OBJECT, EPOCH_MAX, Manifest
from cec_store.format.retention import FOREVER, KeptRetention, Retention
from cec_store.format.schema import RecordSchema
from cec_store.log.by_object.writer import ObjectWriter
from cec_store.log.creating import check_free
from cec_store.log.epochs import newest_claim, newest_epoch
from cec_store.log.known_end import KnownEnd, has_segment, read_known_end
from cec_store.log.reopening import RecoveryReport, check_schema, cursor_behind, schema_of
from cec_store.log.segment import SegmentReader
from cec_store.log.tail import Tail, read_tail
from cec_store.log.writer import ClockAndEntropy, Cursor, Predecessor
from cec_store.storage.names import (
    RETENTION,
    durable_epoch_of,
    manifest_epoch_of,
    manifest_name,
    segment_id_of,
    segment_name,
)
from cec_store.storage.stores.store_folder import StoreFolder

_FENCE_S = 30.0


def open_in_store(
    folder: StoreFolder,
    schema: RecordSchema | None,
    clock_and_entropy: ClockAndEntropy,
    retention: Retention,
    *,
    must_be_new: bool,
) -> tuple[ObjectWriter, RecoveryReport]:
    """Take over the queue, or make it where there is none; ``schema`` is needed for that.

    There are no locks: whoever opens last is the writer, and the one before is fenced.

    Raises:
        FileExistsError: it must be new, and is not.
        NotAQueue: other files are there.
        CorruptLog: damage where the log was acknowledged; nothing is changed.
        Fenced: another writer has taken over while this one was opening.
        QueueLocked: the last writer cannot be stopped.
        SchemaMismatch: ``schema`` is not the queue's.
        ReadOnly: a copy of a queue of local files.
        NoExclusiveCreate: the store lets two writers make the same object.
    """
    if newest_epoch(folder) is None and schema is not None:
        _check_free(folder)
        folder.prove_exclusive_creates()
        writer = _made(folder, schema, clock_and_entropy, retention)
        if writer is not None:
            return writer, RecoveryReport()
        if must_be_new:
            raise FileExistsError(f"{folder.path}: somebody else has made it meanwhile")
    return _reopened(folder, schema, clock_and_entropy), RecoveryReport()


# -- making -----------------------------------------------------------------------------------


def _check_free(folder: StoreFolder) -> None:
    try:
        check_free(folder)
    except CorruptLog:
        if newest_epoch(folder) is None:
            raise
        # Segments that had no manifest a moment ago: somebody is making it.


def _made(
    folder: StoreFolder,
    schema: RecordSchema,
    clock_and_entropy: ClockAndEntropy,
    retention: Retention,
) -> ObjectWriter | None:
    """The writer of a new queue; ``None`` where somebody else makes it, or began to."""
    manifest = Manifest(0, clock_and_entropy.entropy(16), 0, 0, BY_OBJECT)
    writer = ObjectWriter(folder, manifest, schema, Cursor(), clock_and_entropy)
    try:
        writer.put_segment()
    except Fenced:
        # Whose segment 0 is there may have died before the manifest: then this is it.
        log_id = SegmentReader(folder, 0).header.log_id
        with suppress(FileExistsError):
            folder.put(manifest_name(0), [replace(manifest, log_id=log_id).encode()])
        return None
    if retention != FOREVER:
        setting = KeptRetention(manifest.log_id, retention, clock_and_entropy.clock_us())
        with suppress(FileExistsError):
            folder.put(RETENTION, [setting.encode()])
    try:
        folder.put(manifest_name(0), [manifest.encode()])
    except FileExistsError:
        return None
    return writer


# -- taking over ------------------------------------------------------------------------------


def _reopened(
    folder: StoreFolder, schema: RecordSchema | None, clock_and_entropy: ClockAndEntropy
) -> ObjectWriter:
    known, tail = _newest(folder)
    check_schema(folder, schema, schema_of(tail))
    folder.prove_exclusive_creates()
    manifest = _claimed(folder, known)
    until_s = time.monotonic() + _FENCE_S
    while True:
        old, cursor = tail.reader.header, cursor_behind(tail)
        if max(known.manifest.epoch, old.epoch) > manifest.epoch:
            raise Fenced(f"{folder.path}: another writer has taken over meanwhile")
        predecessor = Predecessor(old.segment_id, tail.end, old.salt, tail.running_crc)
        writer = ObjectWriter(
            folder, manifest, schema_of(tail), cursor, clock_and_entropy, predecessor
        )
        try:
            writer.put_segment()  # without records: it takes the number
            break
        except Fenced:  # the last writer was quicker, and does not know yet
            known, tail = _newest(folder)
        if time.monotonic() > until_s:
            what = f"its writer has gone on for {_FENCE_S:.0f} s beside an opening; end it"
            raise QueueLocked(f"{folder.path}: {what}")
    names = folder.names()
    epochs = {name: manifest_epoch_of(name) for name in names}
    epochs |= {name: epoch for name in names if (epoch := durable_epoch_of(name)) is not None}
    older = [name for name, epoch in epochs.items() if epoch is not None and epoch < manifest.epoch]
    folder.delete(older)
    return writer


def _newest(folder: StoreFolder) -> tuple[KnownEnd, Tail]:
    """The newest segment, which is complete, as all of them are.

    By its name: where a listing lags it would else be taken for one before it.
    """
    known = read_known_end(folder)
    manifest = known.manifest
    if not manifest.by_object:
        raise ReadOnly(
            f"{folder.path}: a copy of a queue of local files: append to it there, or make a new "
            "queue in the store"
        )
    present, newest = {segment_id_of(name) for name in folder.names()}, manifest.newest_segment
    while has_segment(folder, newest + 1):
        newest += 1
    if newest > manifest.newest_segment:
        manifest = replace(manifest, newest_segment=newest)
        known = KnownEnd(manifest, None)
    for segment_id in range(manifest.first_segment, newest + 1):
        if segment_id not in present and not has_segment(folder, segment_id):
            path = f"{folder.path}/{segment_name(segment_id)}"
            if newest_claim(folder.names()) > manifest.epoch:  # which may have trimmed it
                raise Fenced(f"{folder.path}: another writer has taken over meanwhile")
            raise CorruptLog(path, 0, "the segment is missing")
    reader = SegmentReader(folder, manifest.newest_segment)
    if reader.header.log_id != manifest.log_id:
        raise CorruptLog(reader.path, 16, "the segment belongs to another queue")
    tail = read_tail(reader, reader.size(), noted=known.noted)
    is_complete = known.noted is not None or tail.frames[-1][1].durable_upto == tail.end
    if not is_complete or tail.frames[0][1].type != FrameType.SCHEMA:
        raise CorruptLog(reader.path, tail.end, "the segment is not complete")
    return known, tail


def _claimed(folder: StoreFolder, known: KnownEnd) -> Manifest:
    """A manifest of a new epoch, which nobody else has."""
    epoch = known.manifest.epoch
    while True:
        epoch = max(epoch, newest_claim(folder.names())) + 1
        if epoch > EPOCH_MAX:
            raise StorageError(f"{folder.path}: opened for append 2^32 times, and never again")
        manifest = replace(known.manifest, epoch=epoch)
        with suppress(FileExistsError):
            folder.put(manifest_name(epoch), [manifest.encode()])
            return manifest
