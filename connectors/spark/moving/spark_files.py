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
from cec_store.connectors.spark.checkpoint.variables import SCHEMAS
from cec_store.connectors.spark.moving.plan import Plan
from cec_store.storage.folder import FolderTree

UniqueIds = Mapping[str, list[list[str]]]
"""Of checkpoint format V2: by operator, partition and store."""


class File(NamedTuple):
    """One file, by the folder that it is in below the checkpoint."""

    inside: str
    name: str
    data: bytes


def spark_files(plan: Plan, unique_ids: UniqueIds, new_url: str) -> Iterator[File]:
    """What the new checkpoint needs besides the state, the file that makes it one last.

    Args:
        unique_ids: What the stores that were written are called; empty with format V1.
        new_url: Where the new checkpoint will be, as Hadoop has it.

    Raises:
        CorruptLog: what Spark wrote is damaged.
    """
    old = plan.old
    state = old.folder.folder(STATE)
    for name, operator in state.folders().items() if state.exists() else ():
        if name.isdigit():
            yield from _operator_files(plan, f"{STATE}/{name}", operator, new_url)
    yield from _whole_folder(SOURCES, old.folder.folder(SOURCES))
    yield from _log_files(old, COMMITS, lambda n, said: _commit(plan, n, said, unique_ids))
    yield from _log_files(old, OFFSETS, lambda _, said: _offsets(plan, said))
    yield File("", METADATA, read_whole(old.folder, METADATA)[1])


def _log_files(
    old: Checkpoint, log: str, change: Callable[[int, dict[str, Any]], None]
) -> Iterator[File]:
    folder = old.folder.folder(log)
    for name in sorted((n for n in folder.names() if n.isascii() and n.isdigit()), key=int):
        path, data = read_whole(folder, name)

        def changed(said: dict[str, Any], batch: int = int(name)) -> None:
            change(batch, said)

        yield File(log, name, with_json(path, data, changed))


def _offsets(plan: Plan, said: dict[str, Any]) -> None:
    said["conf"] = {**json_object(said.get("conf", {})), **plan.changes}


def _commit(plan: Plan, batch: int, said: dict[str, Any], unique_ids: UniqueIds) -> None:
    if batch == plan.batch and unique_ids:
        said["stateUniqueIds"] = dict(unique_ids)


# -- what Spark keeps beside the state --------------------------------------------------------


def _operator_files(plan: Plan, inside: str, operator: FolderTree, new_url: str) -> Iterator[File]:
    for name, folder in sorted(operator.folders().items()):
        below = f"{inside}/{name}"
        if name == METADATA_FOLDER:
            for file in _whole_folder(below, folder):
                is_json = file.name == METADATA or file.inside == f"{below}/{VERSION_2}"
                path = f"{plan.old.path}/{file.inside}/{file.name}"
                data = file.data
                if is_json:
                    data = moved_metadata(path, data, new_url, plan.partitions)
                yield file._replace(data=data)
        elif name == SCHEMAS:
            yield from _whole_folder(below, folder)
        elif name.isdigit():
            yield from _schemas_below(below, folder)


def _schemas_below(inside: str, folder: FolderTree) -> Iterator[File]:
    for name, each in sorted(folder.folders().items()):
        below = f"{inside}/{name}"
        if name == METADATA_FOLDER:
            yield from _whole_folder(below, each)
        else:
            yield from _schemas_below(below, each)


def _whole_folder(inside: str, folder: FolderTree) -> Iterator[File]:
    folders = folder.folders() if folder.exists() else {}
    names = [] if not folder.exists() else folder.names()
    for name in sorted({n for n in names if not n.startswith(".")} - {*folders}):
        yield File(inside, name, read_whole(folder, name)[1])
    for name, each in sorted(folders.items()):
        yield from _whole_folder(f"{inside}/{name}", each)
