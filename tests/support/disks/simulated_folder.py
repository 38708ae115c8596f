"""A file system in memory that remembers what a power cut may take, and all outcomes of the cut.

Faults that it models, and no others:

* **Writes** are in the page cache until a sync of their file. A power cut leaves any prefix of
  them; a write torn at byte 1, inside or right behind a 128-byte header, one byte before its end,
  or at a multiple of 512 bytes of the file; the file's size grown before the content came (zeros);
  one lost sector of 512 bytes; and, up to ``subset_writes`` pending writes, any subset of them,
  holes as zeros.
* **Names** (create, rename, unlink) are in the page cache until ``sync_names``. A power cut keeps
  or loses each on its own; a kept name may well stand for a file without its content.
* **Failed sync** (``Fault`` at a sync): what was pending may or may not be on disk, no later sync
  changes that, and reading still shows it (fsyncgate). The same holds for names.
* **Failed calls**: any call fails with an errno, once or from then on; a short write puts half of
  the bytes into the file and then fails.
* **Process crash**: the page cache stays, and stays unsynced: ``SimulatedFolder.after_kill``.

A truncate is durable when it returns, as storage/local.py has it, and the lock file's name always
is. Data that was synced never changes: decay is the matter of other tests.
"""

import errno
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import NamedTuple, TypeVar

from cec_store.errors import QueueLocked
from cec_store.storage.folder import check_name
from cec_store.storage.system_errors import os_errors_of

SECTOR_BYTES = 512
HEADER_BYTES = 128
_NEEDS_NO_SPACE = frozenset({"read", "names", "size", "unlink", "close", "truncate"})

Image = tuple[tuple[str, bytes], ...]
"""What is on disk after a power cut: names and contents, sorted."""


class Write(NamedTuple):
    byte: int
    data: bytes


class File(NamedTuple):
    """What a power cut can make of one file."""

    durable: bytes = b""
    doubtful: tuple[Write, ...] = ()
    """Pending when a sync failed: on disk or not, for ever."""
    pending: tuple[Write, ...] = ()


class NameOp(NamedTuple):
    kind: str
    name: str
    target: str
    file: int


class Snapshot(NamedTuple):
    """The disk at one boundary between two operations."""

    step: int
    operation: str
    names: dict[str, int]
    """Durable ones."""
    doubtful_names: tuple[NameOp, ...]
    files: dict[int, File]
    seen: dict[int, bytes]
    """Content as reading shows it."""
    seen_names: dict[str, int]
    marks: object
    """What the test had noted by then, such as the frames acknowledged."""


@dataclass
class Fault:
    """Fails the operation number ``at`` (of those in ``operations``), or all from there on."""

    at: int
    errno: int = errno.EIO
    sticky: bool = False
    short: bool = False
    operations: frozenset[str] = frozenset()
    """Only these are counted and failed; empty: all."""
    hits: list[str] = field(default_factory=list)
    count: int = 0

    def strikes(self, operation: str, name: str) -> bool:
        if self.operations and operation not in self.operations:
            return False
        # Space is needed only by what makes or grows something.
        if self.errno == errno.ENOSPC and operation in _NEEDS_NO_SPACE:
            return False
        self.count += 1
        hit = self.count - 1 >= self.at if self.sticky else self.count - 1 == self.at
        if hit:
            self.hits.append(f"{operation} {name}")
        return hit


def put(content: bytes, byte: int, data: bytes) -> bytes:
    """``content`` with ``data`` at ``byte``, zeros in a gap."""
    if byte == len(content):
        return content + data
    gap = bytes(max(0, byte - len(content)))
    return content[:byte] + gap + data + content[byte + len(data) :]


def grown(content: bytes, size: int) -> bytes:
    return content + bytes(max(0, size - len(content)))


def _cuts(write: Write) -> Iterator[int]:
    size = len(write.data)
    to_sector = SECTOR_BYTES - write.byte % SECTOR_BYTES
    sectors = range(to_sector, size, SECTOR_BYTES)
    wanted = {1, 60, HEADER_BYTES - 1, HEADER_BYTES, size - 1, *sectors}
    return (cut for cut in sorted(wanted) if 0 < cut < size)


