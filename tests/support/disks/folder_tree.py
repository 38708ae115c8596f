"""Simulated folders within folders: what a process death or a power cut leaves of all of them."""

from __future__ import annotations

import threading
from random import Random

from support.disks.simulated_folder import Image, SimulatedFolder, images


class Died(BaseException):
    """The process is dead; whatever it still tries does not happen."""


class Tree:
    """Holds the folders, counts their operations, and dies at one of them."""

    def __init__(self, disks: dict[str, Image] | None = None, dies_at: int | None = None) -> None:
        self.dies_at = dies_at
        self.operations = 0
        self.made = set(disks or {})
        self._guard = threading.Lock()
        self._folders = {path: Branch(self, path, image) for path, image in (disks or {}).items()}

    def at(self, path: str) -> Branch:
        with self._guard:
            if path not in self._folders:
                self._folders[path] = Branch(self, path)
            return self._folders[path]

    def forget(self, path: str) -> None:
        with self._guard:
            self._folders.pop(path, None)
            self.made.discard(path)

    def count(self) -> None:
        """Called ahead of each operation."""
        with self._guard:
            self.operations += 1
            if self.dies_at is not None and self.operations > self.dies_at:
                raise Died

    def after_kill(self) -> Tree:
        """Same machine, new process: all that was written is there, synced or not."""
        return Tree({path: self._folders[path].image() for path in self.made})

    def after_power_cut(self, random: Random) -> Tree:
        """One of the disks that may be left; each folder's is chosen by itself."""
        disks = {}
        for path in sorted(self.made):
            snapshot = self._folders[path].snapshot()
            found = [image for _, image in zip(range(400), images(snapshot, 3), strict=False)]
            disks[path] = random.choice(found)
        return Tree(disks)


class Branch(SimulatedFolder):
    """One folder of a tree. Making it is durable at once, as storage/local.py has it."""

    def __init__(self, tree: Tree, path: str, image: Image = ()) -> None:
        super().__init__(image)
        self.path = path
        self._tree = tree
        self.before_operation = lambda operation, name: tree.count()

    def exists(self) -> bool:
        return self.path in self._tree.made

    def make(self) -> None:
        self._tree.count()
        parent = self.path.rpartition("/")[0]
        assert not parent or parent in self._tree.made, "its parent's name would not be durable"
        self._tree.made.add(self.path)

    def folder(self, name: str) -> Branch:
        return self._tree.at(f"{self.path}/{name}")

    def names(self) -> list[str]:
        own = super().names()
        inside = self.path + "/"
        children = [p.removeprefix(inside) for p in self._tree.made if p.startswith(inside)]
        return sorted(own + [name for name in children if "/" not in name])

    def remove(self) -> None:
        for name in super().names():
            self.unlink(name)
        self._tree.count()
        self._tree.forget(self.path)
