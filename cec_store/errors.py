"""Errors that this package raises.

::

    CecError
    ├── StorageError              the files
    │   ├── NotAQueue             (FileNotFoundError) no queue at this path
    │   ├── NotACheckpoint        (FileNotFoundError) no Spark checkpoint at this path
    │   ├── NotAFleet             (FileNotFoundError) no fleet in this folder
    │   ├── UnsupportedVersion    written by a newer format
    │   ├── CorruptLog            damage below what was acknowledged
    │   ├── QueueLocked           another writer is alive
    │   ├── ConsumerInUse         somebody else acts under this consumer's name
    │   ├── LeaseHeld             the holder of this lease is alive
    │   ├── Fenced                another writer has taken over
    │   ├── Poisoned              a write or sync failed earlier; reopen
    │   ├── Forked                opened before a fork(), used in the child
    │   ├── DurabilityLost        the sync that should have acknowledged this failed
    │   ├── Unreadable            (PermissionError) this user may not read the files
    │   ├── DiskFull              (OSError) no room; nothing was acknowledged
    │   ├── ReadOnly              (PermissionError) the queue cannot be written here
    │   ├── NoExclusiveCreate     a store that cannot make an object only where there is none
    │   ├── NoSuchBucket          the store has no bucket, or container, of this name
    │   ├── CredentialsRefused    (PermissionError) none were found, or the store refuses them
    │   └── StoreUnreachable      (ConnectionError) no answer, or only that the store is busy
    ├── SchemaMismatch            (TypeError) columns or types do not fit
    ├── FrameTooLarge             (ValueError) more than a frame may hold
    ├── OutOfRange                (LookupError) a position that is trimmed, or not there yet
    │   └── QueueReplaced         another queue stands at this path now
    ├── RecoveryError             the log is sound but cannot rebuild this state
    ├── BadFleet                  (ValueError) a declaration that cannot run; nothing was started
    ├── NoGlobalCheckpoint        (LookupError) the fleet has none there, or lost what it needs
    ├── OutputNotTakenBack        (ValueError) sinks of a fleet had batches that would be run again
    ├── WrongDeclaration          (ValueError) an operator is not of the class that it declares
    ├── StandbyRefused            (ValueError) this standby could not take over; nothing was fenced
    ├── NoSuchExecutor            (LookupError) Spark has no executor of this name, or not any more
    ├── NoSuchPartition           (LookupError) no running query has this partition of state
    ├── MoveRefused               (ValueError) a checkpoint cannot be moved so; nothing was written
    ├── MigrationRunning          this partition moves already
    ├── MigrationRefused          (ValueError) it cannot move so; everything is as it was
    ├── PlacementRefused          (ValueError) no placement keeps this bound; nothing was started
    ├── MigrationFailed           it was begun and came to nothing; no state was lost
    ├── StoreNotInstalled         (ImportError) a package for this kind of store is missing
    └── SparkUnavailable          no pyspark, no Java or not the right ones
        └── CompilationFailed     the provider does not compile against this Spark

A caller's mistake that has nothing to do with the store is a plain ``ValueError``.
"""

from __future__ import annotations


class CecError(Exception):
    """Base of all errors that cec-store raises on purpose."""


class StorageError(CecError):
    """Something about the files."""


class NotAQueue(StorageError, FileNotFoundError):
    """There is no queue at this path."""


class NotACheckpoint(StorageError, FileNotFoundError):
    """There is no checkpoint of a Spark query at this path."""


class NotAFleet(StorageError, FileNotFoundError):
    """There is no fleet in this folder."""


class UnsupportedVersion(StorageError):
    """The file was written by a format that this release does not know."""


def upgrade_needed(path: str, reason: str) -> UnsupportedVersion:
    """The error for a file that only a later release can read."""
    return UnsupportedVersion(f"{path}: {reason}: upgrade cec-store")


def unknown_version(version: int, known: int) -> str:
    """The reason where that is the version of the format."""
    return f"format version {version}; this release reads {known}"


class CorruptLog(StorageError):
    """Damage where the log was acknowledged. Nothing was changed, cut or skipped."""

    def __init__(self, path: str, byte: int, reason: str, advice: str = "") -> None:
        self.path = path
        self.byte = byte
        self.reason = reason
        self.advice = advice
        hint = advice or "restore the file from a copy; `cec-store verify` lists all damage"
        super().__init__(f"{path}: damage at byte {byte}: {reason}; {hint}")


