"""A real folder whose writes and syncs are recorded, and the folders that a power cut may leave.

Calls of ``os`` below the folder are done for real and noted, so that stores are tried with the very
calls that they make. Faults and their limits are those of :mod:`.simulated_folder`; hidden files,
which no reader looks at, are left out of what a power cut leaves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from support.disks.simulated_folder import File, NameOp, Write, apply_name, outcomes, put

FOLDER = -1
"""Stands for the content of a folder."""
NAMES_ALL = 6
"""Up to so many names in doubt, each subset of them is tried."""

Disk = tuple[tuple[str, bytes | None], ...]
"""Names below the folder with contents, sorted; ``None`` for a folder."""


class Moment(NamedTuple):
    """The disk between two calls."""

    operation: str
    names: dict[str, int]
    """Durable ones."""
    doubtful_names: tuple[NameOp, ...]
    files: dict[int, File]
    marks: object
    """What the test had noted by then."""


class RecordedDisk:
    """Notes what is done below ``root`` within :meth:`recording`, by any thread."""

    def __init__(self, root: Path) -> None:
        self.root = os.path.realpath(root)
        self.moments: list[Moment] = []
        self.marks: object = None
        self._guard = threading.RLock()
        self._is_on = True
        self._files: dict[int, File] = {}
        self._of_inode: dict[int, int] = {}
        self._seen: dict[str, int] = {"": FOLDER}
        self._durable: dict[str, int] = {}
        self._doubtful: tuple[NameOp, ...] = ()

    def mark(self, marks: object) -> None:
        """Note something at this point."""
        self.marks = marks
        self._note("mark")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not look at what the block does, which changes nothing."""
        self._is_on = False
        try:
            yield
        finally:
            self._is_on = True

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note what the block does."""
        wrapped = {
            "open": self._open, "writev": self._writev, "write": self._write,
            "pwrite": self._pwrite, "fsync": self._sync, "fdatasync": self._sync,
            "link": self._link, "unlink": self._unlink, "rename": self._rename,
            "replace": self._rename, "mkdir": self._mkdir, "rmdir": self._unlink,
        }  # fmt: skip
        calls = {name: self._wrapped(getattr(os, name), note) for name, note in wrapped.items()}
        with patch.multiple(os, **calls):
            yield

    def _wrapped(self, call: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
        def do(*arguments: Any, **more: Any) -> Any:
            if not self._is_on:
                return call(*arguments, **more)
            with self._guard:
                result = call(*arguments, **more)
                note(result, *arguments)
                return result

        return do

    def _name(self, path: Any) -> str | None:
        """Return the name below the folder; ``None`` for one elsewhere."""
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        text = os.path.abspath(os.fsdecode(path))
        return text[len(self.root) + 1 :] if text.startswith(self.root + os.sep) else None

    def _note(self, operation: str) -> None:
        moment = Moment(
            operation, dict(self._durable), self._doubtful, dict(self._files), self.marks
        )
        self.moments.append(moment)

    def _change_name(self, kind: str, name: str, target: str, number: int) -> None:
        operation = NameOp(kind, name, target, number)
        apply_name(self._seen, operation)
        self._doubtful = (*self._doubtful, operation)
        self._note(f"{kind} {target or name}")

    # -- calls --------------------------------------------------------------------------------

    def _open(self, number: int, path: Any, flags: int, *_: Any) -> None:
        name = self._name(path)
        if name is not None and flags & os.O_CREAT and name not in self._seen:
            file = len(self._files)
            self._files[file] = File()
            self._of_inode[os.fstat(number).st_ino] = file
            self._change_name("create", name, name, file)

    def _file(self, number: int) -> int | None:
        return self._of_inode.get(os.fstat(number).st_ino)

    def _writev(self, written: int, number: int, parts: Any) -> None:
        data = b"".join(bytes(part) for part in parts)[:written]
        self._wrote(number, os.lseek(number, 0, os.SEEK_CUR) - written, data)

    def _write(self, written: int, number: int, data: Any) -> None:
        self._writev(written, number, [data])

    def _pwrite(self, written: int, number: int, data: Any, byte: int) -> None:
        self._wrote(number, byte, bytes(data)[:written])

    def _wrote(self, number: int, byte: int, data: bytes) -> None:
        file = self._file(number)
        if file is not None:
            old = self._files[file]
            self._files[file] = old._replace(pending=(*old.pending, Write(byte, data)))
            self._note("write")

    def _sync(self, _: None, number: int) -> None:
        file = self._file(number)
        if file is not None:
            content = self._files[file].durable
            for write in self._files[file].pending:
                content = put(content, *write)
            self._files[file] = File(content)
            self._note("sync")
            return
        folder = self._name(os.readlink(f"/proc/self/fd/{number}"))
        here = os.path.realpath(f"/proc/self/fd/{number}") == self.root
        if folder is None and not here:
            return
        inside = [each for each in self._doubtful if _folder(each.target or each.name) == folder
                  or (here and "/" not in (each.target or each.name))]  # fmt: skip
        for each in inside:
            apply_name(self._durable, each)
        self._doubtful = tuple(each for each in self._doubtful if each not in inside)
        self._note(f"sync names {folder or ''}")

    def _link(self, _: None, source: Any, target: Any) -> None:
        name = self._name(target)
        if name is not None:
            self._change_name("create", name, name, self._seen[self._name(source) or ""])

    def _unlink(self, _: None, path: Any) -> None:
        name = self._name(path)
        if name is not None:
            self._change_name("unlink", name, "", self._seen[name])

    def _rename(self, _: None, source: Any, target: Any) -> None:
        old, new = self._name(source), self._name(target)
        if old is not None and new is not None:
            self._change_name("rename", old, new, self._seen[old])

    def _mkdir(self, _: None, path: Any, *__: Any) -> None:
        name = self._name(path)
        if name is not None:
            self._change_name("create", name, name, FOLDER)


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _is_hidden(name: str) -> bool:
    return name.rpartition("/")[2].startswith(".")


# -- power cuts -----------------------------------------------------------------------------------


def disks(moment: Moment, random: Random, most: int) -> Iterator[Disk]:
    """Yield disks that a power cut at this moment may leave: all, or so many at random."""
    for names in _names(moment, random):
        found = sorted(name for name in names if not _is_hidden(name) and _is_reached(name, names))
        contents: list[tuple[bytes | None, ...]] = [
            (None,) if names[name] == FOLDER else outcomes(moment.files[names[name]], 1)
            for name in found
        ]
        count = 1
        for choices in contents:
            count *= len(choices)
        if count <= most:
            yield from (tuple(zip(found, chosen, strict=True)) for chosen in product(*contents))
            continue
        for at in (0, -1):
            yield tuple((name, c[at]) for name, c in zip(found, contents, strict=True))
        for _ in range(most - 2):
            chosen = [random.choice(choices) for choices in contents]
            yield tuple(zip(found, chosen, strict=True))


def _names(moment: Moment, random: Random) -> Iterator[dict[str, int]]:
    doubtful = [each for each in moment.doubtful_names if not _is_hidden(each.target or each.name)]
    every: Iterator[tuple[bool, ...]] = product((False, True), repeat=len(doubtful))
    if len(doubtful) > NAMES_ALL:
        some = [tuple(random.random() < 0.5 for _ in doubtful) for _ in range(2**NAMES_ALL - 2)]
        every = iter([(False,) * len(doubtful), (True,) * len(doubtful), *some])
    for kept in every:
        names = dict(moment.names)
        for operation, is_kept in zip(doubtful, kept, strict=True):
            if is_kept:
                apply_name(names, operation)
        yield names


def _is_reached(name: str, names: dict[str, int]) -> bool:
    above = _folder(name)
    return not above or (names.get(above) == FOLDER and _is_reached(above, names))


def put_disk(disk: Disk, folder: Path) -> None:
    """Make the files of a disk in a new folder."""
    folder.mkdir()
    for name, content in disk:
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)


def power_cuts(
    moments: list[Moment], random: Random, of_each: int, most: int
) -> Iterator[tuple[Disk, Moment]]:
    """Yield distinct disks with the marks of their moments; of many, some of each moment."""
    met: set[tuple[int, str]] = set()
    places = list(range(len(moments)))
    random.shuffle(places)

    def distinct() -> Iterator[tuple[Disk, Moment]]:
        for place in places:
            moment = moments[place]
            for disk in disks(moment, random, of_each):
                key = (hash(disk), repr(moment.marks))
                if key not in met:
                    met.add(key)
                    yield disk, moment

    return islice(distinct(), most)
