"""Names on disk. Nothing else builds or parses a file name."""

from __future__ import annotations

import re

WRITER_LOCK = "writer.lock"
CONSUMERS_LOCK = "consumers.lock"
RETENTION = "retention"
INPUTS = "inputs"
INDEX_FOLDER = "index"
INDEX_STAMP = "stamp"
LEASES_FOLDER = "leases"
CONSUMERS_FOLDER = "consumers"
DATA_FOLDER = "data"
_SEGMENT = re.compile(r"([0-9]{20})\.seg")
_MANIFEST = re.compile(r"manifest-([0-9]{10})")
_CLAIM = re.compile(r"claim-([0-9]{10})\.tmp")
_DURABLE = re.compile(r"durable-([0-9]{10})")
_GIVEN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
"""Names that people give to consumers, writers and leases: parts of names in any store."""
_ACKNOWLEDGEMENT = re.compile(rf"consumer-({_GIVEN.pattern})\.ack")
_CONSUMER_LOCK = re.compile(rf"consumer-({_GIVEN.pattern})\.lock")
_TAKEOVER = re.compile(r"-([0-9]{6})")
_CONSUMER_TAKEOVER = re.compile(rf"consumer-({_GIVEN.pattern})\.(ack|lock)-[0-9]{{6}}")
_PROBE = re.compile(r"probe-[0-9a-f]{32}\.tmp")
_INDEX_DATA = re.compile(r"[0-9a-f]{16}\.mdb")


def manifest_name(epoch: int) -> str:
    """Each writer publishes under its own epoch, so that none can replace another's."""
    return f"manifest-{epoch:010d}"


def manifest_epoch_of(name: str) -> int | None:
    """The epoch in a manifest's file name; ``None`` for any other name."""
    match = _MANIFEST.fullmatch(name)
    return int(match.group(1)) if match else None


def claim_name(epoch: int) -> str:
    """Return the name of the file that claims an epoch until the writer's manifest is there."""
    return f"claim-{epoch:010d}.tmp"


def claimed_epoch_of(name: str) -> int | None:
    """The epoch in the name of a claim; ``None`` for any other name."""
    match = _CLAIM.fullmatch(name)
    return int(match.group(1)) if match else None


def durable_name(epoch: int) -> str:
    """Return the name of the file in which an epoch's writer notes its durable end, held locked."""
    return f"durable-{epoch:010d}"


def durable_epoch_of(name: str) -> int | None:
    """The epoch in the name of such a file; ``None`` for any other name."""
    match = _DURABLE.fullmatch(name)
    return int(match.group(1)) if match else None


def segment_name(segment_id: int) -> str:
    """20 digits, so that a listing sorts by number."""
    return f"{segment_id:020d}.seg"


def segment_id_of(name: str) -> int | None:
    """The number in a segment's file name; ``None`` for any other name."""
    match = _SEGMENT.fullmatch(name)
    return int(match.group(1)) if match else None


def torn_name(segment_id: int) -> str:
    """Return the name of the copy of a segment's cut tail, which is kept for people to look at."""
    return f"{segment_id:020d}.torn"


def check_given_name(name: object, whose: str) -> str:
    """Return a name that a consumer, a lease or a writer may have.

    Raises:
        ValueError: anything but 1 to 100 of ``A-Z a-z 0-9 . _ -``, the first a letter or digit and
            the last no dot; says ``whose`` name it was to be.
    """
    if not isinstance(name, str) or not _GIVEN.fullmatch(name):
        raise ValueError(
            f"not {whose} name: {name!r}; use 1 to 100 of A-Z a-z 0-9 . _ -, the first a letter or "
            "a digit and the last no dot"
        )
    return name


def checked_transaction(app_id: object, version: object) -> tuple[str, int]:
    """Return the name of a writer and the number of its batch, as a commit can say them.

    Raises:
        ValueError: another name than :func:`check_given_name` takes, or another number than
            an int from 0 to 2^63 - 1.
    """
    name = check_given_name(app_id, "a writer's")
    if type(version) is not int or not 0 <= version < 1 << 63:
        raise ValueError(f"{version!r} is no version: a whole number from 0 to 2^63 - 1")
    return name, version


def check_consumer_name(name: object) -> str:
    """Return a name that a consumer may have; raises as :func:`check_given_name` does."""
    return check_given_name(name, "a consumer's")


def _of_takeover(name: str, number: int) -> str:
    return f"{name}-{number:06d}" if number else name


def _takeover_of(name: str, first: str) -> int | None:
    if name == first:
        return 0
    number = _TAKEOVER.fullmatch(name.removeprefix(first)) if name.startswith(first) else None
    return int(number.group(1)) if number else None