@lru_cache(maxsize=4096)
def outcomes(file: File, subset_writes: int) -> tuple[bytes, ...]:
    """Every content that a power cut may leave of a file; what arrived whole is the last one."""
    writes = file.doubtful + file.pending
    found = {file.durable: None}
    prefixes = [file.durable]
    for write in writes:
        before, end = prefixes[-1], write.byte + len(write.data)
        for cut in _cuts(write):
            torn = put(before, write.byte, write.data[:cut])
            found[torn] = None
            if (write.byte + cut) % SECTOR_BYTES == 0:
                found[grown(torn, end)] = None
        prefixes.append(put(before, write.byte, write.data))
    full = prefixes[-1]
    for prefix in prefixes:
        found[prefix] = None
        found[grown(prefix, len(full))] = None
        for write in writes:
            found[grown(prefix, write.byte + len(write.data))] = None
    first = min((write.byte for write in writes), default=0)
    for start in range(first - first % SECTOR_BYTES, len(full), SECTOR_BYTES):
        end = min(start + SECTOR_BYTES, len(full))
        lost = grown(file.durable[start:end], end - start)
        found[full[:start] + lost + full[end:]] = None
    if len(writes) <= subset_writes:
        for keep in product((False, True), repeat=len(writes)):
            content = file.durable
            for write, kept in zip(writes, keep, strict=True):
                content = put(content, write.byte, write.data) if kept else content
            found[content] = None
    found.pop(full)
    return (*found, full)


def name_outcomes(durable: dict[str, int], pending: Sequence[NameOp]) -> Iterator[dict[str, int]]:
    """Every set of names that a power cut may leave."""
    for keep in product((False, True), repeat=len(pending)):
        names = dict(durable)
        for operation, kept in zip(pending, keep, strict=True):
            if kept:
                apply_name(names, operation)
        yield names


def apply_name(names: dict[str, int], operation: NameOp) -> None:
    if operation.kind != "create":
        names.pop(operation.name, None)
    if operation.kind != "unlink":
        names[operation.target] = operation.file


def images(snapshot: Snapshot, subset_writes: int, product_max: int = 256) -> Iterator[Image]:
    """Every disk that a power cut at this moment may leave (some of them more than once).

    Where files with pending writes are so many that the product of their outcomes is above
    ``product_max``, one at a time takes each outcome, with the others all lost and all kept.
    """
    for names in name_outcomes(snapshot.names, snapshot.doubtful_names):
        found = sorted(names)
        contents = [outcomes(snapshot.files[names[name]], subset_writes) for name in found]
        count = 1
        for choices in contents:
            count *= len(choices)
        if count <= product_max:
            for chosen in product(*contents):
                yield tuple(zip(found, chosen, strict=True))
            continue
        for at, choices in enumerate(contents):
            for ends in (0, -1):
                rest = [others[ends] for others in contents]
                for choice in choices:
                    rest[at] = choice
                    yield tuple(zip(found, rest, strict=True))


class _SimulatedFile:
    def __init__(self, folder: "SimulatedFolder", name: str, number: int) -> None:
        self._folder = folder
        self._name = name
        self.number = number
        self.position = 0
        """Where the next write goes, whoever cuts the file meanwhile."""

    def write(self, parts: Sequence[bytes]) -> None:
        self._folder._write(self._name, self, b"".join(bytes(part) for part in parts))

    def renamed(self, number: int, name: str) -> None:
        if number == self.number:
            self._name = name

    def sync(self) -> None:
        self._folder._sync(self._name, self.number)

    def close(self) -> None:
        self._folder._close(self._name, self)


class _SimulatedHeldFile(_SimulatedFile):
    def write_at(self, byte: int, data: bytes) -> None:
        self.position = byte
        self.write([data])

    def close(self) -> None:
        self._folder.held.discard(self.number)
        super().close()


class _SimulatedLock:
    def __init__(self, folder: "SimulatedFolder", name: str) -> None:
        self._folder = folder
        self._name = name

    def close(self) -> None:
        self._folder.locks.discard(self._name)


_Opened = TypeVar("_Opened", bound=_SimulatedFile)


