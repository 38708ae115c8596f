"""The folder of a fleet: its notes, its global checkpoints, and requests to its driver.

docs/fleets.md has the layout. It is on a disk or in a store, where nothing that is there is ever
replaced: of the notes each version is an object of its own, made by one writer alone. So a driver
that is asleep while another takes over finds the next number taken, and writes nothing.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from cec_store.connectors.spark.checkpoint.layout import METADATA
from cec_store.connectors.spark.fleet.declaration import queue_path
from cec_store.connectors.spark.fleet.notes import (
    GlobalCheckpoint,
    Notes,
    checkpoint_of,
    notes_json,
    notes_of,
)
from cec_store.errors import CorruptLog, NoGlobalCheckpoint, NotAFleet, upgrade_needed
from cec_store.standby.leases import Leases, leases_of
from cec_store.storage.local import LocalFolder
from cec_store.storage.paths import AnyPath, is_url
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.folders import StorageOptions
from cec_store.storage.stores.store import Store

NOTES = "notes"
QUERIES = "queries"
CHECKPOINTS = "checkpoints"
REQUESTS = "requests"
STOP = "stop"
CHECKPOINT = "checkpoint"
_PAUSE = "pause."
"""Behind it stands the name of the query; withdrawn when the query is to go on."""
_RESTART = "restart."
_REDEPLOY = "redeploy."
VERSION = 1
_FIRST_LAYOUT = "fleet.json"
"""File of the notes in the first layout, which replaced them in a folder on a disk."""
_NUMBERED = re.compile(r"([0-9]{12})\.json")
_CHECKPOINT = re.compile(r"([0-9]{12})(?:-([0-9]+))?\.json")
_KEPT = 8
"""Versions of the notes; a reader may still be at an earlier one."""
_ADVICE = "restore it from a copy"
_Values = TypeVar("_Values")


def pausing(query: str) -> str:
    """Return the request to keep a query stopped, until it is withdrawn."""
    return _PAUSE + query


def restarting(query: str) -> str:
    """Return a request to stop a query and start it again at once, with a name of its own."""
    return _once(_RESTART, query)


def redeploying(query: str) -> str:
    """Return a request to start a query again with its code as it is now; as :func:`restarting`."""
    return _once(_REDEPLOY, query)


def _once(prefix: str, query: str) -> str:
    # One that is made while an earlier one is carried out is not taken for that.
    return f"{prefix}{query}.{secrets.token_hex(8)}"


@dataclass(frozen=True)
class Requests:
    """Requests to a fleet's driver."""

    names: frozenset[str] = frozenset()

    @property
    def is_stop_asked(self) -> bool:
        return STOP in self.names

    @property
    def is_checkpoint_asked(self) -> bool:
        return CHECKPOINT in self.names

    @property
    def paused(self) -> frozenset[str]:
        """Names of the queries that are to be kept stopped."""
        return frozenset(n.removeprefix(_PAUSE) for n in self.names if n.startswith(_PAUSE))

    @property
    def restarts(self) -> frozenset[str]:
        """Names of the queries that are to be stopped and started again."""
        return self._queries_of(_RESTART)

    @property
    def redeploys(self) -> frozenset[str]:
        """Names of the queries of which the code is to be read anew."""
        return self._queries_of(_REDEPLOY)

    @property
    def once(self) -> frozenset[str]:
        """Names of the requests that are withdrawn once they are carried out."""
        return frozenset(n for n in self.names if n.startswith((_RESTART, _REDEPLOY)))

    @property
    def lasting(self) -> Requests:
        """Requests that hold until they are withdrawn by whoever made them."""
        return Requests(frozenset(name for name in self.names if name.startswith(_PAUSE)))

    def _queries_of(self, prefix: str) -> frozenset[str]:
        behind = (n.removeprefix(prefix) for n in self.names if n.startswith(prefix))
        return frozenset(rest.rpartition(".")[0] for rest in behind)


