"""Making a queue in a folder where nothing else is."""

from __future__ import annotations

from cec_store.errors import CorruptLog, NotAQueue
from cec_store.format.frame import FRAME_MAGIC_BYTES, FrameType
from cec_store.format.manifest import Manifest
from cec_store.format.retention import FOREVER, KeptRetention, Retention
from cec_store.format.schema import RecordSchema
from cec_store.log.segment import SegmentReader
from cec_store.log.tail import read_tail
from cec_store.log.writer import ClockAndEntropy, Cursor, LogWriter, Predecessor
from cec_store.storage.folder import Folder
from cec_store.storage.names import (
    LEASES_FOLDER,
    RETENTION,
    WRITER_LOCK,
    claimed_epoch_of,
    durable_epoch_of,
    is_probe,
    segment_id_of,
    segment_name,
    temporary_name,
)
from cec_store.storage.publishing import publish_file


def create(
    folder: Folder,
    schema: RecordSchema,
    clock_and_entropy: ClockAndEntropy,
    retention: Retention = FOREVER,
) -> LogWriter:
    """Make a queue in an empty folder.

    Raises:
        CorruptLog: there are segments but no manifest.
        NotAQueue: other files are there.
    """
    for name in _leftovers(folder):
        folder.unlink(name)
    manifest = Manifest(0, clock_and_entropy.entropy(16), 0, 0)
    writer = LogWriter(folder, manifest, schema, Cursor(), clock_and_entropy)
    writer.begin_segment(Predecessor(), 0)
    with writer.closed_on_failure():
        if retention != FOREVER:
            setting = KeptRetention(manifest.log_id, retention, clock_and_entropy.clock_us())
            publish_file(folder, RETENTION, setting.encode())
        writer.publish_segment()
    return writer


def check_free(folder: Folder) -> None:
    """Check that a queue may be made here, before anything is changed.

    Raises:
        CorruptLog: there are segments but no manifest.
        NotAQueue: other files are there.
    """
    if folder.exists():
        _leftovers(folder)


def _leftovers(folder: Folder) -> list[str]:
    """Return the names that a crash in :func:`create` can leave; raises where others are there."""
    names = folder.names()
    settings = {RETENTION, temporary_name(RETENTION)}
    claims = [name for name in names if claimed_epoch_of(name) is not None or name in settings]
    own = {WRITER_LOCK, LEASES_FOLDER, *claims, *filter(is_probe, names)}
    noted = [name for name in names if durable_epoch_of(name) is not None]
    if noted:
        raise CorruptLog(f"{folder.path}/{noted[-1]}", 0, "a queue without a manifest")
    leftovers = [name for name in names if name not in own and not name.startswith("manifest-")]
    foreign = [name for name in leftovers if segment_id_of(name) is None]
    if foreign:
        raise NotAQueue(f"{folder.path}: no queue, and not empty either: {foreign[:3]}")
    for name in reversed(leftovers):
        if segment_id_of(name) != 0 or _holds_records(folder):
            raise CorruptLog(f"{folder.path}/{name}", 0, "segments without a manifest")
    # A writer left claims that opened a queue whose manifest could be read, but was not on disk.
    return [*leftovers, *claims]


def _holds_records(folder: Folder) -> bool:
    try:
        tail = read_tail(SegmentReader(folder, 0))
    except CorruptLog:
        # Either a creation that was never finished, which wrote one frame at most, the schema; or
        # a queue that lost its manifest and was then damaged.
        name = segment_name(0)
        return folder.read(name, 0, folder.size(name)).count(FRAME_MAGIC_BYTES) > 1
    return any(header.type == FrameType.BATCH for _, header in tail.frames)
