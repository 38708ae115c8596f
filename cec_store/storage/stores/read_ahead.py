"""Objects read in blocks that are kept for a while: many small reads cost a few requests."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from cec_store.storage.stores.store import Store

BLOCK_BYTES = 1 << 20
_BLOCKS_MAX = 64
_BLOCKS_AHEAD_MAX = 8
_APART_BYTES = 4 * BLOCK_BYTES
"""Bytes from which on a read goes straight to the store, and is not kept."""


class ReadAhead:
    """Shared by all folders of a store, so that its size is that of one. For any threads.

    What is kept of a folder's objects, and where they end, holds until :meth:`forget`, which each
    listing calls: who lists and then reads is never answered with what was there before. ``_lock``
    guards all fields; no request is made while it is held.
    """

    def __init__(
        self, store: Store, block_bytes: int = BLOCK_BYTES, blocks_max: int = _BLOCKS_MAX
    ) -> None:
        self._store = store
        self._block_bytes = block_bytes
        self._blocks_max = blocks_max
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        """Blocks by object and number, the last used at the end; a short one ends its object."""
        self._ends: dict[str, int] = {}
        """Bytes of the objects whose last block was read."""
        self._runs: dict[str, int] = {}
        """Number of blocks that were last read of an object at once."""
        self._looks: dict[str, int] = {}
        """Number of times that each folder was forgotten."""
        self._lock = Lock()

    def read(self, name: str, byte: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``byte``, as :meth:`Store.read` does."""
        if size >= max(_APART_BYTES, self._block_bytes):
            return self._store.read(name, byte, size)
        parts: list[bytes] = []
        first, last = byte // self._block_bytes, (byte + size - 1) // self._block_bytes
        for number in range(first, last + 1):
            parts.append(self._block(name, number, last))
            if len(parts[-1]) < self._block_bytes:
                break
        inside = byte - first * self._block_bytes
        return b"".join(parts)[inside : inside + size]

    def end_of(self, name: str) -> int | None:
        """Bytes of an object, where they are known from what was read."""
        with self._lock:
            return self._ends.get(name)

    def forget(self, folder: str) -> None:
        """Drop all blocks and sizes that are kept of objects in a folder and below it."""
        inside = f"{folder}/" if folder else ""
        with self._lock:
            self._looks[folder] = self._looks.get(folder, 0) + 1
            for key in [key for key in self._blocks if key[0].startswith(inside)]:
                del self._blocks[key]
            for kept in self._ends, self._runs:
                for name in [name for name in kept if name.startswith(inside)]:
                    del kept[name]

    def _block(self, name: str, number: int, last: int) -> bytes:
        """One block, empty behind the object's end; those up to ``last`` are read with it."""
        with self._lock:
            if (name, number) in self._blocks:
                self._blocks.move_to_end((name, number))
                return self._blocks[name, number]
            if number * self._block_bytes >= self._ends.get(name, number * self._block_bytes + 1):
                return b""
            start, count = self._run(name, number, last)
            looks = self._looks_of(name)
        at = self._block_bytes
        data = self._store.read(name, start * at, count * at)
        blocks = [data[n * at : (n + 1) * at] for n in range(count)]
        with self._lock:
            if looks == self._looks_of(name):  # else it may be older than a listing since
                self._keep(name, start, blocks)
        return blocks[number - start]

    def _run(self, name: str, number: int, last: int) -> tuple[int, int]:
        """Return the first block to read with one, and the count: it doubles in a sequence."""
        ahead, behind = (name, number - 1) in self._blocks, (name, number + 1) in self._blocks
        run = 1
        if ahead or behind:
            run = min(2 * self._runs.get(name, 1), _BLOCKS_AHEAD_MAX)
        self._runs[name] = run
        if behind and not ahead:
            start = max(0, number + 1 - run)
            return start, number + 1 - start
        return number, max(run, last - number + 1)

    def _keep(self, name: str, start: int, blocks: list[bytes]) -> None:
        for number, block in enumerate(blocks, start):
            self._blocks[name, number] = block
            self._blocks.move_to_end((name, number))
            if len(block) < self._block_bytes:
                if block or number == 0:  # an empty one may lie far behind the end
                    self._ends[name] = number * self._block_bytes + len(block)
                break
        while len(self._blocks) > self._blocks_max:
            self._blocks.popitem(last=False)

    def _looks_of(self, name: str) -> int:
        """Return how often a folder that the object is in was forgotten."""
        parts = name.split("/")
        folders = ("/".join(parts[:n]) for n in range(len(parts)))
        return sum(self._looks.get(folder, 0) for folder in folders)
