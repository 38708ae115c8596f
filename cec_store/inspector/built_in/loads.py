"""The files that Spark reads to load a version: a snapshot, and the changes of versions since."""

from __future__ import annotations

from dataclasses import dataclass

from cec_store.connectors.spark.checkpoint.parsing import damaged
from cec_store.inspector.built_in.changed_rows import read_head
from cec_store.inspector.built_in.snapshots import read_snapshot
from cec_store.inspector.built_in.store_files import StoreFile, StoreFiles, missing


@dataclass(frozen=True)
class Load:
    """Files and bytes that loading one version reads."""

    version: int
    snapshot_version: int | None
    """``None``: it begins with nothing, at version 0."""
    snapshot_files: int
    """Files of the snapshot, those that a zip names included."""
    snapshot_bytes: int
    change_files: int
    change_bytes: int
    keys: int | None
    """Keys in the snapshot; ``None`` where it does not say."""

    @property
    def files(self) -> int:
        """Files that the load reads."""
        return self.snapshot_files + self.change_files

    @property
    def bytes(self) -> int:
        """Bytes that the load reads."""
        return self.snapshot_bytes + self.change_bytes


@dataclass(frozen=True)
class Chain:
    """The files that a version is made of, oldest first."""

    snapshot: StoreFile | None
    changes: tuple[StoreFile, ...]


def chain_of(files: StoreFiles, version: int, unique_id: str | None = None) -> Chain:
    """Return the files that Spark would read for a version.

    Raises:
        CorruptLog: one is missing, or one that names others is damaged.
        FileNotFoundError: Spark has deleted one meanwhile.
    """
    if unique_id is None:
        return _by_numbers(files, version)
    own = files.snapshot(version, unique_id)
    if own is not None:
        return Chain(own, ())
    before = _before(files, version, unique_id)
    chosen: StoreFile | None = None
    for number, base_id in before:
        chosen = files.snapshot(number, base_id) or chosen
    if chosen is None and before and before[0][0] != 1:
        number, base_id = before[0]
        raise missing(files, f"{number}_{base_id}.zip")
    after = 0 if chosen is None else chosen.version
    return Chain(chosen, tuple(_changes(files, n, i) for n, i in before if n > after))


def _by_numbers(files: StoreFiles, version: int) -> Chain:
    for number in range(version, 0, -1):
        if snapshot := files.snapshot(number):
            changes = range(number + 1, version + 1)
            return Chain(snapshot, tuple(_changes(files, later) for later in changes))
    return Chain(None, tuple(_changes(files, later) for later in range(1, version + 1)))


def _before(files: StoreFiles, version: int, unique_id: str) -> list[tuple[int, str]]:
    """The versions back to a snapshot with their ids, this one included, ascending."""
    own = _changes(files, version, unique_id)
    head = read_head(files.folder, own.name)
    if head is None:
        what = "it is compressed in a way that is not read here, so what it builds on is not known"
        raise damaged(files.path(own.name), 0, what)
    return sorted([*head.before, (version, unique_id)])


def _changes(files: StoreFiles, version: int, unique_id: str | None = None) -> StoreFile:
    file = files.changes(version, unique_id)
    if file is not None:
        return file
    suffixes = {other.suffix for other in files.files}
    suffix = "delta" if suffixes & {"delta", "snapshot"} else "changelog"
    if suffix == "changelog" and suffix not in suffixes:
        suffix = "zip"  # without changelogs each version has one
    raise missing(files, f"{version}{f'_{unique_id}' if unique_id else ''}.{suffix}")


def load_of(files: StoreFiles, version: int, unique_id: str | None = None) -> Load:
    """Return the files and bytes that loading a version reads.

    Raises:
        CorruptLog: a file is missing, or the snapshot is damaged.
        FileNotFoundError: Spark has deleted one meanwhile.
    """
    chain = chain_of(files, version, unique_id)
    count = size = 0
    keys: int | None = None
    if chain.snapshot is not None:
        count, size = 1, files.size(chain.snapshot.name)
        if chain.snapshot.suffix == "zip":
            snapshot = read_snapshot(files.folder, chain.snapshot.name)
            keys, count = snapshot.keys, count + len(snapshot.shared)
            size += sum(snapshot.shared.values())
    return Load(
        version=version,
        snapshot_version=None if chain.snapshot is None else chain.snapshot.version,
        snapshot_files=count,
        snapshot_bytes=size,
        change_files=len(chain.changes),
        change_bytes=sum(files.size(file.name) for file in chain.changes),
        keys=keys,
    )
