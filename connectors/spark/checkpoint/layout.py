"""Layout of Spark's checkpoint directory, read without Spark.

::

    metadata                                  {"id": …}: the query's id
    offsets/N                                 what batch N is to read; written before it runs
    commits/N                                 written once batch N is done
    sources/I/…                               what source I keeps for itself
    state/OPERATOR/PARTITION[/STORE]/…        one state log each; batch N makes version N + 1

Other names are leftovers: checksums of Hadoop (`.0.crc`) and files that were never renamed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

from cec_store.connectors.spark.checkpoint.parsing import (
    Parsed,
    damaged,
    json_object,
    known_version,
    lists_of_texts,
    parsed,
    read_whole,
    whole_number,
)
from cec_store.errors import CecError, NotACheckpoint, OutOfRange
from cec_store.storage.folder import Folder, FolderTree
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import StorageOptions, folder_at
from cec_store.values import format_timestamp_us, to_timestamp_us

METADATA = "metadata"
OFFSETS = "offsets"
COMMITS = "commits"
SOURCES = "sources"
STATE = "state"
METADATA_FOLDER = "_metadata"
"""Inside state/: what Spark notes of an operator, or of a store (schemas)."""
DEFAULT_STORE = "default"
JOIN_SIDES = {side: f"{side}-keyWithIndexToValue" for side in ("left", "right")}
"""Names of the stores that hold a join's waiting rows, by side."""
SHARED_FOLDERS = frozenset(("SSTs", "logs"))
"""Inside a store of Spark's RocksDB provider: files that several versions are made of."""
NO_OFFSET = "-"
"""Line in offsets/N for a source that has no offset yet."""
# All stores that Spark has beside the default one, in the order of their unique ids in commits/N,
# as SymmetricHashJoinStateManager puts them.
_JOIN_STORES = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)
_NEWEST_VERSIONS = {OFFSETS: 2, COMMITS: 3}
"""The formats that this release reads. In v3 a commit also says which sinks have which names."""
_LISTED_AT_ONCE = 16  # in a store each is a request


@dataclass(frozen=True)
class Offsets:
    """One file of offsets/: what a batch was to read."""

    timestamp_us: int
    """Time at which the batch began, microseconds since 1970."""
    watermark_us: int | None
    """Event time up to which the batch expects no more rows; ``None`` before there is one."""
    conf: Mapping[str, str]
    """Settings that hold for the life of the checkpoint."""
    sources: Mapping[str, str | None]
    """Offset up to which each source was to be read, in its own format; None: it had not begun.

    Keys are the names of the folders in sources/ that the sources may have."""


@dataclass(frozen=True)
class Commit:
    """One file of commits/: what a batch left behind."""

    unique_ids: Mapping[int, list[list[str]]] | None
    """Ids by operator, then partition, then store; None with checkpoint format V1."""

    def unique_id(self, operator: int, partition: int, store: str) -> str | None:
        """Raises ``LookupError`` or ``ValueError`` where there is no such store."""
        if self.unique_ids is None:
            return None
        stores = self.unique_ids[operator][partition]
        return stores[_JOIN_STORES.index(store) if len(stores) > 1 else 0]


class StateFolder(NamedTuple):
    """Folder of the log of one state store."""

    operator: int
    partition: int
    store: str
    folder: FolderTree


