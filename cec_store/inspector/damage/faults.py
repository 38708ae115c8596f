"""Faults and notes of an inspection as values, each with advice on what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from cec_store.errors import CorruptLog, SchemaMismatch, UnsupportedVersion

_SPARK = (
    "the file is Spark's own: restore it from a copy, or `cec-store fork` from an earlier batch"
)
_COPY = "restore the file from a copy; readers stop in front of it and nothing is skipped"
_DEFECT = (
    "the checksums are right, so these bytes were written like this: keep the folder and report a "
    "defect of the writer"
)
ADVICE = {
    "manifest-missing": "restore the manifest from a copy; `cec-store dump` shows the segments",
    "manifest-damaged": "restore the manifest from a copy; `cec-store dump` shows the segments",
    "manifest-old": "restore the manifest from a copy as new as the rest of the queue",
    "note-old": "open the queue for append once: whole frames are kept, and noted anew",
    "retention-damaged": "set it again: `cec-store consumers --retention`",
    "inputs-damaged": "restore the file from a copy; where the inputs are certainly the right "
    "ones, remove it, and the operator writes it anew",
    "consumer-damaged": "restore the file from a copy, or `cec-store consumers --drop` it by name",
    "version": "upgrade cec-store: a later release wrote this",
    "unreadable": "look again as a user who may read it, or once the disk can be read",
    "segment-missing": "restore the file from a copy; readers stop in front of it",
    "segment-header": _COPY,
    "segment-foreign": "put this queue's own file back from a copy",
    "segment-cut": _COPY,
    "chain": "one of the two segments was swapped or rolled back: restore both from one copy",
    "epoch": _DEFECT,
    "link": _DEFECT,
    "frame-damaged": _COPY,
    "body-checksum": _COPY,
    "body-structure": _DEFECT,
    "schema": _DEFECT,
    "sequence": "frames were left out or put in: restore the segment from a copy",
    "offsets": _DEFECT,
    "previous": _DEFECT,
    "durable-mark": _DEFECT,
    "step": _DEFECT,
    "timestamps": _DEFECT,
    "kinds": _DEFECT,
    "inputs": _DEFECT,
    "open-windows": _DEFECT,
    "extent": _DEFECT,
    "index": "`cec-store reindex`; until then lookups scan frame headers",
    "key-directory": "stop the query and delete the file: a start then reads the log, which is "
    "sound; keep a copy of the folder and report a defect of the writer",
    "log-missing": "restore the whole folder from a copy",
    "commit-record": _DEFECT,
    "commit-missing": "restore the object from a copy",
    "commit-damaged": "restore the object from a copy",
    "version-missing": "restore the store's segments from a copy, or `cec-store fork` from a batch "
    "that all stores still have",
    "state-file-missing": "restore the file from a copy of the checkpoint, or begin again from an "
    "earlier one: Spark goes on with nothing less",
    "state-file-damaged": "restore the file from a copy of the checkpoint",
    "spark-metadata": _SPARK,
    "spark-offsets": _SPARK,
    "spark-commits": _SPARK,
    "spark-schema": _SPARK,
    "spark-repartition": "`cec-store fork CHECKPOINT NEW --batch N`, N the batch before: the new "
    "one goes on; for other partitions take `spark.repartition` of cec-store",
    "spark-checksum": "restore file and checksum from one copy; where the file is known to be "
    "right, delete the hidden `.crc` beside it",
    "rows": "the log's bytes are as they were written: restore the schema in `_metadata`, or keep "
    "the folder and report a defect of the writer",
}
"""Every kind of fault, and what to do."""
EFFECTS = {
    "manifest-missing": "the queue cannot be opened",
    "manifest-damaged": "the queue cannot be opened",
    "manifest-old": "the queue cannot be opened; records may be missing",
    "note-old": "the last records may have been acknowledged, and readers are not shown them",
    "retention-damaged": "nobody knows what may be deleted: nothing is trimmed by itself",
    "inputs-damaged": "the operator that writes the queue does not start",
    "consumer-damaged": "nobody knows what this consumer needs: nothing is trimmed",
    "version": "this release cannot read on from here",
    "unreadable": "nothing is known of what is in it",
    "segment-missing": "readers stop in front of it",
    "segment-header": "readers refuse the whole segment",
    "segment-foreign": "readers refuse the whole segment",
    "segment-cut": "readers stop here",
    "chain": "the records of the segment before may not be those that were acknowledged",
    "epoch": "a writer that was replaced may have written here",
    "link": "a frame may be missing before it, or be another; Spark's provider reads a segment of "
    "state from its start instead of its end",
    "frame-damaged": "readers stop here",
    "body-checksum": "readers stop here, but no record is lost",
    "body-structure": "the records of this frame cannot be read",
    "schema": "the records behind it may be refused",
    "sequence": "frames may be missing",
    "offsets": "offsets that were handed out may name other records",
    "previous": "a rebuild that has to go back beyond this frame fails",
    "durable-mark": "the end of the log may be judged wrongly",
    "step": "readers stop here: a part of a step is no step",
    "timestamps": "lookups by time may miss records of this frame",
    "kinds": "a rebuild may decide by the wrong record of a window",
    "inputs": "a rebuild may ask for too little or too much input",
    "open-windows": "a rebuild at this frame fails",
    "extent": "a rebuild at this frame reads too little or too much",
    "index": "lookups by time are slower; no record is affected",
    "key-directory": "a start that goes by it has another state than the log says",
    "log-missing": "all that this log held is out of reach",
    "commit-record": "which records of the partitions belong to which batch is not certain",
    "commit-missing": "the queue cannot be opened, or readers stop in front of it",
    "commit-damaged": "the queue cannot be opened, or readers stop in front of it",
    "version-missing": "state that was acknowledged cannot be read",
    "state-file-missing": "the query does not start from these versions",
    "state-file-damaged": "Spark refuses the file, and each version that is made of it",
    "spark-metadata": "Spark takes the query for another one, or does not start it",
    "spark-offsets": "the query does not restart if it needs this batch",
    "spark-commits": "the query does not restart from this batch, or runs it twice",
    "spark-schema": "Spark does not start the query; keys and values cannot be decoded",
    "spark-repartition": "the query does not start any more; its state is whole",
    "spark-checksum": "Spark refuses to read the file",
    "rows": "keys or values of this frame cannot be decoded",
}
"""Effects of each kind of fault, used where no range of records describes the effect better."""
assert EFFECTS.keys() == ADVICE.keys()


@dataclass(frozen=True)
class Fault:
    """Something that is not as docs/format.md has it."""

    kind: str
    """A key of :data:`ADVICE`."""
    path: str
    byte: int
    what: str
    acknowledged: bool
    """True below the acknowledged end of the log; a fault of the index is never acknowledged."""
    first_offset: int | None = None
    """Records from here on are out of reach; ``None`` where none is."""
    end_offset: int | None = None
    """The first record that can be read again; ``None``: none, up to the end."""
    effect: str = ""
    log: str = ""
    """Name among the logs of a place; empty where there is one, or for what belongs to all."""
    first_version: int | None = None
    """The oldest version of a state store that cannot be read; ``None`` where each can."""
    last_version: int | None = None

    @property
    def advice(self) -> str:
        """Advice on what to do about a fault of this kind."""
        return ADVICE[self.kind]


def kind_of(error: Exception) -> str:
    """The kind of fault of a file that an error other than its damage keeps from being read."""
    return "version" if isinstance(error, UnsupportedVersion) else "unreadable"


def is_note(error: Exception) -> bool:
    """Return whether it is sound all the same: Spark's schema has a type that is not decoded here.

    Keys and values are then shown as they are stored.
    """
    return isinstance(error, SchemaMismatch)


@dataclass(frozen=True)
class Note:
    """Something to know that is no fault."""

    path: str
    byte: int
    what: str
    log: str = ""


def located(error: Exception, path: str) -> tuple[str, int, str]:
    """File, byte and reason of an error: the file at ``path`` where the error names none."""
    if isinstance(error, CorruptLog):
        return error.path, error.byte, error.reason
    return path, 0, str(error)
