"""Checks of the place for a queue of many partitions, and the columns that one has."""

from __future__ import annotations

from cec_store.errors import CorruptLog, NotAQueue
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.log.epochs import newest_epoch
from cec_store.storage.folder import Folder
from cec_store.storage.names import (
    CONSUMERS_FOLDER,
    DATA_FOLDER,
    INDEX_FOLDER,
    LOG_FOLDER,
    commit_object_name,
    is_probe,
)
from cec_store.storage.stores.store import Store

_KNOWN = frozenset({LOG_FOLDER, DATA_FOLDER, CONSUMERS_FOLDER, INDEX_FOLDER})
"""Names that may be in a queue's folder before its first commit; below data and consumers there
are only folders then."""
_MADE_LATER = (DATA_FOLDER, CONSUMERS_FOLDER)
"""Folders in which objects are only made once the queue has its first commit."""


def refuse_what_is_there(folder: Folder, store: Store) -> None:
    """See that a queue may be made in a folder: it is empty, or making one was begun there.

    Raises:
        NotAQueue: something else is in the folder.
        CorruptLog: rows or consumers of a queue are, whose commits are lost (docs/format.md §11).
    """
    names = folder.names() if folder.exists() else []
    foreign = sorted(name for name in names if name not in _KNOWN and not is_probe(name))
    if not foreign:
        _refuse_left_objects(store)
        return
    if newest_epoch(folder) is not None:
        raise NotAQueue(
            f"{folder.path}: a queue without partitions is here; open it as such, or make one with "
            "partitions elsewhere"
        )
    raise NotAQueue(f"{folder.path}: no queue, and not empty either: {foreign[:3]}")


def _refuse_left_objects(store: Store) -> None:
    left = next((name for inside in _MADE_LATER if (name := _first_object(store, inside))), None)
    if left is None or ReferenceLog(store).is_there():  # somebody may have made it meanwhile
        return
    raise CorruptLog(
        f"{store.url}/{commit_object_name(0)}", 0,
        f"the commit that made the queue is missing, and {left} is there",
        f"restore {LOG_FOLDER}/ from a copy; to make another queue here, move "
        f"{' and '.join(f'{inside}/' for inside in _MADE_LATER)} away",
    )  # fmt: skip


def _first_object(store: Store, folder: str) -> str | None:
    """Return the name of an object below a folder; ``None`` where there are at most folders."""
    for entry in store.list(folder):
        name = f"{folder}/{entry.name}"
        first = _first_object(store, name) if entry.is_folder else name
        if first is not None:
            return first
    return None
