"""Queues at one path that are replaced at random, one after the other, and what each holds."""

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from shutil import copytree

from cec_store.errors import CecError


class ReplacedQueue:
    """The rows that the queue at a path has acknowledged, and copies of it from earlier."""

    def __init__(self, path: Path, random: Random) -> None:
        self.path, self.random = path, random
        self.rows: list[int] = []
        self.copies: list[tuple[Path, list[int]]] = []
        self.next = 0
        """The number from which a model counts the rows that it writes."""

    def copy(self) -> None:
        """Keep a copy of the queue as it is now."""
        copy = self.path.with_name(f"copy-{len(self.copies)}")
        copytree(self.path, copy)
        self.copies.append((copy, [*self.rows]))

    def restore(self, place: Path | None = None) -> None:
        """Put one of the copies where the queue was, or at ``place``; its rows are those there."""
        copy, rows = self.random.choice(self.copies)
        copytree(copy, place or self.path)
        self.rows = [*rows]


def refusals(acts: Iterable[Callable[[], object]], random: Random) -> int:
    """Do all of it in any order; return how many acts a typed error has refused."""
    refused, shuffled = 0, [*acts]
    random.shuffle(shuffled)
    for act in shuffled:
        try:
            act()
        except CecError:
            refused += 1
    return refused
