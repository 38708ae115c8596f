"""A whole state log against docs/format.md §9. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cec_store.errors import CecError, CorruptLog
from cec_store.files import Folder
from cec_store.frame import NONE, NOT_COUNTED, BadHeader, FrameType
from cec_store.frontier import Frame
from cec_store.inspector.audit import Audit
from cec_store.inspector.faults import EFFECTS, Fault, Note
from cec_store.inspector.scan import Found, Gap, SegmentScan
from cec_store.inspector.state_recount import StateRecount
from cec_store.inspector.state_survey import StateSurvey
from cec_store.inspector.survey import Part
from cec_store.inspector.verification import Progress, Verification, verify_queue
from cec_store.lineage import Lineage
from cec_store.rebuild import extent, rebuild
from cec_store.records import RecordKind
from cec_store.state_segments import STATE_SCHEMA, is_state_log


def verify(
    folder: Folder, *, records: bool = True, progress: Progress | None = None
) -> Verification:
    """Check every header, body, link and mark; with ``records`` also what the records say.

    Raises:
        NotAQueue: neither a queue here nor a state log.
    """
    if not is_state_log(folder):
        return verify_queue(folder, records=records, progress=progress)
    return _Run(StateSurvey(folder), progress or (lambda _: None)).run(records)


class _Run:
    def __init__(self, survey: StateSurvey, progress: Progress) -> None:
        self._survey = survey
        self._tree = survey.tree
        self._progress = progress
        self._faults: list[Fault] = []
        self._notes = list(survey.notes)
        self._parts: dict[int, Part] = {}
        self._frames = self._records = self._bytes = 0

    def run(self, with_records: bool) -> Verification:
        for part in self._survey.parts():
            if isinstance(part, Part):
                self._parts[part.scan.segment_id] = part
                self._faults += self._survey.header_faults(part)
                self._segment(part)
                self._bytes += part.scan.bytes
                self._progress(self._bytes)
        recount = StateRecount(self._tree, self._scans(), self._found_in_records)
        if with_records:
            recount.run()
        versions = self._check_versions(with_records)
        frames = [f for s in self._parts for f in self._tree.growth(s).frames]
        first = min((f.header.first_offset for f in frames), default=0)
        end = max((f.header.end_offset for f in frames), default=0)
        return Verification(
            path=self._survey.folder.path,
            faults=tuple(replace(fault, effect=EFFECTS[fault.kind]) for fault in self._faults),
            notes=tuple(self._notes),
            epoch=None,
            segments=len(self._parts),
            frames=self._frames,
            records=self._records,
            bytes=self._bytes,
            first_offset=first,
            end_offset=end,
            kinds={k.name: int(recount.counts[k]) for k in RecordKind} if with_records else {},
            recounted_frames=recount.recounted_frames,
            index="none",
            versions=versions,
        )

    def _scans(self) -> dict[int, SegmentScan]:
        return {segment_id: part.scan for segment_id, part in self._parts.items()}

    def _found_in_records(self, frame: Frame, kind: str, what: str) -> None:
        part = self._parts[frame.address.segment_id]
        self._faults.append(part.fault(kind, frame.address.byte, what))

    # -- segments -----------------------------------------------------------------------------

    def _segment(self, part: Part) -> None:
        audit = Audit(with_records=False, is_whole=False)
        self._place(part, audit)
        audit.segment()
        version = -1
        for item in part.scan.frames(part.stop):
            if item.byte >= part.acknowledged:
                what = f"torn tail: {part.scan.bytes - item.byte} bytes of an unfinished write"
                self._notes.append(Note(part.scan.path, item.byte, f"{what}; not a fault"))
                break
            if isinstance(item, Gap):
                self._faults.append(self._gap(part, item))
                continue
            audit.frame(part, item)
            self._faults += self._version_faults(part, item, version)
            if item.header.open_windows != NOT_COUNTED:
                version = item.header.input_upto
        self._faults += audit.faults
        self._notes += audit.unlisted()
        self._frames += audit.frames
        self._records += audit.records
        growth = self._tree.growth(part.scan.segment_id)
        if growth.frames and growth.frames[-1].header.open_windows == NOT_COUNTED:
            what = "an unfinished commit of several frames; not a fault"
            self._notes.append(Note(part.scan.path, growth.frames[-1].address.byte, what))

    def _place(self, part: Part, audit: Audit) -> None:
        """Where the stream goes on in this segment: at the end of the frame that it builds on."""
        header = part.scan.header
        if header is None or not part.acknowledged:
            return
        if header.prev_segment == NONE:
            audit.start_at(0, 0, (NONE, 0))
            return
        segment_id = part.scan.segment_id
        if self._tree.missing_base(segment_id) is not None:
            what = f"it builds on segment {header.prev_segment}, which is not here any more"
            self._notes.append(Note(part.scan.path, 56, what))
            return
        try:
            base = self._tree.base(segment_id)
        except CorruptLog as error:
            self._faults.append(Fault("chain", error.path, error.byte, error.reason, True))
            return
        except CecError:
            return  # of a later format, which is told with that segment
        assert base is not None
        place: tuple[int, int] | None = (base.address.segment_id, base.address.byte)
        if base.address.segment_id != header.prev_segment:
            place = None  # merged since, so the frame stands elsewhere
        audit.start_at(base.header.seq + 1, base.header.end_offset, place)
        growth = self._tree.growth(segment_id)
        if growth.schema and growth.schema.input_upto != base.header.input_upto:
            what = f"it says that it builds on version {growth.schema.input_upto}, "
            what += f"and builds on {base.header.input_upto}"
            self._faults.append(Fault("inputs", part.scan.path, 128, what, True))

    @staticmethod
    def _gap(part: Part, gap: Gap) -> Fault:
        if gap.newer:
            return part.fault("version", gap.byte, gap.reason)
        what = f"{gap.end_byte - gap.byte} bytes are no frame: {gap.reason}"
        return part.fault("frame-damaged", gap.byte, what)

    @staticmethod
    def _version_faults(part: Part, found: Found, before: int) -> Iterator[Fault]:
        header = found.header
        if header.type == FrameType.BATCH and header.input_upto <= before:
            what = f"version {header.input_upto} after version {before}"
            yield part.fault("inputs", found.byte, what)
        elif header.type == FrameType.SCHEMA:
            try:
                schema = part.scan.schema(header._replace(schema_byte=found.byte))
            except BadHeader:
                return  # told as a body
            if schema.arrow != STATE_SCHEMA.arrow:
                yield part.fault("schema", found.byte, "not the columns of a state log")

    # -- versions -----------------------------------------------------------------------------

    def _check_versions(self, with_records: bool) -> int:
        """Rebuild-ability from the newest version down; returns how many can be.

        What is missing below a version that is there may have been forgotten, and not in the order
        of the versions: a segment stays while a later one builds on it.
        """
        failed: list[Fault] = []
        gone: list[int] = []
        count = due = 0
        for version in reversed(self._tree.versions()):
            try:
                extent(Lineage(self._tree, self._tree.find(version)))
            except CecError as error:
                fault = self._version_fault(version, error)
                if count and fault.kind == "segment-missing":
                    gone.append(version)
                else:
                    failed.append(fault)
                continue
            count, due = count + 1, len(failed)
        if not count:
            due = len(failed)
        told = {(fault.path, fault.byte) for fault in self._faults}
        self._faults += [f for f in failed[:due] if (f.path, f.byte) not in told]
        if older := len(gone) + len(failed) - due:
            what = f"{older} older versions can no longer be rebuilt, as segments that they need "
            what += "are gone"
            self._notes.append(Note(self._survey.folder.path, 0, what))
        if with_records and not self._faults and count:
            self._rebuild_newest()
        return count

    def _version_fault(self, version: int, error: CecError) -> Fault:
        what = f"version {version} cannot be rebuilt: "
        if isinstance(error, CorruptLog):
            kind = "segment-missing" if "missing" in error.reason else "chain"
            return Fault(kind, error.path, error.byte, what + error.reason, True)
        return Fault("version", self._survey.folder.path, 0, what + str(error), True)

    def _rebuild_newest(self) -> None:
        """N and q have been counted anew; this is the code that Spark's users will run."""
        newest = self._tree.find()
        try:
            rebuild(Lineage(self._tree, newest))
        except CorruptLog as error:
            self._faults.append(Fault("open-windows", error.path, error.byte, error.reason, True))
