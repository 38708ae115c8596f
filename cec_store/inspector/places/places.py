"""Places to inspect at a path: one log, or all logs of a queue or of a Spark checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cec_store.connectors.spark.checkpoint.layout import (
    DEFAULT_STORE,
    JOIN_SIDES,
    OFFSETS,
    Checkpoint,
)
from cec_store.connectors.spark.checkpoint.providers import provider_of
from cec_store.connectors.spark.checkpoint.state_rows import RowDecoder, decoder_of
from cec_store.connectors.spark.checkpoint.state_schema import operator_name
from cec_store.connectors.spark.setup.settings import BUILT_IN
from cec_store.errors import CecError, NotAQueue
from cec_store.format.by_reference.commits import WRITER_SETTING
from cec_store.format.retention import FOREVER
from cec_store.log.epochs import newest_epoch
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.queues.retention import read_retention
from cec_store.state_logs.segments import is_state_log
from cec_store.storage.folder import Folder, FolderTree
from cec_store.storage.names import (
    LOG_FOLDER,
    is_log_folder,
    manifest_epoch_of,
    segment_id_of,
)
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import StorageOptions, folder_at, store_of

StoreKey = tuple[int | None, str | None]
"""Operator and store, which the partitions of one store have in common."""

_INSIDE_MAX = 64
_NAMED_MAX = 8
_LEVELS_MAX = 4
"""Depth of a checkpoint's files: state/OPERATOR/PARTITION/STORE."""


class PlaceKind(str, Enum):
    """Kinds of places that a path can name."""

    QUEUE = "queue"
    PARTITIONED_QUEUE = "partitioned queue"
    STATE_STORE = "state store"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Log:
    """One log of a place: a queue, or a state store."""

    name: str
    """Name among the logs of its place, as ``operator 0, partition 3``; empty where it is alone."""
    folder: FolderTree
    operator: int | None = None
    partition: int | None = None
    store: str | None = None
    operator_name: str = ""
    """Name of the operator as Spark noted it, such as "dedupe"; empty where it is not known."""
    decoders: dict[StoreKey, RowDecoder | None] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Decoders of rows that the logs of a place have read: Spark notes columns once for all
    partitions of a store."""

    @classmethod
    def of_store(
        cls,
        folder: FolderTree,
        operator: int,
        partition: int,
        store: str,
        operator_name: str,
        decoders: dict[StoreKey, RowDecoder | None] | None = None,
    ) -> Log:
        """A state store of a checkpoint; ``decoders`` are those that its logs share."""
        does = f" ({operator_name})" if operator_name else ""
        name = f"operator {operator}{does}, partition {partition}"
        name += f", {store}" if store != DEFAULT_STORE else ""
        shared = {} if decoders is None else decoders
        return cls(name, folder, operator, partition, store, operator_name, shared)

    @property
    def store_key(self) -> StoreKey:
        """Return the operator and the store that the log is of."""
        return self.operator, self.store

    @property
    def key(self) -> tuple[str, int | None]:
        """Path and partition, unique to this log: those of a partitioned queue share a folder."""
        return self.folder.path, self.partition

    def fields(self) -> dict[str, Any]:
        """Return the fields that every JSON document has for a log."""
        return {
            "name": self.name,
            "path": self.folder.path,
            "operator": self.operator,
            "partition": self.partition,
            "store": self.store,
        }

    def named(self, text: str) -> str:
        """The text behind the log's name, where it has one."""
        return f"{self.name}: {text}" if self.name else text

    @property
    def row_decoder(self) -> RowDecoder | None:
        """Decoder of a state store's rows, be they of one table or of variables; ``None`` in other
        logs.

        Raises:
            CorruptLog, SchemaMismatch, UnsupportedVersion: what Spark noted cannot be read.
        """
        if self.store_key not in self.decoders:
            self.decoders[self.store_key] = decoder_of(self.folder)
        return self.decoders[self.store_key]

    @property
    def row_decoder_if_readable(self) -> RowDecoder | None:
        """The decoder of rows; ``None`` also where what Spark noted cannot be read."""
        try:
            return self.row_decoder
        except (CecError, ValueError):
            return None


