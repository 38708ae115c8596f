"""What a verification finds: of one log, and of a place with all its logs."""

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
    """What is wrong with a queue, and what was looked at."""

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
    """What the index is like."""
    versions: int | None = None
    """How many can be rebuilt; ``None`` of a queue."""
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
    """Of a store that one of Spark's own providers keeps."""
    loadable: tuple[int, int] | None = None
    """Of such a store: the oldest and newest version of which every file is there."""


@dataclass(frozen=True)
class PlaceVerification:
    """What is wrong at a path, and what was looked at."""

    place: Place
    faults: tuple[Fault, ...]
    """Of all logs, in their order; those of none of them first."""
    notes: tuple[Note, ...]
    logs: tuple[VerifiedLog, ...]
    batches: tuple[int, int] | None
    """The oldest and the newest batch that Spark has committed and keeps; ``None`` elsewhere."""

    @property
    def is_sound(self) -> bool:
        return not self.faults