class SimulatedFolder:
    """Implements ``cec_store.storage.folder.Folder``; for any number of threads."""

    appends = True

    def __init__(self, image: Image = (), fault: Fault | None = None, record: bool = False,
                 marks: object = None) -> None:  # fmt: skip
        """The disk holds ``image``, all of it durable. ``record`` keeps a snapshot a step."""
        self.path = "/simulated"
        self.fault = fault
        self.marks = marks
        self.trace: list[tuple[str, str, int]] = []
        """(operation, name, number of the file; -1 where it has none); failed ones end in ``!``."""
        self.snapshots: list[Snapshot] = []
        self.open_files: set[_SimulatedFile] = set()
        self.locks: set[str] = set()
        self.held: set[int] = set()
        """Numbers of the files that are locked by whoever has them open."""
        self.before_operation = lambda operation, name: None
        """Called ahead of every operation, without the folder's own lock: a place to stop at."""
        self._record = record
        self._guard = threading.RLock()
        self._names = {name: number for number, (name, _) in enumerate(image)}
        self._durable_names = dict(self._names)
        self._doubtful_names: tuple[NameOp, ...] = ()
        self._pending_names: tuple[NameOp, ...] = ()
        self._files = {number: File(content) for number, (_, content) in enumerate(image)}
        self._seen = {number: content for number, (_, content) in enumerate(image)}
        self._next_number = len(image)
        self.note()

    @classmethod
    def after_kill(cls, snapshot: Snapshot, fault: Fault | None = None) -> "SimulatedFolder":
        """The same machine after the process died: all is visible, what was unsynced still is."""
        folder = cls(fault=fault)
        folder._record = True
        folder._names = dict(snapshot.seen_names)
        folder._durable_names = dict(snapshot.names)
        folder._pending_names = snapshot.doubtful_names
        folder._files = dict(snapshot.files)
        folder._seen = dict(snapshot.seen)
        folder._next_number = max(snapshot.files, default=-1) + 1
        folder.marks = snapshot.marks
        folder.note()
        return folder

    @classmethod
    def after_kill_inside_write(
        cls, snapshot: Snapshot, number: int, cut: int
    ) -> "SimulatedFolder":
        """As :meth:`after_kill`, with only ``cut`` bytes of the file's last write handed over."""
        file = snapshot.files[number]
        last = file.pending[-1]
        torn = file._replace(pending=(*file.pending[:-1], Write(last.byte, last.data[:cut])))
        # What was read there before, which the write may have gone over.
        seen = file.durable
        for write in (*file.doubtful, *torn.pending):
            seen = put(seen, *write)
        return cls.after_kill(
            snapshot._replace(
                files={**snapshot.files, number: torn}, seen={**snapshot.seen, number: seen}
            )
        )

    # -- what the tests look at -----------------------------------------------------------------

    def mark(self, marks: object) -> None:
        """Note something at this point of the trace."""
        self.marks = marks
        self.note("mark")

    def note(self, operation: str = "start") -> None:
        if self._record:
            self.snapshots.append(self.snapshot(operation))

    def snapshot(self, operation: str = "") -> Snapshot:
        with self._guard:
            return Snapshot(
                len(self.snapshots), operation, dict(self._durable_names),
                self._doubtful_names + self._pending_names, dict(self._files), dict(self._seen),
                dict(self._names), self.marks,
            )  # fmt: skip

    def image(self) -> Image:
        """The content as reading shows it."""
        with self._guard:
            return tuple((name, self._seen[self._names[name]]) for name in sorted(self._names))

    def _begin(self, operation: str, name: str, number: int = -1) -> None:
        """Ahead of each operation: may stop, may fail."""
        self.before_operation(operation, name)
        fault = self.fault
        if fault is not None and fault.strikes(operation, name):
            self.trace.append((operation + "!", name, number))
            raise OSError(fault.errno, os.strerror(fault.errno))

    def _done(self, operation: str, name: str, number: int = -1) -> None:
        self.trace.append((operation, name, number))
        self.note(f"{operation} {name}")

    # -- the folder -------------------------------------------------------------------------------

    def exists(self) -> bool:
        return True

    def make(self) -> None:
        pass

    def names(self) -> list[str]:
        with os_errors_of(self.path):
            self._begin("names", "")
            with self._guard:
                return sorted(self._names)

    def _number(self, name: str) -> int:
        check_name(name)
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._names[name]

    def size(self, name: str) -> int:
        with os_errors_of(f"{self.path}/{name}"):
            self._begin("size", name)
            with self._guard:
                return len(self._seen[self._number(name)])

    def read(self, name: str, byte: int, size: int) -> bytes:
        with os_errors_of(f"{self.path}/{name}"):
            self._begin("read", name)
            with self._guard:
                return self._seen[self._number(name)][byte : byte + size]

    def create(self, name: str) -> _SimulatedFile:
        return self._create(name, _SimulatedFile)

    def create_held(self, name: str) -> _SimulatedHeldFile:
        file = self._create(name, _SimulatedHeldFile)
        self.held.add(file.number)
        return file

    def is_held(self, name: str) -> bool:
        with self._guard:
            return self._names.get(name, -1) in self.held

    def _create(self, name: str, kind: type[_Opened]) -> _Opened:
        with os_errors_of(f"{self.path}/{name}"):
            self._begin("create", check_name(name))
            with self._guard:
                if name in self._names:
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
                number = self._next_number
                self._next_number += 1
                self._files[number], self._seen[number] = File(), b""
                self._rename_now(NameOp("create", name, name, number))
                file = kind(self, name, number)
                self.open_files.add(file)
                self._done("create", name, number)
                return file

    def _rename_now(self, operation: NameOp) -> None:
        apply_name(self._names, operation)
        self._pending_names += (operation,)

    def truncate(self, name: str, size: int) -> None:
        with os_errors_of(f"{self.path}/{name}"):
            self._begin("truncate", name, self._names.get(name, -1))
            with self._guard:
                number = self._number(name)
                file = self._files[number]
                doubtful = tuple(_clipped(file.doubtful, size))
                pending = tuple(_clipped(file.pending, size))
                durable = file.durable[:size]
                for write in pending:
                    durable = put(durable, *write)
                self._files[number] = File(grown(durable, size), doubtful)
                self._seen[number] = grown(self._seen[number][:size], size)
                self._done("truncate", name, number)

    def rename(self, source: str, target: str) -> None:
        with os_errors_of(f"{self.path}/{target}"):
            self._begin("rename", check_name(target))
            with self._guard:
                number = self._number(source)
                self._rename_now(NameOp("rename", source, target, number))
                for file in self.open_files:
                    file.renamed(number, target)
                self._done("rename", target)

    def unlink(self, name: str) -> None:
        with os_errors_of(f"{self.path}/{name}"):
            self._begin("unlink", name)
            with self._guard:
                self._rename_now(NameOp("unlink", name, name, self._number(name)))
                self._done("unlink", name)

    def sync_names(self) -> None:
        with os_errors_of(self.path):
            try:
                self._begin("sync_names", "")
            except OSError:
                with self._guard:
                    self._doubtful_names += self._pending_names
                    self._pending_names = ()
                raise
            with self._guard:
                settled = {name for op in self._pending_names for name in (op.name, op.target)}
                self._doubtful_names = tuple(
                    op for op in self._doubtful_names if not {op.name, op.target} & settled
                )
                for operation in self._pending_names:
                    apply_name(self._durable_names, operation)
                self._pending_names = ()
                self._done("sync_names", "")

    def lock(self, name: str) -> _SimulatedLock:
        with os_errors_of(f"{self.path}/{name}"):
            self._begin("lock", name)
            with self._guard:
                if name in self.locks:
                    raise QueueLocked(f"{self.path}: locked")
                self.locks.add(name)
                if name not in self._names:
                    number = self._next_number
                    self._next_number += 1
                    self._files[number], self._seen[number] = File(), b""
                    self._names[name] = self._durable_names[name] = number
                self._done("lock", name)
                return _SimulatedLock(self, name)

    # -- its files --------------------------------------------------------------------------------

    def _write(self, name: str, file: _SimulatedFile, data: bytes) -> None:
        with os_errors_of(f"{self.path}/{name}"):
            try:
                self._begin("write", name, file.number)
            except OSError:
                if self.fault is not None and self.fault.short:
                    self._add(file, data[: len(data) // 2])
                    self.note("short write")
                raise
            with self._guard:
                self._add(file, data)
                self._done("write", name, file.number)

    def _add(self, opened: _SimulatedFile, data: bytes) -> None:
        with self._guard:
            number, write = opened.number, Write(opened.position, data)
            file = self._files[number]
            self._files[number] = file._replace(pending=(*file.pending, write))
            self._seen[number] = put(self._seen[number], *write)
            opened.position += len(data)

    def _sync(self, name: str, number: int) -> None:
        with os_errors_of(f"{self.path}/{name}"):
            file = self._files[number]
            try:
                self._begin("sync", name, number)
            except OSError:
                with self._guard:
                    file = self._files[number]
                    self._files[number] = File(file.durable, file.doubtful + file.pending)
                    self.note("failed sync")
                raise
            with self._guard:
                file = self._files[number]
                durable = file.durable
                for write in file.pending:
                    durable = put(durable, *write)
                self._files[number] = File(durable, file.doubtful)
                self._done("sync", name, number)

    def _close(self, name: str, file: _SimulatedFile) -> None:
        with os_errors_of(f"{self.path}/{name}"):
            self.open_files.discard(file)
            self._begin("close", name)


def _clipped(writes: Iterable[Write], size: int) -> Iterator[Write]:
    for write in writes:
        if write.byte < size:
            yield Write(write.byte, write.data[: size - write.byte])
