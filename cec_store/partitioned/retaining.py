"""Changing a queue's retention by the path of the queue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from cec_store.format.retention import Retention
from cec_store.ledger.commit_chain import ledger_at
from cec_store.ledger.reference_trims import with_retention
from cec_store.queues.appendable_queue import now_us
from cec_store.queues.retention import write_retention
from cec_store.storage.folder import FolderTree
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import folder_at


def set_retention(
    path: AnyPath | FolderTree,
    retention: Retention | str | timedelta | int,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Change what a queue, of many partitions or of none, deletes by itself.

    It counts from the next segment that its writer completes; the writer may be open meanwhile.
    With a time or a size no consumer is waited for: one that comes too late is refused
    (:class:`OutOfRange`). A segment goes as a whole, and never one that a rebuild needs.

    Raises:
        NotAQueue: there is none.
        ReadOnly: a copy of a queue of local files, in a store.
        ValueError: neither ``"forever"`` nor ``"consumers"``, a time or a size.

    Examples:
        >>> set_retention("queues/trades", "7d")
        >>> str(open_queue("queues/trades").retention)
        '7d'
    """
    folder = folder_at(path, storage_options)
    ledger = ledger_at(folder)
    if ledger is not None:
        with_retention(ledger, ledger.open(), Retention.of(retention), now_us())
        return
    write_retention(folder, Retention.of(retention), now_us())
