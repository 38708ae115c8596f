"""Options of a queue: when records are synced, and how large things get."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cec_store.format.bodies import RECORDS_BYTES_MAX

_GROUP_WAIT_MS = 2.0
_GROUP_WAIT_MS_IN_STORE = 100.0


class SyncMode(str, Enum):
    """Rule by which written frames are put on disk without being asked. Asking always syncs.

    Examples:
        >>> [mode.value for mode in SyncMode]
        ['commit', 'group', 'interval', 'none']
    """

    COMMIT = "commit"
    """Each append by its own fdatasync."""
    GROUP = "group"
    """One fdatasync, or object of a store, for all that has gathered; at most
    ``group_max_wait_ms`` later."""
    INTERVAL = "interval"
    """Every ``sync_interval_ms``; a power cut may take that much, always a prefix stays."""
    NONE = "none"
    """Sync only when asked, at a roll and at close."""


class Compression(str, Enum):
    """Part of a frame that is compressed together.

    Examples:
        >>> QueueOptions(compression="columns").compression is Compression.COLUMNS
        True
    """

    BODY = "body"
    """All of it: the least work where records are read whole, and the smallest small frames."""
    COLUMNS = "columns"
    """Each column apart, strings of few values as dictionaries: who reads two of ten columns
    decompresses two."""


@dataclass(frozen=True)
class QueueOptions:
    """Options of a queue's writer. An impossible value raises ``ValueError`` at construction.

    Examples:
        >>> QueueOptions(sync="interval", sync_interval_ms=200).sync
        <SyncMode.INTERVAL: 'interval'>
    """

    sync: SyncMode | str = SyncMode.GROUP
    group_max_wait_ms: float | None = None
    """``None``: 2 on local files, and 100 in a store, where each group is a request."""
    group_max_bytes: int = 1 << 20
    sync_interval_ms: float = 1000.0
    segment_bytes: int = 64 << 20
    """A segment that has grown beyond is completed; also what a trim gives back at a time."""
    compression: Compression | str = Compression.BODY
    """Unit of compression in queues without state; small frames and state are compressed whole."""
    compression_level: int = 1
    frame_bytes_max: int = 16 << 20
    """Bytes before compression of the frames into which an operator's step is cut."""
    outstanding_frames_max: int = 64
    outstanding_bytes_max: int = 64 << 20

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "sync", SyncMode(self.sync))
        except ValueError:
            modes = ", ".join(mode.value for mode in SyncMode)
            raise ValueError(f"sync={self.sync!r}: choose one of {modes}") from None
        try:
            object.__setattr__(self, "compression", Compression(self.compression))
        except ValueError:
            kinds = ", ".join(kind.value for kind in Compression)
            what = f"compression={self.compression!r}: choose one of {kinds}"
            raise ValueError(what) from None
        for name in ("group_max_wait_ms", "sync_interval_ms", "group_max_bytes", "segment_bytes",
                     "outstanding_frames_max", "outstanding_bytes_max"):  # fmt: skip
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise ValueError(f"{name}={getattr(self, name)}: must be above 0")
        if not 0 < self.frame_bytes_max <= RECORDS_BYTES_MAX:
            raise ValueError(
                f"frame_bytes_max={self.frame_bytes_max}: must be 1 to {RECORDS_BYTES_MAX}"
            )
        if not -7 <= self.compression_level <= 22:
            raise ValueError(f"compression_level={self.compression_level}: zstd takes -7 to 22")

    def group_wait_ms(self, in_store: bool) -> float:
        """Return the longest time for which a group gathers, in milliseconds."""
        if self.group_max_wait_ms is not None:
            return self.group_max_wait_ms
        return _GROUP_WAIT_MS_IN_STORE if in_store else _GROUP_WAIT_MS
