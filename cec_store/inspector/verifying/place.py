"""All at a path against docs/format.md: each log, and what stands around it. Reads only."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from cec_store.connectors.spark.checkpoint.layout import store_folder
from cec_store.connectors.spark.checkpoint.state_rows import RowDecoder
from cec_store.connectors.spark.checkpoint.state_schema import operator_name
from cec_store.errors import CecError, NotAQueue
from cec_store.inspector.built_in.checks import StoreCheck
from cec_store.inspector.built_in.figures import figures_of
from cec_store.inspector.built_in.store_files import StoreFiles
from cec_store.inspector.damage.faults import EFFECTS, Fault, Note, kind_of, located
from cec_store.inspector.places.places import Log, Place, PlaceKind
from cec_store.inspector.verifying.log import verify
from cec_store.inspector.verifying.reference_queue import verify_reference
from cec_store.inspector.verifying.results import (
    BytesSoFar,
    PlaceVerification,
    TotalBytes,
    Verification,
    VerifiedLog,
)
from cec_store.inspector.verifying.spark_files import SparkFiles
from cec_store.storage.stores.folders import local_of

_LOOKS = 4


def verify_place(
    place: Place, *, deep: bool = False, records: bool = False, progress: BytesSoFar | None = None
) -> PlaceVerification:
    """Check every log, and that they fit each other and the files around them.

    ``records``: decode all records and count N and q anew. ``deep``: this as well, rebuild every
    version that is kept, and hold keys and values against Spark's schema.
    """
    return _PlaceVerifier(place, deep, records or deep, progress or (lambda _: None)).run()


class _PlaceVerifier:
    def __init__(self, place: Place, deep: bool, records: bool, progress: BytesSoFar) -> None:
        self._place = place
        self._deep = deep
        self._records = records
        self._progress = progress
        self._bytes = 0
        self._faults: list[Fault] = []
        self._notes: list[Note] = []
        self._logs: list[VerifiedLog] = []
        self._spark: SparkFiles | None = None

    def run(self) -> PlaceVerification:
        place = self._place
        if place.checkpoint is not None:
            self._spark = SparkFiles(place.checkpoint, place.logs, place.is_built_in)
            self._spark.check()
        if place.kind is PlaceKind.PARTITIONED_QUEUE:
            faults, notes, self._logs = verify_reference(place, self._records, self._progress)
            self._add(faults, notes)
        else:
            for log in (*place.logs, *self._lost_logs()):
                self._verify(log)
        local = local_of(place.folder)
        if local is not None and (modes := local.note_of_modes()) is not None:
            self._notes.append(Note(place.path, 0, modes))
        batches = None
        if self._spark is not None:
            self._add(self._spark.faults, self._spark.notes)
            if self._spark.batches:
                batches = (self._spark.batches[0], self._spark.batches[-1])
        order = {entry.log.name: number for number, entry in enumerate(self._logs, 1)}
        self._faults.sort(key=lambda fault: order.get(fault.log, 0) if fault.log else 0)
        counts = Counter(fault.log for fault in self._faults)
        logs = tuple(replace(entry, faults=counts[entry.log.name]) for entry in self._logs)
        return PlaceVerification(place, tuple(self._faults), tuple(self._notes), logs, batches)

    def _add(self, faults: list[Fault], notes: list[Note], log: str = "") -> None:
        self._faults += [
            replace(fault, effect=_effect(fault), log=fault.log or log) for fault in faults
        ]
        self._notes += [replace(note, log=note.log or log) for note in notes]

    def _lost_logs(self) -> list[Log]:
        """Return the logs that Spark counts and of which there is not even a folder."""
        if self._spark is None or self._place.checkpoint is None:
            return []
        present = {(log.operator, log.partition, log.store) for log in self._place.logs}
        lost = []
        for operator, partition, store in self._spark.due_stores():
            if (operator, partition, store) not in present:
                at = self._place.checkpoint.operator_folder(operator)
                folder = store_folder(at, partition, store)
                name = operator_name(at)
                lost.append(Log.of_store(folder, operator, partition, store, name))
        return lost

    def _verify(self, log: Log) -> None:
        if self._place.is_built_in:
            self._verify_built_in(log)
            return
        if self._spark is not None and not self._spark.is_ours:
            self._notes.append(Note(log.folder.path, 0, "kept by another provider", log.name))
            self._logs.append(VerifiedLog(log, None, 0))
            return
        verification = None
        try:
            verification = self._found_in(log)
            for _ in range(_LOOKS):
                if self._spark is None or verification.is_sound or not self._spark.has_gone_on():
                    break
                verification = self._found_in(log)  # what was committed then may be forgotten now
        except NotAQueue:
            self._missing(log)
        except CecError as error:
            fault = Fault(kind_of(error), log.folder.path, 0, str(error), True)
            self._add([fault], [], log.name)
        else:
            self._add(list(verification.faults), list(verification.notes), log.name)
            self._bytes += verification.bytes
        self._logs.append(VerifiedLog(log, verification, 0))

    def _verify_built_in(self, log: Log) -> None:
        assert self._spark is not None
        try:
            for _ in range(_LOOKS):
                committed = [
                    (version, at if isinstance(at, str) else None)
                    for version, at in self._spark.committed(log)
                ]
                files = StoreFiles(log.folder)
                check = StoreCheck(files, committed, lambda count: None)
                check.run()
                if not check.faults or not self._spark.has_gone_on():
                    break
            figures = figures_of(files)
        except FileNotFoundError:
            self._missing(log)
            self._logs.append(VerifiedLog(log, None, 0))
            return
        except CecError as error:
            self._add([Fault(kind_of(error), *located(error, log.folder.path), True)], [], log.name)
            self._logs.append(VerifiedLog(log, None, 0))
            return
        self._add(check.faults, check.notes, log.name)
        self._bytes += figures.bytes
        self._progress(TotalBytes(self._bytes))
        kept = (check.loadable[0], check.loadable[-1]) if check.loadable else None
        self._logs.append(VerifiedLog(log, None, 0, figures, kept))

    def _found_in(self, log: Log) -> Verification:
        done = self._bytes
        return verify(
            log.folder,
            records=self._records,
            rebuilds=self._deep,
            committed=self._spark.committed(log) if self._spark is not None else (),
            decoder=self._decoder_of(log),
            progress=lambda byte: self._progress(TotalBytes(done + byte)),
        )

    def _decoder_of(self, log: Log) -> RowDecoder | None:
        """Return the decoder of a log's rows, where they are to be decoded and can be."""
        if not self._deep or not self._place.has_versions:
            return None
        reason = "what Spark notes of them is not here"
        try:
            decoder = log.row_decoder
        except (CecError, ValueError) as error:
            decoder, reason = None, str(error)
        if decoder is None and self._place.checkpoint is None:  # else it is reported with the file
            note = Note(log.folder.path, 0, f"keys and values were not decoded: {reason}", log.name)
            self._notes += [] if note in self._notes else [note]
        return decoder

    def _missing(self, log: Log) -> None:
        folder = log.folder
        what = "no segment is left here" if folder.exists() else "the folder is missing"
        if self._spark is not None and not self._spark.batches:
            self._notes.append(Note(folder.path, 0, "nothing is committed yet", log.name))
            return
        fault = Fault("log-missing", folder.path, 0, what, True)
        if self._spark is not None:
            first, last = self._spark.batches[0] + 1, self._spark.batches[-1] + 1
            what += f"; Spark has committed versions {first} to {last}"
            fault = replace(fault, what=what, first_version=first, last_version=last)
        self._add([fault], [], log.name)


def _effect(fault: Fault) -> str:
    if fault.effect:
        return fault.effect
    if fault.first_offset is not None and fault.end_offset is not None:
        return f"records {fault.first_offset:,} to {fault.end_offset - 1:,}: {EFFECTS[fault.kind]}"
    return EFFECTS[fault.kind]
