"""Making a queue of many partitions, and holding one that is there to its columns."""

from __future__ import annotations

from cec_store.errors import NotAQueue, SchemaMismatch
from cec_store.format.commit import COMMIT_SCHEMA
from cec_store.format.retention import FOREVER, Retention
from cec_store.format.schema import RecordSchema
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.epochs import newest_epoch
from cec_store.log.writer import ClockAndEntropy
from cec_store.storage.folder import FolderTree
from cec_store.storage.names import COMMITS_FOLDER, STAGED_FOLDER, partition_name


def make_folders(folder: FolderTree) -> None:
    """The folders of a new queue.

    Raises:
        NotAQueue: something else is in the folder.
    """
    known = {COMMITS_FOLDER, STAGED_FOLDER, partition_name(0)}
    foreign = sorted(set(folder.names()) - known) if folder.exists() else []
    if foreign:
        what = "a queue without partitions" if newest_epoch(folder) is not None else "no queue"
        raise NotAQueue(f"{folder.path}: {what}, and not empty either: {foreign[:3]}")
    folder.make()
    for name in (STAGED_FOLDER, COMMITS_FOLDER):
        folder.folder(name).make()


def make_logs(
    folder: FolderTree,
    schema: RecordSchema,
    clock_and_entropy: ClockAndEntropy,
    retention: Retention,
) -> None:
    """The first partition, then the log of commits: with that it is a queue."""
    for name, columns, kept in (
        (partition_name(0), schema, FOREVER),
        (COMMITS_FOLDER, COMMIT_SCHEMA, retention),
    ):
        part = folder.folder(name)
        part.make()
        if newest_epoch(part) is None:
            create(part, columns, clock_and_entropy, kept).close()
    folder.sync_names()


def require_schema(folder: FolderTree, schema: RecordSchema) -> None:
    """Raises :class:`SchemaMismatch` where the queue has other columns."""
    stored = Chain(folder.folder(partition_name(0))).schema()
    if not stored.is_as(schema):
        raise SchemaMismatch(
            f"{folder.path}: the queue's columns are\n{_described(stored)}\nnot\n"
            f"{_described(schema)}"
        )


def _described(schema: RecordSchema) -> str:
    column = schema.timestamp_column
    keys = ", ".join(schema.key_columns)
    columns = schema.data.remove_metadata()
    return f"{columns}\n(timestampColumn {column or 'none'}; keyColumns {keys or 'none'})"