def acknowledgement_name(consumer: str, takeover: int = 0) -> str:
    """Return the file name of a consumer's acknowledgements, of its first holder or a later one."""
    return _of_takeover(f"consumer-{consumer}.ack", takeover)


def takeover_of_acknowledgement(name: str, consumer: str) -> int | None:
    """The number of the takeover whose acknowledgements of this consumer the file has."""
    return _takeover_of(name, acknowledgement_name(consumer))


def consumer_of(name: str) -> str | None:
    """The consumer whose acknowledgements this file has; ``None`` for any other file."""
    match = _ACKNOWLEDGEMENT.fullmatch(name)
    return match.group(1) if match else None


def consumer_lock_name(consumer: str, takeover: int = 0) -> str:
    """Held by whoever acts under the consumer's name."""
    return _of_takeover(f"consumer-{consumer}.lock", takeover)


def takeover_of_lock(name: str, consumer: str) -> int | None:
    """The number of the takeover whose lock on this consumer's name the file is."""
    return _takeover_of(name, consumer_lock_name(consumer))


def is_of_consumer_takeover(name: str) -> bool:
    """Return True for acknowledgements or a lock that a takeover of a consumer has made."""
    return _CONSUMER_TAKEOVER.fullmatch(name) is not None


def is_consumer_lock(name: str) -> bool:
    """Return True for a lock of consumers: that of one consumer, or ``CONSUMERS_LOCK``."""
    return name == CONSUMERS_LOCK or _CONSUMER_LOCK.fullmatch(name) is not None


def index_data_name(token: int) -> str:
    """A file of the index under a random 64-bit number, so that no name is ever used twice."""
    return f"{token:016x}.mdb"


def is_index_data(name: str) -> bool:
    """Return True if this is the name of a data file of the index."""
    return _INDEX_DATA.fullmatch(name) is not None


def temporary_name(name: str) -> str:
    """Return the name that a file has until it is complete and is renamed to ``name``."""
    return f"{name}.tmp"


def probe_name(token: str) -> str:
    """An object that is made to see what a store does, under 32 random hexadecimal digits."""
    return f"probe-{token}.tmp"


def is_probe(name: str) -> bool:
    """Return True for the name of a probe, which a process that was killed may have left."""
    return _PROBE.fullmatch(name) is not None


COMMITS_PER_FOLDER = 1000
LOG_FOLDER = "log"
COMMIT_MARK = "mark"
_LOG_FOLDER = re.compile(r"[0-9]{17}")
_ACKNOWLEDGEMENT_OBJECT = re.compile(r"([0-9]{20})\.ack")
_LOG_OBJECT = re.compile(r"([0-9]{20})\.commit")


def commit_object_name(number: int) -> str:
    """Return the name of a commit by reference, below the queue."""
    return f"{log_folder_name(number)}/{number:020d}.commit"


def log_folder_name(number: int) -> str:
    """The folder of a commit."""
    return f"{LOG_FOLDER}/{number // COMMITS_PER_FOLDER:017d}"


def is_log_folder(name: str) -> bool:
    """Return True if this is the last part of a name that :func:`log_folder_name` returns."""
    return _LOG_FOLDER.fullmatch(name) is not None


def commit_number_of(name: str) -> int | None:
    """The number in the last part of a commit's name; ``None`` for any other."""
    match = _LOG_OBJECT.fullmatch(name)
    return int(match.group(1)) if match else None


def data_object_name(query: str, batch: int, partition: int, segment_id: int) -> str:
    """A segment that a task of a query's batch has made, below the queue."""
    return f"{data_folder_name(query, batch)}/{partition:05d}-{segment_id:020d}.seg"


def data_folder_name(query: str, batch: int) -> str:
    """Return the folder, below the queue, of the segments that the tasks of a batch make.

    Raises:
        ValueError: ``query`` is not a consumer's name.
    """
    return f"{DATA_FOLDER}/{check_consumer_name(query)}/{batch}"


def consumer_folder_name(consumer: str) -> str:
    """Return the name of a consumer's folder, below a partitioned queue."""
    return f"{CONSUMERS_FOLDER}/{check_consumer_name(consumer)}"


def acknowledgement_object_name(consumer: str, number: int) -> str:
    """One of its acknowledgements."""
    return f"{consumer_folder_name(consumer)}/{number:020d}.ack"


def acknowledgement_number_of(name: str) -> int | None:
    """The number in the last part of such a name; ``None`` for any other."""
    match = _ACKNOWLEDGEMENT_OBJECT.fullmatch(name)
    return int(match.group(1)) if match else None
