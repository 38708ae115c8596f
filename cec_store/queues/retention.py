"""The queue's setting of what may be deleted without being asked. docs/format.md §10."""

from __future__ import annotations

import logging
from contextlib import suppress

from cec_store.errors import CorruptLog
from cec_store.format.retention import (
    FOREVER,
    RETENTION_BYTES,
    KeptRetention,
    Retention,
    damaged_retention,
)
from cec_store.log.epochs import read_manifest
from cec_store.queues.consumers import consumers_locked
from cec_store.storage.folder import Folder
from cec_store.storage.names import RETENTION
from cec_store.storage.publishing import publish_file

_log = logging.getLogger(__name__)


def read_retention(folder: Folder) -> Retention:
    """The setting in a folder; a queue without one keeps everything.

    Raises:
        CorruptLog: it is damaged, or another queue's.
        UnsupportedVersion: a later format wrote it.
    """
    path = f"{folder.path}/{RETENTION}"
    try:
        setting = KeptRetention.decode(folder.read(RETENTION, 0, RETENTION_BYTES + 1), path)
    except FileNotFoundError:
        return FOREVER
    if setting.log_id != read_manifest(folder).log_id:
        raise damaged_retention(path, 16, "the retention belongs to another queue")
    return setting.retention


def write_retention(folder: Folder, retention: Retention, now_us: int) -> None:
    """Set it, durably, whatever stood there; trims that come later go by it.

    Raises:
        UnsupportedVersion: a later format wrote the one that is there.
        QueueLocked: a trim hangs.
    """
    with consumers_locked(folder):
        log_id = read_manifest(folder).log_id
        with suppress(CorruptLog):  # setting it again is what mends a damaged one
            read_retention(folder)
        publish_file(folder, RETENTION, KeptRetention(log_id, retention, now_us).encode())


def warn_of_other_retention(path: str, kept: Retention, retention: Retention) -> None:
    """A queue that is there already keeps its own: somebody may have changed it since."""
    if kept != retention:
        _log.warning(
            "%s: its retention is %s, not %s; change it by set_retention or "
            "`cec-store consumers --retention`",
            path, kept, retention,
        )  # fmt: skip