class QueueLocked(StorageError):
    """Another process has the queue open for append."""


class ConsumerInUse(StorageError):
    """Somebody else acts under this consumer's name."""


class LeaseHeld(StorageError):
    """Somebody holds this lease and gives signs of life, or was quicker to take it over."""


class Fenced(StorageError):
    """Another writer has taken this queue over; this one must stop."""


class Poisoned(StorageError):
    """An earlier write or sync failed, so this writer is finished. Open the queue again."""


def ended_by(failure: BaseException, otherwise: str) -> CecError:
    """Return the error of every call to something that this failure has ended.

    It is :class:`Fenced` after that, because to open the queue again would fence the writer that
    has taken over, and :class:`QueueReplaced` after that, because another queue would be opened;
    else it is :class:`Poisoned` with the text ``otherwise``.
    """
    for kind in (Fenced, QueueReplaced):
        if isinstance(failure, kind):
            return kind(str(failure))
    return Poisoned(otherwise)


class Forked(StorageError):
    """Opened by the parent of this process, which still uses it; open it again here."""


class DurabilityLost(StorageError):
    """The sync that should have made these records durable failed. They are not acknowledged."""


class Unreadable(StorageError, PermissionError):
    """This user may not read a file or folder, so nothing is known of what is in it."""


class DiskFull(StorageError, OSError):
    """No room to write: a full disk, a used quota, or a file that may not grow.

    What was acknowledged before is safe.
    """


class ReadOnly(StorageError, PermissionError):
    """The queue was opened for reading, or its files cannot be written."""


class NoExclusiveCreate(StorageError):
    """This store cannot make an object only where there is none, so that two writers could win."""


class NoSuchBucket(StorageError):
    """There is no bucket, or container, of this name. The administrator of the store makes it."""


class CredentialsRefused(StorageError, PermissionError):
    """No credentials were found, or the store does not accept those that were."""


class StoreUnreachable(StorageError, ConnectionError):
    """The store gave no answer, or only that it is busy, however often it was asked."""


class SchemaMismatch(CecError, TypeError):
    """Columns or types do not fit the queue's schema."""


class FrameTooLarge(CecError, ValueError):
    """More bytes than a frame may hold: 63 MiB, or 2 GiB of one record; append smaller batches."""


class OutOfRange(CecError, LookupError):
    """A position that has been trimmed or does not exist yet."""


class QueueReplaced(OutOfRange):
    """Another queue stands at this path now, or an older copy of this one, or none."""


class RecoveryError(CecError):
    """The log is sound, yet this state cannot be rebuilt from it."""


class WrongDeclaration(CecError, ValueError):
    """Run again, an operator does what one of the class that it declares does not."""


class StandbyRefused(CecError, ValueError):
    """This scheme cannot take this operator over. The primary was left alone."""


class BadFleet(CecError, ValueError):
    """A fleet that is declared in a way in which it cannot run. Nothing was started."""


class NoGlobalCheckpoint(CecError, LookupError):
    """The fleet has no global checkpoint there, or what it needs is not kept any more."""


class OutputNotTakenBack(CecError, ValueError):
    """Going back cannot take back what queries have written to sinks that are no queues."""


class NoSuchExecutor(CecError, LookupError):
    """The application has no executor of this name, or does not have it any more."""


class NoSuchPartition(CecError, LookupError):
    """No query that runs has this partition of state, or no batch has opened it yet."""


class MoveRefused(CecError, ValueError):
    """This checkpoint cannot be taken to another provider or other partitions. It is as it was."""


class MigrationRunning(CecError):
    """This partition is on its way to another executor already; wait for it, or cancel it."""


class MigrationRefused(CecError, ValueError):
    """The partition cannot move there, or not by this protocol. Nothing has changed."""


class PlacementRefused(CecError, ValueError):
    """No placement of replicas can keep this bound. Nothing was started."""


class MigrationFailed(CecError):
    """A migration that was begun came to nothing. The query continues, and no state was lost."""


class StoreNotInstalled(CecError, ImportError):
    """A package that reaches this kind of store is not installed, or is too old."""


class SparkUnavailable(CecError):
    """Something that the Spark connector needs is not installed, or not in a version that fits."""


class CompilationFailed(SparkUnavailable):
    """The Scala sources of the state store provider do not compile against this Spark."""
