"""Check the records of a state log against its headers, and count N and q anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.checkpoints.last_rows import last_rows
from cec_store.checkpoints.rebuild import extent_frames
from cec_store.connectors.spark.checkpoint.state_rows import (
    RowDecoder,
    StateDecoder,
    VariablesDecoder,
    in_default_family,
)
from cec_store.errors import CecError, SchemaMismatch, SparkUnavailable
from cec_store.format.columns import Ints, values_of
from cec_store.format.frame import BadHeader, FrameHeader
from cec_store.format.records import inputs_of
from cec_store.format.schema import KEY, STATE, STATE_SCHEMA, RecordKind
from cec_store.inspector.damage.segment_scan import ScannedFrame, SegmentScan
from cec_store.inspector.decoding.variables import FamilyCells
from cec_store.inspector.verifying.record_checks import RecordChecks
from cec_store.log.frames import Frame
from cec_store.state_logs.families import NAMES, FamilyNames, rows_in
from cec_store.state_logs.tree import StateTree
from cec_store.state_logs.versions import VersionReader
from cec_store.storage.folder import Folder
from cec_store.values import Address

Report = Callable[[Frame, str, str], None]
"""Takes a frame, a kind of fault and what is wrong."""
_FOOTPRINTS = (RecordKind.OPEN.value, RecordKind.CHECK.value)


class StateRecordChecks(RecordChecks):
    """Checks the frames of a lineage in order."""

    def _check_order(
        self, header: FrameHeader, records: pa.RecordBatch, kinds: NDArray[np.uint8]
    ) -> Iterator[tuple[str, str]]:
        first = header.first_offset
        unknown = ~np.isin(kinds, [*_FOOTPRINTS, RecordKind.RESULT.value])
        if unknown.any():
            row = int(unknown.argmax())
            yield "kinds", f"record {first + row} has the kind {kinds[row]}, which no state log has"
        is_set = np.asarray(records.column(STATE).is_valid())
        odd = is_set != np.isin(kinds, _FOOTPRINTS)
        if odd.any():
            yield "kinds", f"record {first + int(odd.argmax())} has a value, or lacks one, wrongly"
        if len(last_rows(records.column(KEY))) < len(kinds):
            yield "kinds", "a key has two records in one frame"
        versions = inputs_of(records, 1)[:, 0]
        if (versions != header.input_upto).any():
            yield "inputs", f"records of another version than the header's, {header.input_upto}"


class BranchChecks:
    """Goes forward over every branch of a state log, each record once where that is enough."""

    def __init__(
        self, tree: StateTree, folder: Folder, report: Report, decoder: RowDecoder | None
    ) -> None:
        self._tree = tree
        self._folder = folder
        self._report = report
        self._decoder = decoder
        self._names = FamilyNames(tree)
        self.undecoded: dict[str, None] = {}
        """Reasons that rows of variables were not decoded, in the order in which they came."""
        self._scan: SegmentScan | None = None
        self._done: set[Address] = set()
        self.counts = np.zeros(256, np.int64)
        """Records of each kind."""
        self.recounted_frames = 0

    def run(self) -> None:
        """The newest branch first, so that those given up are short."""
        for tip in self._tips():
            self._branch(VersionReader(self._tree, tip), tip)

    def _tips(self) -> list[Frame]:
        """Frames on which nothing builds, those of the youngest segments first."""
        bases = set()
        for segment_id in self._tree.ids:
            try:
                base = self._tree.base(segment_id)
            except CecError:
                continue  # reported with the segment
            bases.add(base.address if base else None)
        ends = [g.frames[-1] for g in map(self._tree.segment, self._tree.ids) if g.frames]
        return [frame for frame in reversed(ends) if frame.address not in bases]

    def _branch(self, lineage: VersionReader, tip: Frame) -> None:
        fresh: list[Frame] = []
        frame: Frame | None = tip
        known: list[Frame] = []
        try:
            while frame is not None and frame.address not in self._done:
                fresh.append(frame)
                frame = lineage.before(frame)
            # The branch leaves another one here: its open windows are those of this frame's extent.
            if frame is not None and frame.header.is_counted:
                known = list(extent_frames(lineage, frame))
        except CecError:
            known = []  # forgotten, or reported with the segment
        checks = StateRecordChecks(STATE_SCHEMA)
        for item in reversed(known):
            self._check(checks, item, is_fresh=False)
        checks.recounted_frames = 0
        for item in reversed(fresh):
            self._check(checks, item, is_fresh=True)
        self.recounted_frames += checks.recounted_frames
        self._done.update(item.address for item in fresh)

    def _scan_of(self, segment_id: int) -> SegmentScan:
        """One after the other: each holds a bucket of its file."""
        if self._scan is None or self._scan.segment_id != segment_id:
            self._scan = SegmentScan(self._folder, segment_id)
        return self._scan

    def _check(self, checks: StateRecordChecks, frame: Frame, is_fresh: bool) -> None:
        scan = self._scan_of(frame.address.segment_id)
        scanned = ScannedFrame(frame.address.segment_id, frame.address.byte, frame.header)
        if scan.body_problem(scanned):
            checks.forget(frame.header.end_offset)
            return  # reported with the segment
        try:
            records = scan.records(scanned)
        except BadHeader as error:
            checks.forget(frame.header.end_offset)
            if is_fresh:
                self._report(frame, "body-structure", str(error))
            return
        before = checks.counts.copy()
        for kind, what in checks.check(frame.header, records):
            if is_fresh:
                self._report(frame, kind, what)
        if is_fresh:
            self.counts += checks.counts - before
            self._decode(frame, records)

    def _decode(self, frame: Frame, records: pa.RecordBatch) -> None:
        """Report a fault unless Spark's schemas decode the frame's keys and values."""
        if isinstance(self._decoder, StateDecoder):
            self._decode_table(self._decoder, frame, records)
        elif self._decoder is not None:
            self._decode_variables(self._decoder, frame, records)

    def _decode_table(self, decoder: StateDecoder, frame: Frame, records: pa.RecordBatch) -> None:
        """Decode the rows of the operator's own family."""
        families, keys = records.column(KEY).flatten()
        is_own = in_default_family(families)
        values, _ = records.column(STATE).filter(is_own).flatten()
        try:
            decoder.keys(pa.chunked_array([keys.filter(is_own)]))
            decoder.values(pa.chunked_array([values.drop_null()]))
        except SchemaMismatch as error:
            self._report(frame, "rows", str(error))

    def _decode_variables(
        self, decoder: VariablesDecoder, frame: Frame, records: pa.RecordBatch
    ) -> None:
        """Decode the rows of each family; those that cannot be looked at are noted."""
        names = self._names.at(frame.address.segment_id, frame.header.seq, records)
        rows = rows_in(records)
        numbers = values_of(rows["family"], "u2")
        for number in np.unique(numbers).tolist():
            if number == NAMES:
                continue
            if number not in names:
                self._unnamed(frame, number)
                continue
            family = names[number]
            try:
                cells = FamilyCells(decoder, family)
            except SchemaMismatch as error:
                self.undecoded.setdefault(str(error))
                continue
            own = np.flatnonzero(numbers == number)
            try:
                problem = _first_problem(cells, rows, own)
            except SparkUnavailable as error:
                self.undecoded.setdefault(str(error))
                continue
            if problem is not None:
                row, reason = problem
                record = frame.header.first_offset + row
                self._report(frame, "rows", f"record {record} of {cells.variable!r}: {reason}")

    def _unnamed(self, frame: Frame, number: int) -> None:
        if self._names.problem is None:
            self._report(frame, "rows", f"no record names family {number}, which has rows here")
        else:
            what = f"what names family {number} cannot be read: {self._names.problem}"
            self.undecoded.setdefault(what)


def _first_problem(cells: FamilyCells, rows: pa.RecordBatch, own: Ints) -> tuple[int, str] | None:
    """Return the first of these rows that is not of its schema, and why; None: all of them are."""

    def check(some: Ints) -> str:
        part = rows.take(pa.array(some))
        try:
            cells.check(part["key"], part["value"])
        except SchemaMismatch as error:
            return str(error)
        return ""

    if not check(own):
        return None
    low, high = 0, len(own)  # rows before `low` are sound, and one of those before `high` is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if check(own[low:middle]) else (middle, high)
    return int(own[low]), check(own[low:high])
