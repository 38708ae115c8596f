"""The files in which Spark's own providers keep a store, told by their names.

::

    N.delta, N.snapshot         HDFS-backed: what version N changed, and all of it
    N.changelog, N.zip          RocksDB: the same; a zip says which of these it is made of:
    SSTs/NAME.sst, logs/…       files that never change, which several versions share
    N_ID.changelog, N_ID.zip    RocksDB, checkpoint format V2: by the version's unique id

Beside a file may stand its checksums: `FILE.crc` is Spark's own, `.FILE.crc` Hadoop's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from cec_store.connectors.spark.checkpoint.layout import SHARED_FOLDERS
from cec_store.connectors.spark.checkpoint.parsing import damaged
from cec_store.errors import CorruptLog
from cec_store.storage.folder import FolderTree

MISSING = "the file is missing"
_NAME = re.compile(r"([0-9]{1,18})(?:_([0-9a-f-]{36}))?\.(delta|snapshot|changelog|zip)")
_SNAPSHOTS = ("snapshot", "zip")


@dataclass(frozen=True)
class StoreFile:
    """All of a version, or what it changed."""

    name: str
    version: int
    unique_id: str | None
    suffix: str

    @property
    def is_snapshot(self) -> bool:
        """True for a snapshot, False for a file of changes."""
        return self.suffix in _SNAPSHOTS


class StoreFiles:
    """A look at the folder of one store."""

    def __init__(self, folder: FolderTree) -> None:
        """Raises ``FileNotFoundError`` where there is none."""
        if not folder.exists():
            raise FileNotFoundError(f"{folder.path}: the folder is missing")
        self.folder = folder
        self.names = frozenset(folder.names())
        self.files = sorted(_files(self.names), key=lambda f: (f.version, f.name))

    def snapshot(self, version: int, unique_id: str | None = None) -> StoreFile | None:
        """Return the snapshot of a version, or ``None``."""
        return self._found.get((version, unique_id, True))

    def changes(self, version: int, unique_id: str | None = None) -> StoreFile | None:
        """Return the file with the changes of a version, or ``None``."""
        return self._found.get((version, unique_id, False))

    def size(self, name: str) -> int:
        """Return the bytes of a file; FileNotFoundError where Spark has deleted it meanwhile."""
        if name not in self._sizes:
            self._sizes[name] = self.folder.size(name)
        return self._sizes[name]

    def path(self, name: str) -> str:
        return f"{self.folder.path}/{name}"

    @cached_property
    def shared(self) -> Mapping[str, int]:
        """Bytes of what zips share, by `SSTs/NAME` or `logs/NAME`."""
        sizes = {}
        folders = self.folder.folders()
        for inside in sorted(SHARED_FOLDERS):
            if inside in folders:
                at = folders[inside]
                names = [n for n in at.names() if n.endswith((".sst", ".log"))]
                sizes.update({f"{inside}/{name}": at.size(name) for name in names})
        return sizes

    @cached_property
    def _found(self) -> dict[tuple[int, str | None, bool], StoreFile]:
        return {(f.version, f.unique_id, f.is_snapshot): f for f in self.files}

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {}


def _files(names: frozenset[str]) -> Iterator[StoreFile]:
    for name in names:
        if match := _NAME.fullmatch(name):
            yield StoreFile(name, int(match[1]), match[2], match[3])


def missing(files: StoreFiles, name: str) -> CorruptLog:
    """The error for a file that a version needs."""
    return damaged(files.path(name), 0, MISSING)
