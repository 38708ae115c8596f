"""The folder of a fleet: its notes, its global checkpoints, and requests to its driver.

docs/fleets.md has the layout. Of the notes there is one writer, the driver that holds the lease.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from cec_store.connectors.spark.fleet.notes import (
    GlobalCheckpoint,
    Notes,
    checkpoint_of,
    notes_json,
    notes_of,
)
from cec_store.errors import CorruptLog, NoGlobalCheckpoint, NotAFleet, upgrade_needed
from cec_store.storage.local import LocalFolder
from cec_store.storage.paths import AnyPath
from cec_store.storage.publishing import publish_file, remove

NOTES = "fleet.json"
QUERIES = "queries"
CHECKPOINTS = "checkpoints"
REQUESTS = "requests"
STOP = "stop"
VERSION = 1
_CHECKPOINT = re.compile(r"([0-9]{12})\.json")
_ADVICE = "restore it from a copy"
_Values = TypeVar("_Values")


class FleetFolder:
    """The folder of a fleet, on a disk that its driver and whoever asks for it share."""

    def __init__(self, path: AnyPath) -> None:
        self._folder = LocalFolder(path)
        self.path = self._folder.path

    def make(self) -> None:
        """It, and those below."""
        for folder in (self._folder, *map(self._folder.folder, (QUERIES, CHECKPOINTS, REQUESTS))):
            folder.make()

    # -- notes --------------------------------------------------------------------------------

    def is_there(self) -> bool:
        return self._folder.exists() and NOTES in self._folder.names()

    def read(self) -> Notes:
        """The notes.

        Raises:
            NotAFleet: there are none.
            CorruptLog: they are damaged.
            UnsupportedVersion: a later release wrote them.
        """
        if not self.is_there():
            raise NotAFleet(f"{self.path}: no fleet here (one has a file {NOTES!r})")
        said = _json(self._folder, NOTES)
        return _decoded(f"{self.path}/{NOTES}", said, lambda: notes_of(said))

    def write(self, notes: Notes) -> None:
        """Replace them at once."""
        publish_file(self._folder, NOTES, _text({"version": VERSION, **notes_json(notes)}))

    # -- places -------------------------------------------------------------------------------

    def checkpoint_of(self, query: str, generation: int) -> str:
        """The checkpointLocation of a query."""
        return f"{self.path}/{QUERIES}/{query}/{generation}"

    def generations(self, query: str) -> list[int]:
        """That have a checkpoint of this query."""
        folder = self._folder.folder(QUERIES).folder(query)
        names = folder.folders() if folder.exists() else {}
        return sorted(int(name) for name in names if name.isdecimal())

    # -- global checkpoints -------------------------------------------------------------------

    def checkpoints(self) -> list[int]:
        """The numbers of those that are kept, ascending."""
        folder = self._folder.folder(CHECKPOINTS)
        found = map(_CHECKPOINT.fullmatch, folder.names() if folder.exists() else [])
        return sorted(int(each[1]) for each in found if each)

    def checkpoint(self, number: int) -> GlobalCheckpoint:
        """One of them.

        Raises:
            NoGlobalCheckpoint: it is not there.
            CorruptLog, UnsupportedVersion: as :meth:`read`.
        """
        name = _checkpoint_name(number)
        folder = self._folder.folder(CHECKPOINTS)
        if number not in self.checkpoints():
            kept = ", ".join(map(str, self.checkpoints())) or "none"
            raise NoGlobalCheckpoint(
                f"{self.path}: no global checkpoint {number}; there are {kept}"
            )
        said = _json(folder, name)
        return _decoded(f"{folder.path}/{name}", said, lambda: checkpoint_of(said))

    def checkpoint_at(self, at_us: int) -> GlobalCheckpoint:
        """The newest one that was taken at this moment or before.

        Raises:
            NoGlobalCheckpoint: none that is kept is as old as that.
        """
        for number in reversed(self.checkpoints()):
            found = self.checkpoint(number)
            if found.at_us <= at_us:
                return found
        raise NoGlobalCheckpoint(f"{self.path}: no global checkpoint that is kept is so old")

    def newest_checkpoint(self) -> GlobalCheckpoint | None:
        numbers = self.checkpoints()
        return self.checkpoint(numbers[-1]) if numbers else None

    def add_checkpoint(self, taken: GlobalCheckpoint, kept: int) -> None:
        """Record one, and forget the oldest so that no more than ``kept`` are left."""
        folder = self._folder.folder(CHECKPOINTS)
        publish_file(
            folder, _checkpoint_name(taken.number), _text({"version": VERSION, **asdict(taken)})
        )
        for number in self.checkpoints()[:-kept]:
            remove(folder, _checkpoint_name(number))

    def drop_checkpoints(self, above: int) -> None:
        """Those that a rollback has gone back behind."""
        folder = self._folder.folder(CHECKPOINTS)
        for number in self.checkpoints():
            if number > above:
                remove(folder, _checkpoint_name(number))

    # -- requests -----------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """Whoever drives the fleet stops all of it."""
        publish_file(self._folder.folder(REQUESTS), STOP, b"")

    def is_asked_to_stop(self) -> bool:
        return STOP in self._folder.folder(REQUESTS).names()

    def withdraw_stop(self) -> None:
        remove(self._folder.folder(REQUESTS), STOP)


def _checkpoint_name(number: int) -> str:
    return f"{number:012d}.json"


def _text(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()


def _json(folder: LocalFolder, name: str) -> Mapping[str, Any]:
    path = f"{folder.path}/{name}"
    for is_last in (False, False, True):
        data = folder.read(name, 0, folder.size(name))
        try:
            said = json.loads(data)
            break
        except ValueError as error:
            # It may have been replaced by a longer one between the two calls.
            if is_last:
                raise CorruptLog(path, 0, f"it is no JSON: {error}", _ADVICE) from error
    if not isinstance(said, dict):
        raise CorruptLog(path, 0, "it is no JSON object", _ADVICE)
    return said


def _decoded(path: str, said: Mapping[str, Any], decode: Callable[[], _Values]) -> _Values:
    if said.get("version") != VERSION:
        raise upgrade_needed(path, f"version {said.get('version')!r} of a fleet's notes")
    try:
        return decode()
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptLog(path, 0, f"it says what cannot be: {error}", _ADVICE) from error