class FleetFolder:
    """The folder of a fleet, which its drivers and whoever asks for it can reach. For one thread.

    Args:
        storage_options: Of the folder's and the queues' fsspec file systems, where they are URLs.

    Raises:
        ValueError, StoreNotInstalled, CredentialsRefused, NoExclusiveCreate: as :func:`.store_at`.
    """

    def __init__(self, path: AnyPath, storage_options: StorageOptions | None = None) -> None:
        self.storage_options = storage_options
        self._store = store_at(path, self.options_of(path))
        self.path = self._store.url
        self._written: int | None = None
        """The number of the notes that this one has written last."""

    def make(self) -> None:
        """Make the folder on a disk, for its owner alone; a store has none to be made."""
        if self._store.appends:
            LocalFolder(self.path).make()

    def options_of(self, path: AnyPath) -> StorageOptions | None:
        """Return the storage options for a path of this fleet; None for a local path."""
        return self.storage_options if is_url(path) else None

    def beside(self, path: AnyPath) -> FleetFolder:
        """Another fleet's, with the same options."""
        return FleetFolder(path, self.storage_options)

    def leases(self) -> Leases:
        """Leases of the fleet's drivers."""
        return leases_of(self.path, self.options_of(self.path))

    def queue(self, path: str) -> Store:
        """Return the store of a queue of this fleet."""
        return store_at(queue_path(path), self.options_of(path))

    # -- notes --------------------------------------------------------------------------------

    def is_there(self) -> bool:
        return bool(self._versions()) or self._is_first_layout()

    def read(self) -> Notes:
        """The notes.

        Raises:
            NotAFleet: there are none.
            CorruptLog: they are damaged.
            UnsupportedVersion: a later release wrote them.
        """
        versions = self._versions()
        while versions:
            name = f"{NOTES}/{_numbered(versions[-1])}"
            try:
                return self._decoded(name, notes_of)
            except FileNotFoundError:
                # The driver has written newer ones since, and deleted these.
                before, versions = versions, self._versions()
                if versions[-1:] == before[-1:]:
                    raise
        if self._is_first_layout():
            return self._decoded(_FIRST_LAYOUT, notes_of)
        raise NotAFleet(f"{self.path}: no fleet here (one has a folder {NOTES!r})")

    def write(self, notes: Notes, check_lease: Callable[[], None] | None = None) -> None:
        """The next version of them, in place of the last.

        ``check_lease`` is called where somebody else has written one meanwhile, and raises where
        it is that one's fleet by now; without it the folder is nobody's yet.

        Raises:
            Fenced: of ``check_lease``. Nothing was written.
            FileExistsError: the folder was somebody's.
        """
        document = {"version": VERSION, "write_id": secrets.token_hex(8), **notes_json(notes)}
        number = self._following() if self._written is None else self._written + 1
        while True:
            try:
                self._store.create(f"{NOTES}/{_numbered(number)}", [_text(document)])
                break
            except FileExistsError:
                if check_lease is None:
                    raise
                check_lease()
                number = self._following()
        self._written = number
        if number % _KEPT == 0:
            old = [version for version in self._versions() if version <= number - _KEPT]
            self._store.delete([f"{NOTES}/{_numbered(version)}" for version in old])

    def _versions(self) -> list[int]:
        matches = (_NUMBERED.fullmatch(entry.name) for entry in self._store.list(NOTES))
        return sorted(int(match[1]) for match in matches if match)

    def _following(self) -> int:
        """The number behind the newest version's."""
        return max(self._versions(), default=-1) + 1

    def _is_first_layout(self) -> bool:
        return self._store.appends and any(e.name == _FIRST_LAYOUT for e in self._store.list())

    # -- places -------------------------------------------------------------------------------

    def checkpoint_of(self, query: str, generation: int) -> str:
        """The checkpointLocation of a query."""
        return f"{self.path}/{_place(query, generation)}"

    def generations(self, query: str) -> list[int]:
        """Return the generations that have a checkpoint of this query, ascending."""
        entries = self._store.list(f"{QUERIES}/{query}")
        return sorted(
            int(entry.name) for entry in entries if entry.is_folder and entry.name.isdecimal()
        )

    def is_whole(self, query: str, generation: int) -> bool:
        """Return True if this checkpoint is complete; in a store its parts are there earlier."""
        return any(e.name == METADATA for e in self._store.list(_place(query, generation)))

    def discard_parts(self, query: str, generation: int) -> None:
        """Delete the parts of this checkpoint that a rollback left when its process was killed."""
        self._store.delete(list(self._below(_place(query, generation))))

    def _below(self, folder: str) -> Iterator[str]:
        for entry in self._store.list(folder):
            path = f"{folder}/{entry.name}"
            if entry.is_folder:
                yield from self._below(path)
            else:
                yield path

    # -- global checkpoints -------------------------------------------------------------------

    def checkpoints(self) -> list[int]:
        """The numbers of those that are kept, ascending."""
        return sorted(self._checkpoint_names())

    def _checkpoint_names(self) -> dict[int, list[str]]:
        """Return the checkpoints' names by number: the last, of the newest generation, holds.

        One of an older generation than another before it is no checkpoint: a driver was asleep
        during a rollback, and has recorded what that has taken back.
        """
        names = [entry.name for entry in self._store.list(CHECKPOINTS)]
        # The first layout had one to a number, without its generation.
        candidates = sorted(
            (int(match[1]), int(match[2] or -1), match[0])
            for match in map(_CHECKPOINT.fullmatch, names)
            if match
        )
        kept: dict[int, list[str]] = {}
        newest = -1
        for number, generation, name in candidates:
            if generation >= newest:
                kept.setdefault(number, []).append(f"{CHECKPOINTS}/{name}")
                newest = generation
        return kept

    def checkpoint(self, number: int) -> GlobalCheckpoint:
        """One of them.

        Raises:
            NoGlobalCheckpoint: it is not there.
            CorruptLog, UnsupportedVersion: as :meth:`read`.
        """
        names = self._checkpoint_names()
        if number not in names:
            kept = ", ".join(map(str, sorted(names))) or "none"
            raise NoGlobalCheckpoint(
                f"{self.path}: no global checkpoint {number}; there are {kept}"
            )
        return self._decoded(names[number][-1], checkpoint_of)

    def checkpoint_at(self, at_us: int) -> GlobalCheckpoint:
        """The newest one that was taken at this moment or before.

        Raises:
            NoGlobalCheckpoint: none that is kept is as old as that.
        """
        for number in reversed(self.checkpoints()):
            checkpoint = self.checkpoint(number)
            if checkpoint.at_us <= at_us:
                return checkpoint
        raise NoGlobalCheckpoint(f"{self.path}: no global checkpoint that is kept is so old")

    def newest_checkpoint(self) -> GlobalCheckpoint | None:
        numbers = self.checkpoints()
        return self.checkpoint(numbers[-1]) if numbers else None

    def add_checkpoint(self, taken: GlobalCheckpoint, kept: int) -> None:
        """Record one, and forget the oldest so that no more than ``kept`` are left.

        Raises:
            FileExistsError: there is another one of its number and generation.
        """
        document = {"version": VERSION, "write_id": secrets.token_hex(8), **asdict(taken)}
        name = f"{CHECKPOINTS}/{taken.number:012d}-{taken.generation}.json"
        try:
            self._store.create(name, [_text(document)])
        except FileExistsError:
            # Somebody who died in the middle may have recorded it.
            if self._decoded(name, checkpoint_of) != taken:
                raise
        names = self._checkpoint_names()
        self._store.delete([path for old in sorted(names)[:-kept] for path in names[old]])

    def drop_checkpoints(self, above: int) -> None:
        """Delete those with a number above ``above``, which a rollback has gone back behind."""
        names = self._checkpoint_names()
        self._store.delete([path for number in names if number > above for path in names[number]])

    # -- requests -----------------------------------------------------------------------------

    def ask(self, request: str) -> None:
        """Make a request to the fleet's driver: one that :class:`Requests` knows."""
        with suppress(FileExistsError):
            self._store.create(f"{REQUESTS}/{request}", [secrets.token_hex(8).encode()])

    def requests(self) -> Requests:
        """Return what the driver is asked for: what it has not done yet, and what holds on."""
        return Requests(frozenset(entry.name for entry in self._store.list(REQUESTS)))

    def withdraw(self, request: str) -> None:
        self._store.delete([f"{REQUESTS}/{request}"])

    # -- files --------------------------------------------------------------------------------

    def _decoded(self, name: str, decode: Callable[[Mapping[str, Any]], _Values]) -> _Values:
        path = f"{self.path}/{name}"
        try:
            document = json.loads(self._store.read(name))
        except ValueError as error:
            raise CorruptLog(path, 0, f"it is no JSON: {error}", _ADVICE) from error
        if not isinstance(document, dict):
            raise CorruptLog(path, 0, "it is no JSON object", _ADVICE)
        if document.get("version") != VERSION:
            raise upgrade_needed(path, f"version {document.get('version')!r} of a fleet's notes")
        try:
            return decode(document)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise CorruptLog(path, 0, f"it says what cannot be: {error}", _ADVICE) from error


def _place(query: str, generation: int) -> str:
    return f"{QUERIES}/{query}/{generation}"


def _numbered(number: int) -> str:
    return f"{number:012d}.json"


def _text(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
