"""A directory as bytes: taken down, put up again, and mangled in ways that know no format."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

Tree = dict[str, bytes]
"""What each file holds, by its path in the directory."""
SECTOR_BYTES, PAGE_BYTES = 512, 4096
NOBODY = 65534
"""Who tries unreadable files where root runs the tests."""


def take_down(root: Path) -> Tree:
    """Every regular file below ``root``; of one that may not be read, only that it is there."""
    return {
        str(each.relative_to(root)): each.read_bytes()
        if os.access(each, os.R_OK, effective_ids=True)
        else b""
        for each in sorted(root.rglob("*"))
        if each.is_file() and not each.is_symlink()
    }


def put_up(tree: Tree, root: Path) -> None:
    """The directory anew; what was there is removed."""
    if root.exists():
        shutil.rmtree(root)
    root.mkdir(parents=True, mode=0o700)
    for name, data in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class Mangled:
    """A directory in which one thing is about to go wrong: `path` is the file that it meets."""

    def __init__(self, root: Path, older: list[Tree], random: Random, below: str = "") -> None:
        self.root = root
        self.older = older
        self.random = random
        files = (each for each in sorted(root.rglob("*")) if each.is_file())
        self.files = [p for p in files if str(p.relative_to(root)).startswith(below)]
        full = [each for each in self.files if each.stat().st_size]
        self.path = random.choice(full or self.files)
        self.unreadable = False

    @property
    def name(self) -> str:
        return str(self.path.relative_to(self.root))

    def data(self) -> bytearray:
        return bytearray(self.path.read_bytes())

    def write(self, data: bytes) -> None:
        self.path.write_bytes(data)

    def other(self) -> Path:
        """Another file of the same ending, or any other."""
        alike = [p for p in self.files if p != self.path and p.suffix == self.path.suffix]
        return self.random.choice(alike or [p for p in self.files if p != self.path] or [self.path])


Mangle = Callable[[Mangled], None]


# -- what becomes of a file's bytes -----------------------------------------------------------


def cut_a_little(it: Mangled) -> None:
    data = it.data()
    it.write(data[: -it.random.randint(1, min(256, len(data)))])


def cut_anywhere(it: Mangled) -> None:
    data = it.data()
    it.write(data[: it.random.randrange(len(data))])


def cut_three_thousand(it: Mangled) -> None:
    data = it.data()
    it.write(data[: max(0, len(data) - 3_000)])


def empty(it: Mangled) -> None:
    it.write(b"")


def append_zeros(it: Mangled) -> None:
    it.write(it.data() + bytes(it.random.choice((1, 128, SECTOR_BYTES, PAGE_BYTES))))


def append_noise(it: Mangled) -> None:
    it.write(it.data() + it.random.randbytes(it.random.randint(1, 2_000)))


def append_its_own_end(it: Mangled) -> None:
    data = it.data()
    it.write(data + data[-it.random.choice((128, SECTOR_BYTES, PAGE_BYTES)) :])


def _zero(it: Mangled, block: int, number: int | None) -> None:
    data = it.data()
    blocks = -(-len(data) // block)
    at = block * (it.random.randrange(blocks) if number is None else blocks - 1)
    data[at : at + block] = bytes(len(data[at : at + block]))
    it.write(data)


def zero_a_sector(it: Mangled) -> None:
    _zero(it, SECTOR_BYTES, None)


def zero_the_last_sector(it: Mangled) -> None:
    _zero(it, SECTOR_BYTES, -1)


def zero_a_page(it: Mangled) -> None:
    _zero(it, PAGE_BYTES, None)


def zero_the_last_page(it: Mangled) -> None:
    _zero(it, PAGE_BYTES, -1)


def swap_sectors(it: Mangled) -> None:
    data = it.data()
    a, b = (SECTOR_BYTES * it.random.randrange(-(-len(data) // SECTOR_BYTES)) for _ in range(2))
    size = min(SECTOR_BYTES, len(data) - max(a, b))
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    it.write(data)


def repeat_a_sector(it: Mangled) -> None:
    data = it.data()
    a, b = (SECTOR_BYTES * it.random.randrange(-(-len(data) // SECTOR_BYTES)) for _ in range(2))
    size = min(SECTOR_BYTES, len(data) - max(a, b))
    data[b : b + size] = data[a : a + size]
    it.write(data)


def flip_a_bit(it: Mangled) -> None:
    data = it.data()
    data[it.random.randrange(len(data))] ^= 1 << it.random.randrange(8)
    it.write(data)


def overwrite_a_few_bytes(it: Mangled) -> None:
    data = it.data()
    at = it.random.randrange(len(data))
    size = min(it.random.randint(1, 64), len(data) - at)
    data[at : at + size] = it.random.randbytes(size)
    it.write(data)


def lose_a_few_bytes(it: Mangled) -> None:
    """All behind them moves up, as after an edit."""
    data = it.data()
    at = it.random.randrange(len(data))
    del data[at : at + it.random.randint(1, 64)]
    it.write(data)


# -- what becomes of a file -------------------------------------------------------------------


def older_copy(it: Mangled) -> None:
    """One file as a backup has it; where none differs, the newest file that one does."""
    for path in [it.path, *reversed(it.files)]:
        name = str(path.relative_to(it.root))
        copies = [tree[name] for tree in it.older if name in tree]
        copies = [data for data in copies if data != path.read_bytes()]
        if copies:
            it.path = path
            it.write(it.random.choice(copies))
            return


def a_removed_file_comes_back(it: Mangled) -> None:
    """A backup is copied over the directory, and what it has besides stays."""
    gone = sorted({(name, data) for tree in it.older for name, data in tree.items()
                   if not (it.root / name).exists()})  # fmt: skip
    if gone:
        name, data = it.random.choice(gone)
        it.path = it.root / name
        it.path.parent.mkdir(parents=True, exist_ok=True)
        it.write(data)


def delete(it: Mangled) -> None:
    it.path.unlink()


def delete_a_folder(it: Mangled) -> None:
    folders = sorted({p.parent for p in it.files if p.parent != it.root})
    if folders:
        it.path = it.random.choice(folders)
        shutil.rmtree(it.path)
    else:
        it.path.unlink()


def swap_files(it: Mangled) -> None:
    other, mine = it.other(), it.data()
    it.write(other.read_bytes())
    other.write_bytes(mine)


def overwrite_by_another(it: Mangled) -> None:
    it.write(it.other().read_bytes())


def rename(it: Mangled) -> None:
    it.path.rename(it.path.with_name(it.path.name + ".bak"))


def rename_to_the_next_number(it: Mangled) -> None:
    it.path.rename(_next_name(it.path))


def copy_to_the_next_number(it: Mangled) -> None:
    shutil.copyfile(it.path, _next_name(it.path))


def _next_name(path: Path) -> Path:
    """The next that is free, by the last number in the name."""
    name = path.name
    while (path.parent / name).exists():
        counted = re.sub(
            r"\d+(?=\D*$)", lambda found: str(int(found[0]) + 1).zfill(len(found[0])), name
        )
        name = counted if counted != name else name + "1"
    return path.with_name(name)


def fifo(it: Mangled) -> None:
    it.path.unlink()
    os.mkfifo(it.path)


def directory(it: Mangled) -> None:
    it.path.unlink()
    it.path.mkdir()


def link(it: Mangled) -> None:
    """The file has moved, as to another disk, and a symbolic link stands where it was."""
    moved = it.root.parent / "moved"
    shutil.move(it.path, moved)
    it.path.symlink_to(moved)


def dangling_link(it: Mangled) -> None:
    it.path.unlink()
    it.path.symlink_to(it.root / "nowhere")


def unreadable(it: Mangled) -> None:
    it.path.chmod(0)
    it.unreadable = True


MANGLES: dict[str, Mangle] = {
    each.__name__: each
    for each in (
        cut_a_little, cut_anywhere, cut_three_thousand, empty, append_zeros, append_noise,
        append_its_own_end, zero_a_sector, zero_the_last_sector, zero_a_page, zero_the_last_page,
        swap_sectors, repeat_a_sector, flip_a_bit, overwrite_a_few_bytes, lose_a_few_bytes,
        older_copy, a_removed_file_comes_back, delete, delete_a_folder, swap_files,
        overwrite_by_another, rename, rename_to_the_next_number, copy_to_the_next_number, fifo,
        directory, link, dangling_link, unreadable,
    )
}  # fmt: skip
