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
        CredentialsRefused,
        DiskFull,
        DurabilityLost,
        Fenced,
        Forked,
        FrameTooLarge,
        LeaseHeld,
        NoExclusiveCreate,
        NoSuchBucket,
        NotACheckpoint,
        NotAQueue,
        OutOfRange,
        Poisoned,
        QueueLocked,
        QueueReplaced,
        ReadOnly,
        RecoveryError,
        SchemaMismatch,
        StandbyRefused,
        StorageError,
        StoreNotInstalled,
        StoreUnreachable,
        Unreadable,
        UnsupportedVersion,
        WrongDeclaration,
    )
    from cec_store.format.retention import Retention
    from cec_store.format.schema import RecordKind, RecordSchema
    from cec_store.ledger.registrations import PartitionedConsumerState
    from cec_store.log.options import Compression, QueueOptions, SyncMode
    from cec_store.log.replay import Replay
    from cec_store.opening import follow, open_queue, read_queue
    from cec_store.partitioned.by_reference.partitioned_consumer import PartitionedConsumer
    from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
    from cec_store.partitioned.following import Following
    from cec_store.partitioned.retaining import set_retention
    from cec_store.queues.consumers import Consumer
    from cec_store.queues.lags import ConsumerState
    from cec_store.queues.output_queue import OutputQueue
    from cec_store.scans.queue_scan import QueueScan, scan_queue
    from cec_store.standby.leases import KeepAlive, leases_of
    from cec_store.standby.nodes.election import NodeRules
    from cec_store.standby.nodes.job import Job
    from cec_store.standby.nodes.node import Node
    from cec_store.standby.nodes.warming import wait_until_warm
    from cec_store.standby.queue_input import QueueInput
    from cec_store.standby.schemes import Scheme
    from cec_store.standby.standby import Standby
    from cec_store.standby.takeover import Takeover
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
    "CredentialsRefused",
    "DiskFull",
    "DurabilityLost",
    "EventualCheckpoint",
    "Extent",
    "Fenced",
    "Following",
    "ForkReport",
    "Forked",
    "FrameTooLarge",
    "Job",
    "KeepAlive",
    "LeaseHeld",
    "Never",
    "NoExclusiveCreate",
    "NoSuchBucket",
    "Node",
    "NodeRules",
    "NotACheckpoint",
    "NotAQueue",
    "OutOfRange",
    "OutputQueue",
    "PartitionedConsumer",
    "PartitionedConsumerState",
    "PartitionedQueue",
    "Poisoned",
    "Position",
    "QueueInput",
    "QueueLocked",
    "QueueOptions",
    "QueueReplaced",
    "QueueScan",
    "ReadOnly",
    "RecordKind",
    "RecordSchema",
    "RecoveryError",
    "RecoveryTime",
    "Replay",
    "Retention",
    "SchemaMismatch",
    "Scheme",
    "Standby",
    "StandbyRefused",
    "StateLog",
    "StorageError",
    "StoreNotInstalled",
    "StoreUnreachable",
    "SyncMode",
    "Takeover",
    "Targets",
    "Unreadable",
    "UnsupportedVersion",
    "WrongDeclaration",
    "__version__",
    "follow",
    "fork",
    "leases_of",
    "open_queue",
    "read_changes",
    "read_queue",
    "read_state",
    "scan_queue",
    "set_retention",
    "wait_until_warm",
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
        "CredentialsRefused",
        "DiskFull",
        "DurabilityLost",
        "Fenced",
        "Forked",
        "FrameTooLarge",
        "LeaseHeld",
        "NoExclusiveCreate",
        "NoSuchBucket",
        "NotACheckpoint",
        "NotAQueue",
        "OutOfRange",
        "Poisoned",
        "QueueLocked",
        "QueueReplaced",
        "ReadOnly",
        "RecoveryError",
        "SchemaMismatch",
        "StandbyRefused",
        "StorageError",
        "StoreNotInstalled",
        "StoreUnreachable",
        "Unreadable",
        "UnsupportedVersion",
        "WrongDeclaration",
    ),
    "cec_store.format.retention": ("Retention",),
    "cec_store.format.schema": ("RecordKind", "RecordSchema"),
    "cec_store.log.options": ("Compression", "QueueOptions", "SyncMode"),
    "cec_store.log.replay": ("Replay",),
    "cec_store.opening": ("follow", "open_queue", "read_queue"),
    "cec_store.partitioned.by_reference.partitioned_consumer": ("PartitionedConsumer",),
    "cec_store.partitioned.by_reference.partitioned_queue": ("PartitionedQueue",),
    "cec_store.ledger.registrations": ("PartitionedConsumerState",),
    "cec_store.partitioned.following": ("Following",),
    "cec_store.partitioned.retaining": ("set_retention",),
    "cec_store.queues.consumers": ("Consumer",),
    "cec_store.queues.lags": ("ConsumerState",),
    "cec_store.queues.output_queue": ("OutputQueue",),
    "cec_store.scans.queue_scan": ("QueueScan", "scan_queue"),
    "cec_store.standby.leases": ("KeepAlive", "leases_of"),
    "cec_store.standby.nodes.election": ("NodeRules",),
    "cec_store.standby.nodes.job": ("Job",),
    "cec_store.standby.nodes.node": ("Node",),
    "cec_store.standby.nodes.warming": ("wait_until_warm",),
    "cec_store.standby.queue_input": ("QueueInput",),
    "cec_store.standby.schemes": ("Scheme",),
    "cec_store.standby.standby": ("Standby",),
    "cec_store.standby.takeover": ("Takeover",),
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
