"""Epochs: writers claim one, and publish the manifest under it. docs/format.md §2."""

from __future__ import annotations

from contextlib import suppress

from cec_store.errors import CorruptLog, NotAQueue, StorageError
from cec_store.format.manifest import EPOCH_MAX, MANIFEST_BYTES, Manifest
from cec_store.storage.folder import Folder
from cec_store.storage.names import (
    claim_name,
    claimed_epoch_of,
    manifest_epoch_of,
    manifest_name,
)
from cec_store.storage.publishing import publish_file, remove


def newest_epoch(folder: Folder) -> int | None:
    """The epoch of the writer that may append; ``None`` where there is no manifest."""
    if not folder.exists():
        return None
    epochs = [manifest_epoch_of(name) for name in folder.names()]
    return max((epoch for epoch in epochs if epoch is not None), default=None)


def newest_claim(names: list[str]) -> int:
    """The newest epoch in a listing, of a manifest or of a writer that is taking over; or -1."""
    epochs = [manifest_epoch_of(name) for name in names] + [claimed_epoch_of(n) for n in names]
    return max((epoch for epoch in epochs if epoch is not None), default=-1)


def has_successor(folder: Folder, epoch: int) -> bool:
    """Return whether a writer of a higher epoch has begun to take over from this one.

    Asks for two names only, so it takes as long in a queue of many files. Whoever takes over first
    claims the next epoch, and leaves a trace of it until this one's manifest is removed: the
    manifests go before the claims (:func:`remove_older_manifests`). So ask for that manifest next.
    """
    successors = (claim_name(epoch + 1), manifest_name(epoch + 1))
    return any(_is_there(folder, name) for name in successors)


def _is_there(folder: Folder, name: str) -> bool:
    try:
        folder.size(name)
    except FileNotFoundError:
        return False
    return True


def remove_older_manifests(folder: Folder, epoch: int) -> None:
    """The claims up to ``epoch`` as well, as its manifest stands in their place; manifests first.

    An older writer that finds neither its successor's claim nor its manifest then misses its own.
    """
    names = folder.names()
    manifests = {name: number for name in names if (number := manifest_epoch_of(name)) is not None}
    claims = {name: number for name in names if (number := claimed_epoch_of(name)) is not None}
    older = sorted((number, name) for name, number in manifests.items() if number < epoch)
    claimed = sorted((number, name) for name, number in claims.items() if number <= epoch)
    for _, name in (*older, *claimed):
        remove(folder, name)


def claim_epoch(folder: Folder) -> int:
    """Announce a writer of a new epoch and return it: those before acknowledge nothing more.

    The claim is a file beside the manifest. A manifest has to say what the last writer has
    acknowledged, and until that writer sees the claim it may acknowledge more than was read.

    Raises:
        StorageError: the epochs are used up.
    """
    while True:
        epoch = newest_claim(folder.names()) + 1
        if epoch > EPOCH_MAX:
            raise StorageError(f"{folder.path}: opened for append 2^32 times, and never again")
        with suppress(FileExistsError):
            folder.create(claim_name(epoch)).close()
            return epoch


def read_manifest(folder: Folder) -> Manifest:
    """The manifest of the newest epoch.

    Raises:
        NotAQueue: there is none.
        CorruptLog: it is damaged.
        UnsupportedVersion: a later format wrote it.
    """
    while True:
        names = folder.names() if folder.exists() else []
        epoch = max((n for n in map(manifest_epoch_of, names) if n is not None), default=None)
        if epoch is None:
            break
        name = manifest_name(epoch)
        path = f"{folder.path}/{name}"
        try:
            data = folder.read(name, 0, MANIFEST_BYTES + 1)
        except FileNotFoundError:
            continue  # a new writer has just published its own and removed this one
        manifest = Manifest.decode(data, path)
        if manifest.epoch != epoch:
            raise CorruptLog(path, 12, f"the manifest is of epoch {manifest.epoch}")
        return manifest
    raise NotAQueue(f"{folder.path}: no queue here (there is no file {manifest_name(0)[:9]}…)")


def publish_manifest(folder: Folder, manifest: Manifest) -> None:
    """Put the manifest under its epoch's name, durably and at once."""
    publish_file(folder, manifest_name(manifest.epoch), manifest.encode())
