"""Results of a verification: of one log, and of a place with all its logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NewType

from cec_store.inspector.built_in.figures import StoreFigures
from cec_store.inspector.damage.faults import Fault, Note
from cec_store.inspector.places.places import Log, Place

TotalBytes = NewType("TotalBytes", int)
BytesSoFar = Callable[[TotalBytes], None]
"""Called with the bytes read so far."""


@dataclass(frozen=True)
class Verification:
    """Faults of a queue, and counts of what was checked."""

    path: str
    faults: tuple[Fault, ...]
    notes: tuple[Note, ...]
    epoch: int | None
    segments: int
    frames: int
    """Intact ones with records."""
    records: int
    bytes: int
    first_offset: int
    end_offset: int
    kinds: dict[str, int]
    """Records of each kind; empty where records were not looked at."""
    recounted_frames: int
    """Frames whose N and q were counted anew."""
    index: str
    """State of the index in words."""
    versions: int | None = None
    """Number of versions that can be rebuilt; ``None`` of a queue."""
    first_version: int | None = None
    last_version: int | None = None
    """The oldest and the newest of them."""

    @property
    def is_sound(self) -> bool:
        return not self.faults


@dataclass(frozen=True)
class VerifiedLog:
    """One log of a place, and what was found in it."""

    log: Log
    found: Verification | None
    """``None`` where nothing can be read, or is looked at."""
    faults: int
    store: StoreFigures | None = None
    """Figures of the store, where one of Spark's own providers keeps it."""
    loadable: tuple[int, int] | None = None
    """Oldest and newest version of such a store of which every file is there."""


@dataclass(frozen=True)
class PlaceVerification:
    """Faults at a path, and counts of what was checked."""

    place: Place
    faults: tuple[Fault, ...]
    """Faults that belong to no log, then those of all logs in their order."""
    notes: tuple[Note, ...]
    logs: tuple[VerifiedLog, ...]
    batches: tuple[int, int] | None
    """The oldest and the newest batch that Spark has committed and keeps; ``None`` elsewhere."""

    @property
    def is_sound(self) -> bool:
        return not self.faults
