"""cec-store: a persistent output-queue log with eventual checkpoints for stream processing."""

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
    UnsupportedVersion,
)
from cec_store.format.retention import Retention
from cec_store.format.schema import RecordKind, RecordSchema
from cec_store.log.options import QueueOptions, SyncMode
from cec_store.log.replay import Replay
from cec_store.opening import open_queue, read_queue, set_retention
from cec_store.queues.consumers import Consumer, ConsumerState
from cec_store.queues.output_queue import OutputQueue
from cec_store.state_logs.state_log import StateLog
from cec_store.values import Extent, Position

__all__ = [
    "Budget",
    "CecError",
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
    "UnsupportedVersion",
    "fork",
    "open_queue",
    "read_changes",
    "read_queue",
    "read_state",
    "set_retention",
]
