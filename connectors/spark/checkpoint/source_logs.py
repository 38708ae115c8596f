"""Logs that a query's sources keep in its checkpoint, and how much of them belongs to a batch.

Spark's file source keeps a list of the files that it has met, one entry for each time that there
were new ones: sources/I/K, and every tenth (by default) K.compact with all before it. The batch's
offset says up to which K it reads. Kafka's, the rate source and ours keep one file, 0: where they
began.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from cec_store.connectors.spark.checkpoint.layout import SOURCES, Checkpoint
from cec_store.errors import CorruptLog, OutOfRange, StorageError
from cec_store.storage.folder import FolderTree

_ENTRY = re.compile(r"([0-9]+)(\.compact)?")
_BEGINNING = ["0"]


def source_files(checkpoint: Checkpoint, batch: int) -> list[tuple[FolderTree, list[str]]]:
    """The folders of sources, each with the files that a query at the end of a batch needs.

    Raises:
        OutOfRange: a source no longer has what it knew then.
        StorageError: a source keeps what cannot be cut to a batch.
    """
    folder = checkpoint.folder.folder(SOURCES)
    if not folder.exists():
        return []
    offsets = checkpoint.offsets(batch).sources
    folders = []
    for name, inside in sorted(folder.folders().items()):
        offset = offsets.get(name)
        if offset is not None:  # else it had not begun, and will begin anew
            folders.append((inside, _files_upto(inside, batch, offset)))
    return folders


def _files_upto(folder: FolderTree, batch: int, offset: str) -> list[str]:
    names = [name for name in folder.names() if not name.startswith(".")]
    newest = _log_offset(offset)
    if newest is not None:
        return _entries_upto(folder, names, batch, newest)
    if names in ([], _BEGINNING) and not folder.folders():
        return names
    raise StorageError(
        f"{folder.path}: this source keeps files of its own ({', '.join(names[:3])}, …), and "
        "which of them belong to a batch is not known for any but Spark's file source"
    )


def _log_offset(offset: str) -> int | None:
    """The entry up to which a batch reads, where the source is Spark's file source."""
    try:
        document = json.loads(offset)
    except ValueError:
        return None
    if (
        isinstance(document, dict)
        and set(document) == {"logOffset"}
        and isinstance(document["logOffset"], int)
    ):
        return document["logOffset"]
    return None


def _entries_upto(folder: FolderTree, names: Sequence[str], batch: int, newest: int) -> list[str]:
    entries: dict[int, str] = {}
    first = 0
    for name in names:
        match = _ENTRY.fullmatch(name)
        if match is None:
            raise CorruptLog(f"{folder.path}/{name}", 0, "no file of Spark's file source")
        entry = int(match[1])
        if entry <= newest:
            entries[entry] = name
            first = max(first, entry if match[2] else 0)
    for entry in range(first, newest + 1):
        if entry not in entries:
            raise OutOfRange(
                f"{folder.path}: batch {batch} reads up to entry {newest} of this source, and "
                f"entry {entry}, which that takes, is no longer kept"
            )
    return [name for _, name in sorted(entries.items())]