class Checkpoint:
    """A Spark query's checkpoint directory. Every method reads it again; none writes."""

    def __init__(
        self, path: AnyPath | FolderTree, storage_options: StorageOptions | None = None
    ) -> None:
        """Raises :class:`NotACheckpoint` where no streaming query has left one."""
        self.folder: FolderTree = folder_at(path, storage_options)
        names = self.folder.names() if self.folder.exists() else []
        if OFFSETS not in names or (METADATA not in names and STATE not in names):
            raise NotACheckpoint(
                f"{self.folder.path}: no checkpoint of a Spark query here "
                f"(one has a file {METADATA!r} and a folder {OFFSETS!r}); give what the query has "
                "as checkpointLocation, a path of this machine or a URL"
            )

    @property
    def path(self) -> str:
        return self.folder.path

    @cached_property
    def query_id(self) -> str:
        """Id that Spark gave the query, the same after each restart.

        Raises:
            CorruptLog: the file that says so is damaged, or missing.
        """
        path, data = read_whole(self.folder, METADATA)
        metadata = parsed(path, data, lambda: json_object(json.loads(data)))
        if not isinstance(metadata.get("id"), str):
            raise damaged(path, 0, "it names no query id")
        return str(metadata["id"])

    # -- batches ------------------------------------------------------------------------------

    def logged_batches(self) -> list[int]:
        """Batches of which the offsets are kept, ascending: the last may not be committed."""
        return _numbers(self.folder.folder(OFFSETS))

    def committed_batches(self) -> list[int]:
        """Batches that were committed and of which the offsets are kept, ascending."""
        commits = self.folder.folder(COMMITS)
        return sorted({*_numbers(commits)} & {*self.logged_batches()}) if commits.exists() else []

    def newest_batch(self) -> int:
        """The last committed batch.

        Raises:
            OutOfRange: none is.
        """
        return self._kept()[-1]

    def batch_at(self, moment: date | int | str) -> int:
        """The newest committed batch that began at this moment (microseconds, if an int) or before.

        Raises:
            OutOfRange: the moment is before all that are kept.
        """
        moment_us = to_timestamp_us(moment)
        batches = self._kept()
        for batch in reversed(batches):
            if self.offsets(batch).timestamp_us <= moment_us:
                return batch
        first_us = self.offsets(batches[0]).timestamp_us
        raise OutOfRange(
            f"{self.path}: no batch that began at {format_timestamp_us(moment_us)} or before is "
            f"kept; the earliest is batch {batches[0]}, at {format_timestamp_us(first_us)}"
        )

    def _kept(self) -> list[int]:
        batches = self.committed_batches()
        if not batches:
            raise OutOfRange(f"{self.path}: the query has committed no batch yet")
        return batches

    def newest_settings(self) -> Mapping[str, str]:
        """Spark's settings of the newest batch whose offsets can be read; none where none can."""
        for batch in reversed(self.logged_batches()):
            with suppress(CecError):
                return self.offsets(batch).conf
        return {}

    def offsets(self, batch: int) -> Offsets:
        """Read the offsets of a batch: how far it was to read each source.

        Raises:
            CorruptLog: the file is damaged.
            OutOfRange: it is not kept.
            UnsupportedVersion: a newer Spark wrote it.
        """

        def parse(version: int, first: Any, rest: list[str]) -> Offsets:
            lines = [(str(number), line) for number, line in enumerate(rest)]
            if version > 1:  # each line begins with the name of its source
                lines = [(line.split(":", 1)[0], line.split(":", 1)[1]) for line in rest]
            sources = {name: None if line == NO_OFFSET else line for name, line in lines}
            conf = {str(k): str(v) for k, v in json_object(first.get("conf", {})).items()}
            watermark_ms = whole_number(first.get("batchWatermarkMs", 0))
            return Offsets(
                timestamp_us=whole_number(first["batchTimestampMs"]) * 1000,
                watermark_us=watermark_ms * 1000 or None,  # Spark says 0 where it has none yet
                conf=conf,
                sources=sources,
            )

        return self._read_log(OFFSETS, batch, parse)

    def commit(self, batch: int) -> Commit:
        """Read the commit of a batch; raise the same errors as :meth:`offsets`."""

        def parse(version: int, first: Any, rest: list[str]) -> Commit:
            ids = first.get("stateUniqueIds")
            if ids is None:
                return Commit(None)
            return Commit(
                {
                    int(operator): lists_of_texts(unique_ids)
                    for operator, unique_ids in json_object(ids).items()
                }
            )

        return self._read_log(COMMITS, batch, parse)

    def _read_log(
        self, log: str, batch: int, parse: Callable[[int, Any, list[str]], Parsed]
    ) -> Parsed:
        folder = self.folder.folder(log)
        path = f"{folder.path}/{batch}"
        try:
            data = folder.read(str(batch), 0, folder.size(str(batch)))
        except FileNotFoundError:
            raise OutOfRange(f"{path}: batch {batch} is not kept here") from None
        head, _, tail = data.partition(b"\n")
        version = known_version(path, head.decode("latin-1"), _NEWEST_VERSIONS[log])

        def parse_lines() -> Parsed:
            first, *rest = tail.decode().split("\n")
            return parse(version, json_object(json.loads(first)), rest)

        return parsed(path, data, parse_lines, len(head) + 1)

    # -- state --------------------------------------------------------------------------------

    def operator_folder(self, operator: int) -> FolderTree:
        """Return the folder in which Spark keeps all of a stateful operator."""
        return self.folder.folder(STATE).folder(str(operator))

    def state_folders(self, operator: int | None = None) -> list[StateFolder]:
        """Return the folders of the logs of an operator's state stores, or of all operators'.

        A folder that is missing while others of its operator exist is listed all the same: to read
        it is an error then.
        """
        state = self.folder.folder(STATE)
        folders: list[StateFolder] = []
        for number, operator_folder in _numbered(state.folders() if state.exists() else {}):
            if operator in (None, number):
                folders += _stores_of(number, operator_folder)
        return folders

    def unique_id(self, batch: int, operator: int, partition: int, store: str) -> str | None:
        """Return the id that checkpoint format V2 gives a batch's state; None with format V1.

        Raises:
            OutOfRange: the batch is not kept, or had no such store.
        """
        commit = self.commit(batch)
        try:
            return commit.unique_id(operator, partition, store)
        except (LookupError, ValueError):
            path = f"{self.path}/{COMMITS}/{batch}"
            raise OutOfRange(
                f"{path}: names no state of operator {operator}, partition {partition}, {store}"
            ) from None


def _stores_of(operator: int, folder: FolderTree) -> list[StateFolder]:
    inside = folder.folders()
    partitions = dict(_numbered(inside))
    # Where every partition is lost, Spark's notes still say that there was one.
    none_left = 0 if METADATA_FOLDER in inside else -1
    with ThreadPoolExecutor(_LISTED_AT_ONCE) as threads:
        listed = threads.map(lambda partition: {*partition.folders()}, partitions.values())
        names = {name for folder_names in listed for name in folder_names}
    stores = [name for name in _JOIN_STORES if name in names] or [DEFAULT_STORE]
    return [
        StateFolder(operator, partition, store, store_folder(folder, partition, store))
        for partition in range(max(partitions, default=none_left) + 1)
        for store in stores
    ]


def store_folder(operator_folder: FolderTree, partition: int, store: str) -> FolderTree:
    """Return the folder in which a store keeps a partition."""
    folder = operator_folder.folder(str(partition))
    return folder if store == DEFAULT_STORE else folder.folder(store)


def _numbers(folder: Folder) -> list[int]:
    return sorted(int(name) for name in folder.names() if name.isascii() and name.isdigit())


def _numbered(inside: Mapping[str, FolderTree]) -> list[tuple[int, FolderTree]]:
    subfolders = [
        (int(name), subfolder)
        for name, subfolder in inside.items()
        if name.isascii() and name.isdigit()
    ]
    return sorted(subfolders, key=lambda entry: entry[0])
