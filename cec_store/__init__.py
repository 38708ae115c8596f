"""cec-store: a persistent output-queue log with eventual checkpoints for stream processing.

Each name is imported from its room when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing`, whose import takes longer than all the rest here
if TYPE_CHECKING:
    from cec_store.checkpoints.policy import Budget, CostBenefit, Never, RecoveryTime, Targets
    from cec_store.checkpoints.rebuild import EventualCheckpoint
    from cec_store.connectors.spark.checkpoint.fork import ForkReport, fork
    from cec_store.connectors.spark.checkpoint.state_tables import read_changes, read_state
    from cec_store.errors import (
        CecError,
        ConsumerInUse,
        CorruptLog,
        DiskFull,
        DurabilityLost,
        Fenced,
        Forked,
        FrameTooLarge,
        NotACheckpoint,
        NotAQueue,
        OutOfRange,
        Poisoned,
        QueueLocked,
        ReadOnly,
        RecoveryError,
        SchemaMismatch,
        StorageError,
        Unreadable,
        UnsupportedVersion,
    )
    from cec_store.format.retention import Retention
    from cec_store.format.schema import RecordKind, RecordSchema
    from cec_store.log.options import Compression, QueueOptions, SyncMode
    from cec_store.log.replay import Replay
    from cec_store.opening import open_queue, read_queue, set_retention
    from cec_store.queues.consumers import Consumer, ConsumerState
    from cec_store.queues.output_queue import OutputQueue
    from cec_store.state_logs.state_log import StateLog
    from cec_store.values import Extent, Position

    __version__: str

__all__ = [
    "Budget",
    "CecError",
    "Compression",
    "Consumer",
    "ConsumerInUse",
    "ConsumerState",
    "CorruptLog",
    "CostBenefit",
    "DiskFull",
    "DurabilityLost",
    "EventualCheckpoint",
    "Extent",
    "Fenced",
    "ForkReport",
    "Forked",
    "FrameTooLarge",
    "Never",
    "NotACheckpoint",
    "NotAQueue",
    "OutOfRange",
    "OutputQueue",
    "Poisoned",
    "Position",
    "QueueLocked",
    "QueueOptions",
    "ReadOnly",
    "RecordKind",
    "RecordSchema",
    "RecoveryError",
    "RecoveryTime",
    "Replay",
    "Retention",
    "SchemaMismatch",
    "StateLog",
    "StorageError",
    "SyncMode",
    "Targets",
    "Unreadable",
    "UnsupportedVersion",
    "__version__",
    "fork",
    "open_queue",
    "read_changes",
    "read_queue",
    "read_state",
    "set_retention",
]

_HOMES = {
    "cec_store.checkpoints.policy": ("Budget", "CostBenefit", "Never", "RecoveryTime", "Targets"),
    "cec_store.checkpoints.rebuild": ("EventualCheckpoint",),
    "cec_store.connectors.spark.checkpoint.fork": ("ForkReport", "fork"),
    "cec_store.connectors.spark.checkpoint.state_tables": ("read_changes", "read_state"),
    "cec_store.errors": (
        "CecError",
        "ConsumerInUse",
        "CorruptLog",
        "DiskFull",
        "DurabilityLost",
        "Fenced",
        "Forked",
        "FrameTooLarge",
        "NotACheckpoint",
        "NotAQueue",
        "OutOfRange",
        "Poisoned",
        "QueueLocked",
        "ReadOnly",
        "RecoveryError",
        "SchemaMismatch",
        "StorageError",
        "Unreadable",
        "UnsupportedVersion",
    ),
    "cec_store.format.retention": ("Retention",),
    "cec_store.format.schema": ("RecordKind", "RecordSchema"),
    "cec_store.log.options": ("Compression", "QueueOptions", "SyncMode"),
    "cec_store.log.replay": ("Replay",),
    "cec_store.opening": ("open_queue", "read_queue", "set_retention"),
    "cec_store.queues.consumers": ("Consumer", "ConsumerState"),
    "cec_store.queues.output_queue": ("OutputQueue",),
    "cec_store.state_logs.state_log": ("StateLog",),
    "cec_store.values": ("Extent", "Position"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """A public name, at its first use."""
    from importlib import import_module, metadata

    if name == "__version__":
        value: object = metadata.version("cec-store")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
