"""A store of one of Spark's own providers in figures."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cec_store.inspector.built_in.loads import Load, load_of
from cec_store.inspector.built_in.store_files import StoreFiles


@dataclass(frozen=True)
class StoreFigures:
    """Files and bytes of a store, and those that a restart would read."""

    files: int
    """Files of the store without checksums, shared ones included."""
    bytes: int
    snapshots: int
    change_files: int
    first_version: int | None
    """The oldest and newest of which there is a file of its own; ``None``: there is none."""
    last_version: int | None
    restart: Load | None = None
    """``None`` where no version is asked for."""

    def restarted(
        self, files: StoreFiles, version: int | None, unique_id: str | None = None
    ) -> StoreFigures:
        """Return the figures with what a restart at this version reads, if one is asked for.

        Raises as :func:`cec_store.inspector.built_in.loads.load_of`.
        """
        return (
            self if version is None else replace(self, restart=load_of(files, version, unique_id))
        )


def figures_of(files: StoreFiles) -> StoreFigures:
    """Return the figures without a restart.

    Raises:
        FileNotFoundError: Spark has deleted a file meanwhile.
    """
    own, shared = files.files, files.shared
    versions = [file.version for file in own]
    return StoreFigures(
        files=len(own) + len(shared),
        bytes=sum(files.size(file.name) for file in own) + sum(shared.values()),
        snapshots=sum(file.is_snapshot for file in own),
        change_files=sum(not file.is_snapshot for file in own),
        first_version=min(versions, default=None),
        last_version=max(versions, default=None),
    )
