"""Where a queue of many partitions may be made, and the columns that one has."""

from __future__ import annotations

from cec_store.errors import NotAQueue, SchemaMismatch
from cec_store.format.schema import RecordSchema
from cec_store.log.epochs import newest_epoch
from cec_store.storage.folder import FolderTree
from cec_store.storage.names import (
    CONSUMERS_FOLDER,
    DATA_FOLDER,
    INDEX_FOLDER,
    LOG_FOLDER,
    is_probe,
)

_KNOWN = frozenset({LOG_FOLDER, DATA_FOLDER, CONSUMERS_FOLDER, INDEX_FOLDER})
"""What may stand in its folder before its first commit does."""


def refuse_what_is_there(folder: FolderTree) -> None:
    """A queue is made in an empty folder, or in one where that was begun.

    Raises:
        NotAQueue: something else is in the folder.
    """
    names = folder.names() if folder.exists() else []
    foreign = sorted(name for name in names if name not in _KNOWN and not is_probe(name))
    if not foreign:
        return
    if newest_epoch(folder) is not None:
        raise NotAQueue(
            f"{folder.path}: a queue without partitions is here; open it as such, or make one with "
            "partitions elsewhere"
        )
    raise NotAQueue(f"{folder.path}: no queue, and not empty either: {foreign[:3]}")


def require_as_stored(stored: RecordSchema, schema: RecordSchema, path: str) -> RecordSchema:
    """Return the queue's own schema, in which all is written.

    Raises:
        SchemaMismatch: a queue that has columns is to have others.
    """
    if not stored.is_as(schema):
        raise SchemaMismatch(
            f"{path}: the queue's columns are\n{_described(stored)}\nnot\n{_described(schema)}"
        )
    return stored


def _described(schema: RecordSchema) -> str:
    column = schema.timestamp_column
    keys = ", ".join(schema.key_columns)
    columns = schema.data.remove_metadata()
    return f"{columns}\n(timestampColumn {column or 'none'}; keyColumns {keys or 'none'})"