@dataclass(frozen=True)
class Place:
    """A folder with the logs in it, in the order of their numbers."""

    folder: FolderTree
    kind: PlaceKind
    logs: tuple[Log, ...]
    checkpoint: Checkpoint | None = None
    """Spark's own files around the logs of a checkpoint."""
    opened: ReferenceQueue | None = None
    """Open partitioned queue, if it is one that can be opened."""
    provider: str | None = None
    """Class of the provider that keeps a checkpoint's state."""

    @property
    def path(self) -> str:
        return self.folder.path

    @property
    def is_built_in(self) -> bool:
        """True if one of Spark's own providers keeps the state: then there is no log of ours."""
        return self.provider in BUILT_IN.values()

    @property
    def has_versions(self) -> bool:
        """True if its logs are those of state stores."""
        return self.kind in (PlaceKind.STATE_STORE, PlaceKind.CHECKPOINT)

    def chosen(
        self, operator: int | None = None, partition: int | None = None, store: str | None = None
    ) -> tuple[Log, ...]:
        """The logs with these numbers and this name; ``None`` leaves all.

        Raises:
            ValueError: there is none such.
        """
        if store is not None and all(log.store != store for log in self.logs):
            store = JOIN_SIDES.get(store, store)
        filters = {"operator": operator, "partition": partition, "store": store}
        asked = {name: value for name, value in filters.items() if value is not None}
        chosen = tuple(
            log for log in self.logs if all(getattr(log, n) == v for n, v in asked.items())
        )
        if asked and not chosen:
            names = " ".join(f"{name} {value}" for name, value in asked.items())
            present = {n: sorted({getattr(log, n) for log in self.logs} - {None}) for n in asked}
            has = "; ".join(f"{n}s: {', '.join(map(str, v)) or 'none'}" for n, v in present.items())
            raise ValueError(f"{self.path}: nothing of {names} here ({has})")
        return chosen

    @property
    def reference(self) -> ReferenceQueue:
        """The queue, of a place that is a partitioned one.

        Raises:
            CorruptLog, UnsupportedVersion: it cannot be opened.
        """
        store = store_of(self.folder)
        assert store is not None
        return self.opened or ReferenceQueue(store)

    @property
    def has_one_writer(self) -> bool:
        """True for a queue of one writer whose rows are in commits; it may be an operator's."""
        is_open = self.opened is not None
        return is_open and WRITER_SETTING in self.reference.state.commit.settings

    def require_open(self) -> None:
        """Raise as :attr:`reference` does if the partitioned queue cannot be opened.

        Such a place has no logs that could report the reason.
        """
        if self.kind is PlaceKind.PARTITIONED_QUEUE:
            _ = self.reference

    @property
    def settings(self) -> Folder | None:
        """Folder of a queue's settings; ``None`` in state stores, and where commits have them."""
        if self.has_versions or self.kind is PlaceKind.PARTITIONED_QUEUE:
            return None
        return self.folder

    def retention(self) -> str | None:
        """Return a queue's retention as text; ``None`` in state stores or if it is unreadable."""
        try:
            if self.kind is PlaceKind.PARTITIONED_QUEUE:
                return self.reference.state.commit.settings.get("retention", str(FOREVER))
            return None if self.settings is None else str(read_retention(self.settings))
        except CecError:
            return None

    def newest_version(self) -> int | None:
        """The version that a query would go on from; ``None`` where Spark's logs do not say.

        Raises:
            OutOfRange: no batch is committed.
        """
        return self.checkpoint.newest_batch() + 1 if self.checkpoint is not None else None

    def at(self, log: Log, version: int | str | None) -> int | str | None:
        """Return a log's name of a version: its number, or an id of checkpoint format V2.

        ``None`` means the newest that the log has; an id stays as it is.

        Raises:
            OutOfRange: Spark's logs do not have the version, or not of this log.
            CorruptLog, UnsupportedVersion: they cannot be read.
        """
        if self.checkpoint is None or not isinstance(version, int):
            return version
        if log.operator is None or log.partition is None or log.store is None:
            raise ValueError(f"{log.folder.path}: no log of a checkpoint")
        ids = self.checkpoint.unique_id(version - 1, log.operator, log.partition, log.store)
        return ids or version


