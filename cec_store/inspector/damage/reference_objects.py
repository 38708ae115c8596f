"""The objects of a partitioned queue, several at a time, over damage and on. Reads only.

docs/format.md §11.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

from cec_store.errors import CecError
from cec_store.format.frame import FrameHeader
from cec_store.format.scan import Bad
from cec_store.inspector.damage.faults import Fault, kind_of
from cec_store.storage.stores.store import Store

_AT_ONCE = 8
Read = bytes | FileNotFoundError | CecError


class Wanted(NamedTuple):
    """A part of an object."""

    name: str
    byte: int = 0
    size: int | None = None
    """``None``: to its end."""


def read_all(store: Store, parts: Iterable[Wanted]) -> Generator[Read, None, None]:
    """Each of these in order, or why it cannot be had; some are read ahead of the caller."""

    def read(part: Wanted) -> Read:
        try:
            return store.read(part.name, part.byte, part.size)
        except (FileNotFoundError, CecError) as error:
            return error

    left = iter(parts)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        while some := [*islice(left, _AT_ONCE)]:
            yield from threads.map(read, some)


def segment_fault(
    problem: Exception | Bad, path: str, first: int | None = None, end: int | None = None
) -> Fault:
    """Return the fault of a segment whose object is not there, or whose frames end too soon.

    Its records have the offsets from ``first`` up to ``end``.
    """
    if isinstance(problem, Bad):
        kind = "version" if problem.newer else "frame-damaged"
        return Fault(kind, path, problem.byte, problem.reason, True, first, end)
    if isinstance(problem, FileNotFoundError):
        what = "an object that a commit names is missing"
        return Fault("segment-missing", path, 0, what, True, first, end)
    return Fault(kind_of(problem), path, 0, str(problem), True, first, end)


def part_of(segment: dict[str, Any]) -> Wanted:
    """Return the byte range of an object that holds a segment's frames, as its commit says."""
    return Wanted(segment["file"], segment["byte"], segment["bytes"])


def claims_of(frames: Sequence[FrameHeader]) -> dict[str, int]:
    """Return the figures that a commit should have for a segment of exactly these frames.

    Counts of records and frames, and the least and greatest timestamp in microseconds.
    """
    return {
        "records": sum(header.record_count for header in frames),
        "frames": len(frames),
        "least_us": min((header.min_timestamp_us for header in frames), default=0),
        "greatest_us": max((header.max_timestamp_us for header in frames), default=0),
    }
