"""The folder of a path or URL: the one place where these become something to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from cec_store.storage.folder import Folder
from cec_store.storage.local import LocalFolder
from cec_store.storage.paths import PATH_TYPES, AnyPath, is_url
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.local_store import LocalStore
from cec_store.storage.stores.store import Store
from cec_store.storage.stores.store_folder import StoreFolder

StorageOptions = Mapping[str, Any]
"""Options of the fsspec file system of a URL, as pandas takes them."""
AnyFolder = LocalFolder | StoreFolder
_Folder = TypeVar("_Folder", bound=Folder)


def folder_at(
    path: AnyPath | _Folder, storage_options: StorageOptions | None = None
) -> AnyFolder | _Folder:
    """The folder of a local path, ``file://``, or a URL; one that is open already as it is.

    Raises:
        ValueError: no such path or URL, or options for local files, which have none.
        StoreNotInstalled, CredentialsRefused, NoExclusiveCreate: as :func:`.by_url.store_at`.
    """
    if not isinstance(path, PATH_TYPES):
        if storage_options:
            raise ValueError(f"{path.path}: is open already; storage_options are for a URL")
        return path
    store = store_at(path, storage_options)
    if isinstance(store, LocalStore):
        return LocalFolder(store.url)
    return _root_of(store, storage_options)


def folders_at(
    paths: tuple[AnyPath | AnyFolder, AnyPath | AnyFolder],
    storage_options: StorageOptions | None = None,
) -> tuple[AnyFolder, AnyFolder]:
    """Return the folders of two paths; the options are for those that are URLs.

    Raises the errors of :func:`folder_at`, also for options where neither path is a URL.
    """

    def is_remote(path: AnyPath | AnyFolder) -> bool:
        return isinstance(path, PATH_TYPES) and is_url(path)

    for_all = storage_options if not any(map(is_remote, paths)) else None
    first, second = paths
    return (
        folder_at(first, storage_options if is_remote(first) else for_all),
        folder_at(second, storage_options if is_remote(second) else for_all),
    )


def store_of(folder: Folder) -> Store | None:
    """The store of which a folder is the root; ``None`` where it is inside of one."""
    if isinstance(folder, LocalFolder):
        return LocalStore(folder.path)
    return folder.root if isinstance(folder, StoreFolder) else None


def local_of(folder: Folder) -> LocalFolder | None:
    """Return the folder as one of this machine's file systems, which offers more than others do.

    ``None``: it is in a store.
    """
    return folder if isinstance(folder, LocalFolder) else None


def _root_of(store: Store, storage_options: StorageOptions | None) -> StoreFolder:
    scheme, _, rest = store.url.partition("://")
    outer, _, _ = rest.rpartition("/")

    def above() -> StoreFolder:
        return _root_of(store_at(f"{scheme}://{outer}", storage_options), storage_options)

    return StoreFolder(store, above if outer else None)