def place_at(path: AnyPath | FolderTree, storage_options: StorageOptions | None = None) -> Place:
    """Return the place at a path or URL.

    Raises:
        NotAQueue: nothing that this package knows.
        Unreadable: this user may not read its logs.
        ValueError: no such path or URL, or options for local files.
    """
    folder = folder_at(path, storage_options)
    place = _found_at(folder)
    if place is None:
        raise NotAQueue(f"{folder.path}: {_instead(folder)}")
    for log in place.logs:
        log.folder.require_readable(_is_of_log)
    return place


def _goes_by_reference(folder: FolderTree) -> bool:
    return any(map(is_log_folder, folder.folder(LOG_FOLDER).folders()))


def _is_of_log(name: str) -> bool:
    return segment_id_of(name) is not None or manifest_epoch_of(name) is not None


def _instead(folder: FolderTree) -> str:
    """Return a phrase that describes a path without a place, such as "does not exist"."""
    if not folder.exists():
        above = folder.above()
        is_file = above.exists() and folder.path.rpartition("/")[2] in above.names()
        return "is a file and no folder" if is_file else "does not exist"
    inside = sorted(folder.folders().items())[:_INSIDE_MAX]
    places = [f"{name} ({at.kind.value})" for name, child in inside if (at := _found_at(child))]
    if places:
        more = ", …" if len(places) > _NAMED_MAX else ""
        return f"a folder with places in it: name one of {', '.join(places[:_NAMED_MAX])}{more}"
    outer = folder
    for _ in range(_LEVELS_MAX):
        outer = outer.above()
        if (around := _found_at(outer)) is not None:
            return f"lies inside the {around.kind.value} {outer.path}: give that path"
    return "neither a queue, nor a state store, nor a checkpoint of a Spark query"


def _found_at(folder: FolderTree) -> Place | None:
    """The place; ``None`` where there is none."""
    names = folder.names() if folder.exists() else []
    if OFFSETS in names:
        return _checkpoint(Checkpoint(folder))
    if LOG_FOLDER in names and _goes_by_reference(folder):
        return _reference_queue(folder)
    if is_state_log(folder):
        return Place(folder, PlaceKind.STATE_STORE, (Log("", folder),))
    if newest_epoch(folder) is not None or any(segment_id_of(n) is not None for n in names):
        return Place(folder, PlaceKind.QUEUE, (Log("", folder),))
    return None


def _reference_queue(folder: FolderTree) -> Place:
    """Return the queue's place, without logs where it cannot be opened: verify says why."""
    place = Place(folder, PlaceKind.PARTITIONED_QUEUE, ())
    try:
        queue = place.reference
    except CecError:
        return place
    logs = tuple(Log(f"partition {n}", folder, partition=n) for n in queue.ends())
    return Place(folder, PlaceKind.PARTITIONED_QUEUE, logs, opened=queue)


def _checkpoint(checkpoint: Checkpoint) -> Place:
    folders = checkpoint.state_folders()
    names = {at.operator: operator_name(checkpoint.operator_folder(at.operator)) for at in folders}
    decoders: dict[StoreKey, RowDecoder | None] = {}
    logs = tuple(
        Log.of_store(at.folder, at.operator, at.partition, at.store, names[at.operator], decoders)
        for at in folders
    )
    provider = provider_of(checkpoint)
    return Place(checkpoint.folder, PlaceKind.CHECKPOINT, logs, checkpoint, provider=provider)
