"""A new folder with all that is in it, on local disks or in a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from cec_store.storage.folder import Folder
from cec_store.storage.local import LocalFolder
from cec_store.storage.publishing import write_file
from cec_store.storage.stores.folders import AnyFolder
from cec_store.storage.stores.store_folder import StoreFolder
from cec_store.storage.trees import check_new, copy, link, new_tree, sync_files

_CLAIM = "_being_made"
"""Object of a store that is in a new folder while it is being made."""


class NewTree:
    """Takes files, by the folder that they are in below it. ``made`` has those in a store."""

    def __init__(self, root: AnyFolder) -> None:
        self.root = root
        self.made: list[tuple[StoreFolder, str]] = []
        self._folders: dict[str, AnyFolder] = {"": root}

    def _folder(self, inside: str) -> AnyFolder:
        if inside not in self._folders:
            above, _, name = inside.rpartition("/")
            self._folders[inside] = self._folder(above).folder(name)
            self._folders[inside].make()
        return self._folders[inside]

    def write(self, inside: str, name: str, data: bytes) -> None:
        """A small file of these bytes."""
        folder = self._folder(inside)
        if isinstance(folder, StoreFolder):
            folder.put(name, [data])
            self.made.append((folder, name))
        else:
            write_file(folder, name, data)

    def take(self, inside: str, source: Folder, name: str, size: int, *, is_final: bool) -> bool:
        """The first ``size`` bytes of a file; whether it could be linked.

        ``is_final``: that is all of it, and nobody writes to it any more.

        Raises:
            FileNotFoundError: it is not there, or not that long any more.
        """
        folder = self._folder(inside)
        if isinstance(folder, StoreFolder):
            data = source.read(name, 0, size)
            if len(data) < size:
                raise FileNotFoundError(f"{source.path}/{name}: was cut while it was copied")
            self.write(inside, name, data)
            return False
        if is_final and isinstance(source, LocalFolder) and link(source, name, folder):
            return True
        copy(source, name, folder, size)
        return False

    def sync(self) -> None:
        """Return once the names of all are durable."""
        for folder in self._folders.values():
            folder.sync_names()


def check_new_folder(folder: AnyFolder) -> None:
    """Raises ``FileExistsError`` where something is there."""
    if isinstance(folder, LocalFolder):
        check_new(folder.path)
    else:
        _require_nothing_in(folder, folder.names())


def _require_nothing_in(folder: StoreFolder, names: list[str]) -> None:
    if _CLAIM in names:
        raise _being_made(folder)
    if names:
        raise FileExistsError(f"{folder.path}: is there already; name a folder that is not")


def _being_made(folder: StoreFolder) -> FileExistsError:
    return FileExistsError(
        f"{folder.path}: another process is making it, by {_CLAIM}; name another folder, or, if "
        "that process is dead, delete the folder with all that is in it"
    )


def sync_below(folder: AnyFolder) -> None:
    """Return once all files below it, and their names, are on disk, whoever wrote them.

    What a store has is durable when it is there.
    """
    if isinstance(folder, LocalFolder):
        sync_files(folder)


@contextmanager
def new_folder(folder: AnyFolder) -> Iterator[NewTree]:
    """A folder to be filled; once the block is done it is there, durably.

    On any failure nothing is left. Killed in the middle, a hidden sibling is (:func:`.new_tree`);
    but in a store, where names cannot be changed, files stand in their places from the first on.
    So what makes the folder count has to be written last. Without it they can be deleted. Of two
    that make one folder in a store at once, the second is refused before its block begins.

    Raises:
        FileExistsError: there is something, or somebody else makes it, or has made it meanwhile.
    """
    if isinstance(folder, LocalFolder):
        with new_tree(folder.path) as building:
            tree = NewTree(building)
            yield tree
            tree.sync()
        return
    check_new_folder(folder)
    with _claimed(folder):
        tree = NewTree(folder)
        try:
            yield tree
        except BaseException:
            for made, name in tree.made:
                made.delete([name])
            raise


@contextmanager
def _claimed(folder: StoreFolder) -> Iterator[None]:
    """Keep others from making the folder until the block is done, or all of it taken away.

    Raises:
        FileExistsError: another is making it, or has made it since it was looked for.
    """
    try:
        folder.put(_CLAIM, [uuid4().bytes])
    except FileExistsError:
        raise _being_made(folder) from None
    try:
        _require_nothing_in(folder, [name for name in folder.names() if name != _CLAIM])
        yield
    finally:
        folder.delete([_CLAIM])
