"""Spark's own files of a checkpoint, as they have to be where its state has been moved to.

::

    offsets/N, commits/N        text: a version, a line of JSON, and a line for each source
    sources/…                   as they are
    state/OPERATOR/_metadata/…  as JSON: how many partitions, and where the schemas stand
    state/…/_metadata, _stateSchema/…   as they are

Checksums that Hadoop keeps beside files are left behind: they are of other bytes, and not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from cec_store.connectors.spark.checkpoint.fork_plan import schema_parts
from cec_store.connectors.spark.checkpoint.layout import (
    COMMITS,
    METADATA,
    METADATA_FOLDER,
    OFFSETS,
    SOURCES,
    STATE,
    Checkpoint,
)
from cec_store.connectors.spark.checkpoint.parsing import json_object, read_whole
from cec_store.connectors.spark.checkpoint.rewriting import moved_metadata, with_json
from cec_store.connectors.spark.checkpoint.state_schema import VERSION_2
from cec_store.connectors.spark.moving.plan import Plan
from cec_store.storage.folder import FolderTree

UniqueIds = Mapping[str, list[list[str]]]
"""Ids of state in checkpoint format V2: by operator, partition and store."""


class File(NamedTuple):
    """One file, by the folder that it is in below the checkpoint."""

    inside: str
    name: str
    data: bytes


def spark_files(plan: Plan, unique_ids: UniqueIds, new_url: str) -> Iterator[File]:
    """Yield the files of the new checkpoint besides its state; the last makes it a checkpoint.

    Args:
        unique_ids: Ids of the state that was written; empty with format V1.
        new_url: Where the new checkpoint will be, as Hadoop has it.

    Raises:
        CorruptLog: what Spark wrote is damaged.
    """
    old = plan.old
    state = old.folder.folder(STATE)
    if state.exists():
        yield from _beside_state(plan, state, new_url)
    yield from _whole_folder(SOURCES, old.folder.folder(SOURCES))
    yield from _log_files(old, COMMITS, lambda n, document: _commit(plan, n, document, unique_ids))
    yield from _log_files(old, OFFSETS, lambda _, document: _offsets(plan, document))
    yield File("", METADATA, read_whole(old.folder, METADATA)[1])


def _log_files(
    old: Checkpoint, log: str, change: Callable[[int, dict[str, Any]], None]
) -> Iterator[File]:
    folder = old.folder.folder(log)
    for name in sorted((n for n in folder.names() if n.isascii() and n.isdigit()), key=int):
        path, data = read_whole(folder, name)

        def changed(document: dict[str, Any], batch: int = int(name)) -> None:
            change(batch, document)

        yield File(log, name, with_json(path, data, changed))


def _offsets(plan: Plan, document: dict[str, Any]) -> None:
    conf = json_object(document.get("conf", {}))
    document["conf"] = {**conf, **plan.changes(conf)}


def _commit(plan: Plan, batch: int, document: dict[str, Any], unique_ids: UniqueIds) -> None:
    if batch == plan.batch and unique_ids:
        document["stateUniqueIds"] = dict(unique_ids)


def _beside_state(plan: Plan, state: FolderTree, new_url: str) -> Iterator[File]:
    """Metadata and schemas, with what they say of places and of partitions as it will be."""
    for part in schema_parts(state):
        inside = part.source.path[len(plan.old.path) :].strip("/")
        path, data = read_whole(part.source, part.name)
        of_operator = inside.split("/")[2:]
        if of_operator[:1] == [METADATA_FOLDER] and (
            part.name == METADATA or of_operator[1:] == [VERSION_2]
        ):
            data = moved_metadata(path, data, new_url, plan.partitions_there)
        yield File(inside, part.name, data)


def _whole_folder(inside: str, folder: FolderTree) -> Iterator[File]:
    folders = folder.folders() if folder.exists() else {}
    names = [] if not folder.exists() else folder.names()
    for name in sorted({n for n in names if not n.startswith(".")} - {*folders}):
        yield File(inside, name, read_whole(folder, name)[1])
    for name, subfolder in sorted(folders.items()):
        yield from _whole_folder(f"{inside}/{name}", subfolder)
