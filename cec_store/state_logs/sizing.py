"""Heap, disk and requests that a query's state takes, computed before there is any.

Sums, not measurements: what bounds the log (Q over the open windows, versions that are kept) says
how much it can hold at most, and one figure for the heap was measured, by bench/spark/providers.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

HEAP_BYTES_PER_KEY = 75
"""Bytes of heap beside key and value: the entry of a key in the executor's map, and of its
footprint."""
INDEX_BYTES_PER_KEY = 36
"""Bytes of these at most that are the index: 12 for each slot of a table of which a third at least
is filled (KeyTable.scala)."""
_CHANGED_BYTES_PER_KEY = 48
"""Bytes at most of a key in the table above a run: a slot has 16."""
_RUN_KEYS_MIN = 65_536
"""Keys of a store that have no run, and changes that stay above one (KeyRun.scala)."""
_CHANGED_SHARE = 8
"""One in so many keys may have changed before they are merged into a new run
(FamilyIndexes.scala)."""
_RUN_BITS_PER_KEY = 1.4
"""Bits of heap for a key of a run, which say whether its entry still counts."""
RUN_BYTES_PER_KEY = 12
"""Bytes of a local file for a key of a run; while one is merged, the old one is there too."""
_ROWS_MOST = 4
"""Keys and values of the extent take so many times those of live keys at most, or the extent factor
if that is greater (ExtentTarget.scala)."""
_ROWS_FLOOR_BYTES = 4 << 20
"""Keys and values of one store's extent below which nothing is renewed (ExtentTarget.scala)."""
_DIRECTORY_KEYS_MIN = 1 << 20
"""Keys of a store that has key directories (KeyDirectories.scala)."""
DIRECTORY_BYTES_PER_RECORD = 5
"""Bytes of key directories for a record of the extent: a hash of four, and two bits twice. Keys in
order, of which nothing is known here, add what they take compressed."""
HEAP_SHARE_OF_ROWS = 8
"""One in so many bytes of the heap is for rows and their index, unless `memory_bytes` says
otherwise."""
SMALL_EXTENT_RECORDS = 8_192
"""Records of a store's extent below which nothing is renewed."""
SEGMENT_BYTES = 64 << 20
EXTENT_FACTORS = (1.25, 1000)
"""The least and the most that is allowed."""


@dataclass(frozen=True)
class StateShape:
    """Known figures of a query: counts of its whole state, sizes of a record.

    Raises:
        ValueError: a number that cannot be.
    """

    keys: int
    key_bytes: int
    value_bytes: int
    changes: int
    """Keys that a batch puts or removes."""
    stores: int
    """Partitions, times the stores of each: a join has four."""
    extent_factor: float = 2.0
    versions_kept: int = 100
    compression: float = 2.0
    """Bytes of records over their bytes on disk."""
    objects_merged: int = 10
    """``minDeltasForSnapshot``: where a commit is an object, so many become one."""

    def __post_init__(self) -> None:
        for name in ("keys", "key_bytes", "value_bytes", "changes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is 0 or more, not {getattr(self, name)}")
        for name in ("stores", "versions_kept", "compression", "objects_merged"):
            if not 1 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is 1 or more, not {getattr(self, name)}")
        least, most = EXTENT_FACTORS
        if not least <= self.extent_factor <= most:
            raise ValueError(f"extent_factor is {least} to {most}, not {self.extent_factor}")


@dataclass(frozen=True)
class StateSize:
    """Sizes of all stores together, unless a field says otherwise; ``_most`` is a bound."""

    heap_bytes: int
    """Bytes of heap with the rows of live keys alone in memory."""
    heap_bytes_most: int
    """Bytes of heap with the dead rows of the extent there, too."""
    index_bytes: int
    """Bytes of heap at most where rows and indexes are in local files."""
    local_bytes_most: int
    """Bytes of local files where all of them are there."""
    disk_bytes_most: int
    unrolled_bytes_most: int
    """Bytes among these of segments that are not full yet: one for each store."""
    extent_records_most: int
    extent_raw_bytes_most: int
    """Bytes before compression, which a restart decodes."""
    extent_bytes_most: int
    batch_records_most: int
    """Changes, and footprints that are written again with them to bound the extent."""
    batch_bytes_most: int
    puts_per_batch: float
    """Puts where a commit is an object: one for each store, and merged ones."""
    gets_per_batch: float
    """Gets of objects that are merged."""


def index_bytes(keys: int) -> int:
    """Return how many bytes of heap the index of one store takes at most, however little it may."""
    if keys <= _RUN_KEYS_MIN:
        return keys * INDEX_BYTES_PER_KEY
    changed = max(_RUN_KEYS_MIN, keys // _CHANGED_SHARE)
    return changed * _CHANGED_BYTES_PER_KEY + round(keys * _RUN_BITS_PER_KEY / 8)


def state_size(shape: StateShape) -> StateSize:
    """Return the sizes of such a state."""
    row = shape.key_bytes + shape.value_bytes
    extent = round(max(shape.extent_factor * shape.keys, shape.stores * SMALL_EXTENT_RECORDS))
    # To hold q at f N while other records come, at most one renewal for each f - 1 of them.
    batch = round(shape.changes * (1 + 1 / (shape.extent_factor - 1)))
    kept = extent + shape.versions_kept * batch
    rows_most = max(
        round(max(_ROWS_MOST, shape.extent_factor) * shape.keys * row),
        min(shape.stores * _ROWS_FLOOR_BYTES, extent * row),
    )
    has_directories = shape.keys >= shape.stores * _DIRECTORY_KEYS_MIN
    return StateSize(
        heap_bytes=shape.keys * (HEAP_BYTES_PER_KEY + row),
        heap_bytes_most=shape.keys * HEAP_BYTES_PER_KEY + rows_most,
        index_bytes=shape.stores * index_bytes(-(-shape.keys // shape.stores)),
        local_bytes_most=shape.keys * 2 * RUN_BYTES_PER_KEY + rows_most,
        # Segments are deleted as a whole, so that each store may have one more.
        disk_bytes_most=round(kept * row / shape.compression)
        + shape.stores * SEGMENT_BYTES
        + has_directories * DIRECTORY_BYTES_PER_RECORD * extent,
        unrolled_bytes_most=shape.stores * SEGMENT_BYTES,
        extent_records_most=extent,
        extent_raw_bytes_most=extent * row,
        extent_bytes_most=round(extent * row / shape.compression),
        batch_records_most=batch,
        batch_bytes_most=round(batch * row / shape.compression),
        puts_per_batch=shape.stores * (1 + 1 / shape.objects_merged),
        gets_per_batch=float(shape.stores),
    )
