"""A whole state log against docs/format.md §9. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cec_store.connectors.spark.checkpoint.state_rows import (
    RowDecoder,
    VariablesDecoder,
)
from cec_store.errors import CecError, CorruptLog, StorageError
from cec_store.format.frame import NONE, BadHeader, FrameType
from cec_store.format.schema import STATE_SCHEMA, RecordKind
from cec_store.inspector.damage.faults import Fault, Note
from cec_store.inspector.damage.log_segment import LogSegment
from cec_store.inspector.damage.segment_scan import Gap, ScannedFrame, SegmentScan
from cec_store.inspector.damage.state_log_files import StateLogFiles
from cec_store.inspector.damage.whole_segments import Batches, RunningCrcs, SoundFrames, read_whole
from cec_store.inspector.verifying.directory_checks import check_directories
from cec_store.inspector.verifying.frame_checks import FrameChecks
from cec_store.inspector.verifying.kept_versions import KeptVersions
from cec_store.inspector.verifying.results import BytesSoFar, TotalBytes, Verification
from cec_store.inspector.verifying.state_record_checks import BranchChecks
from cec_store.inspector.verifying.version_faults import VersionFaults
from cec_store.log.frames import Frame
from cec_store.state_logs.segments import StateSegment
from cec_store.state_logs.tree import StateTree
from cec_store.storage.folder import Folder

_LOOKS = 4


def verify_state_log(
    folder: Folder,
    records: bool,
    rebuilds: bool,
    committed: Sequence[tuple[int, int | str]],
    decoder: RowDecoder | None,
    progress: BytesSoFar,
) -> Verification:
    """Verify a state log, and do so again if segments were added or removed meanwhile.

    Returns and raises as :func:`cec_store.inspector.verifying.log.verify` does.
    """
    looks_left = _LOOKS
    while True:
        looks_left -= 1
        ids = StateTree(folder).ids
        try:
            run = _StateLogVerifier(StateLogFiles(folder), progress)
            verification = run.run(records, rebuilds, committed, decoder)
        except (CecError, FileNotFoundError):
            if not looks_left or StateTree(folder).ids == ids:
                raise
        else:
            if verification.is_sound or not looks_left or StateTree(folder).ids == ids:
                return verification


class _StateLogVerifier:
    def __init__(self, files: StateLogFiles, progress: BytesSoFar) -> None:
        self._files = files
        self._tree = files.tree
        self._progress = progress
        self._faults: list[Fault] = []
        self._notes = list(files.notes)
        self._segments: dict[int, LogSegment] = {}
        self._lost: dict[tuple[str, int], tuple[int, int]] = {}
        """First and last version that stood from a gap on, by the gap's position."""
        self._frames = self._records = self._bytes = 0

    def run(
        self,
        records: bool,
        rebuilds: bool,
        committed: Sequence[tuple[int, int | str]],
        decoder: RowDecoder | None,
    ) -> Verification:
        for segment_id in self._tree.ids:
            sound = self._read(segment_id)
            segment = LogSegment.whole(sound.scan) if sound is not None else None
            segment = segment or self._files.segment(segment_id)
            if segment is not None:
                self._segments[segment_id] = segment
                self._faults += self._files.header_faults(segment)
                self._check_frames(segment, sound)
                self._bytes += segment.scan.bytes
                segment.scan.reload()
                self._progress(TotalBytes(self._bytes))
        self._note_origins()
        recount = BranchChecks(self._tree, self._files.folder, self._add_record_fault, decoder)
        if records:
            recount.run()
            for reason in recount.undecoded:
                what = f"rows of variables were not decoded: {reason}"
                self._notes.append(Note(self._files.folder.path, 0, what))
        kept = KeptVersions(self._tree)
        versions = VersionFaults(self._tree, kept, self._lost, self._faults, self._notes)
        versions.check()
        versions.check_committed(committed)
        if records:
            versions.rebuild(
                kept.whole if rebuilds else kept.whole[-1:],
                has_variables=isinstance(decoder, VariablesDecoder),
            )
        faults = (*versions.with_effects(), *(self._directory_faults() if rebuilds else ()))
        whole = versions.whole()
        held = [
            batches for batches in (self._tree.segment(n).frames for n in self._segments) if batches
        ]
        return Verification(
            path=self._files.folder.path,
            faults=faults,
            notes=tuple(self._notes),
            epoch=None,
            segments=len(self._segments),
            frames=self._frames,
            records=self._records,
            bytes=self._bytes,
            first_offset=min((frames[0].header.first_offset for frames in held), default=0),
            end_offset=max((frames[-1].header.end_offset for frames in held), default=0),
            kinds={k.name: int(recount.counts[k]) for k in RecordKind} if records else {},
            recounted_frames=recount.recounted_frames,
            index="none",
            versions=len(whole),
            first_version=int(whole[0]) if len(whole) else None,
            last_version=int(whole[-1]) if len(whole) else None,
        )

    def _directory_faults(self) -> Iterator[Fault]:
        """Yield what key directories say otherwise than the log, where that is sound."""
        if self._faults:
            return
        for item in check_directories(self._tree):
            if isinstance(item, Note):
                self._notes.append(item)
            else:
                yield item

    def _add_record_fault(self, frame: Frame, kind: str, what: str) -> None:
        segment = self._segments[frame.address.segment_id]
        self._faults.append(segment.fault(kind, frame.address.byte, what))

    # -- segments -----------------------------------------------------------------------------

    def _read(self, segment_id: int) -> SoundFrames | None:
        """All of a segment, if nothing is wrong with any frame; the tree then need not read it."""
        folder, tree = self._files.folder, self._tree
        try:
            scan = SegmentScan(folder, segment_id)
            header = tree.reader(segment_id).header
        except (FileNotFoundError, StorageError):
            return None
        done = self._bytes
        sound = read_whole(
            folder, scan, scan.bytes, lambda byte: self._progress(TotalBytes(done + byte))
        )
        if sound is None or tree.vouched(segment_id) > scan.bytes:
            return None
        if not sound.counts_from(header.first_seq):
            return None
        tree.remember(
            StateSegment(
                segment_id=segment_id,
                path=scan.path,
                header=header,
                schema=sound.found(0).header,
                frames=Batches(sound) if sound.has_batches() else (),
                end=scan.bytes,
                reason="",
                refusal=None,
                running_crcs=RunningCrcs(sound),
            )
        )
        return sound

    def _check_frames(self, segment: LogSegment, sound: SoundFrames | None) -> None:
        frame_checks = FrameChecks(with_records=False, is_whole=False)
        self._start(segment, frame_checks)
        if sound is not None and sound.versions_rise():
            self._faults += self._version_faults(segment, sound.found(0), -1)
            frame_checks.take(segment, sound)
        else:
            self._frame_by_frame(segment, frame_checks)
        self._faults += frame_checks.faults
        self._notes += frame_checks.unlisted()
        self._frames += frame_checks.frames
        self._records += frame_checks.records
        state_segment = self._tree.segment(segment.scan.segment_id)
        if state_segment.frames and not state_segment.frames[-1].header.is_counted:
            what = "an unfinished commit of several frames; not a fault"
            self._notes.append(Note(segment.scan.path, state_segment.frames[-1].address.byte, what))

    def _frame_by_frame(self, segment: LogSegment, frame_checks: FrameChecks) -> None:
        version, gap = -1, None
        segment_id, scan = segment.scan.segment_id, segment.scan
        if scan.header is None and segment.acknowledged:
            gap = self._begin_gap(scan.path, 0, segment_id)
        for item in segment.scan.frames(segment.stop):
            if item.byte >= segment.acknowledged:
                what = f"torn tail: {segment.scan.bytes - item.byte} bytes of an unfinished write"
                self._notes.append(Note(segment.scan.path, item.byte, f"{what}; not a fault"))
                break
            if isinstance(item, Gap):
                self._faults.append(segment.gap_fault(item))
                if gap is None:
                    gap = self._begin_gap(scan.path, item.byte, segment_id)
                continue
            frame_checks.frame(segment, item)
            self._faults += self._version_faults(segment, item, version)
            if item.header.is_counted:
                version = item.header.input_upto
            if gap is not None:
                first, last = self._lost[gap]
                self._lost[gap] = (first, max(last, item.header.input_upto))
        missing = self._tree.vouched(segment_id) - scan.bytes
        if gap is None and missing > 0:
            self._begin_gap(scan.path, scan.bytes, segment_id)
            what = f"the file ends {missing} bytes before what a later segment builds on"
            self._faults.append(Fault("segment-cut", scan.path, scan.bytes, what, True))

    def _begin_gap(self, path: str, byte: int, segment_id: int) -> tuple[str, int]:
        """Versions are out of reach from here on, one at least."""
        first = self._tree.segment(segment_id).newest_version + 1
        self._lost[path, byte] = (max(1, first), max(1, first))
        return path, byte

    def _note_origins(self) -> None:
        """All segments of a store are of one log, but for attempts at its very first version."""
        held: dict[bytes, list[LogSegment]] = {}
        for segment in self._segments.values():
            if segment.scan.header is not None:
                held.setdefault(segment.scan.header.log_id, []).append(segment)
        own = max(held.values(), key=len, default=[])
        others = (segment for parts in held.values() if parts is not own for segment in parts)
        for segment in others:
            what = "of another log than the other segments: the remains of an attempt at the first "
            what += "version, or of another store"
            self._notes.append(Note(segment.scan.path, 16, what))

    def _start(self, segment: LogSegment, frame_checks: FrameChecks) -> None:
        """Let the stream go on in this segment at the end of the frame that it builds on."""
        header = segment.scan.header
        if header is None or not segment.acknowledged:
            return
        if header.prev_segment == NONE:
            frame_checks.start_at(0, 0, (NONE, 0))
            return
        segment_id = segment.scan.segment_id
        if self._tree.missing_base(segment_id) is not None:
            what = f"it builds on segment {header.prev_segment}, which is not here any more"
            self._notes.append(Note(segment.scan.path, 56, what))
            return
        try:
            base = self._tree.base(segment_id)
        except CorruptLog as error:
            known = {(fault.path, fault.byte) for fault in self._faults}
            if (error.path, error.byte) not in known:
                fault = Fault("chain", error.path, error.byte, error.reason, True)
                self._faults.append(fault)
            return
        except CecError:
            return  # of a later format, which is reported with that segment
        assert base is not None
        previous: tuple[int, int] | None = (base.address.segment_id, base.address.byte)
        if base.address.segment_id != header.prev_segment:
            previous = None  # merged since, so the frame stands elsewhere
        frame_checks.start_at(base.header.seq + 1, base.header.end_offset, previous)
        state_segment = self._tree.segment(segment_id)
        if state_segment.schema and state_segment.schema.input_upto != base.header.input_upto:
            what = f"it says that it builds on version {state_segment.schema.input_upto}, "
            what += f"and builds on {base.header.input_upto}"
            self._faults.append(Fault("inputs", segment.scan.path, 128, what, True))

    @staticmethod
    def _version_faults(segment: LogSegment, scanned: ScannedFrame, before: int) -> Iterator[Fault]:
        header = scanned.header
        if header.type == FrameType.BATCH and header.input_upto <= before:
            what = f"version {header.input_upto} after version {before}"
            yield segment.fault("inputs", scanned.byte, what)
        elif header.type == FrameType.SCHEMA:
            try:
                schema = segment.scan.schema(header._replace(schema_byte=scanned.byte))
            except BadHeader:
                return  # reported as a body
            if schema.arrow != STATE_SCHEMA.arrow:
                yield segment.fault("schema", scanned.byte, "not the columns of a state log")
