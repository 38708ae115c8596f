"""Segments of a state log, and how much of each is sound. docs/format.md §9."""

from __future__ import annotations

from collections.abc import Iterator

from cec_store.errors import CecError, StorageError
from cec_store.inspector.damage.faults import Fault, Note
from cec_store.inspector.damage.log_segment import LogSegment
from cec_store.inspector.damage.queue_files import QueueFiles
from cec_store.inspector.damage.segment_scan import SegmentScan
from cec_store.state_logs.directory_files import is_of_key_directory, problem_of
from cec_store.state_logs.segments import is_state_log
from cec_store.state_logs.state_log import StateLog
from cec_store.state_logs.tree import StateTree
from cec_store.storage.folder import Folder
from cec_store.storage.names import segment_id_of


class StateLogFiles:
    """A state log's files at one moment; to be walked through as a :class:`QueueFiles`."""

    manifest = None

    def __init__(self, folder: Folder) -> None:
        """Raises :class:`NotAQueue` where no state store has written."""
        self.folder = folder
        self.faults: list[Fault] = []
        self.notes: list[Note] = []
        self.tree = StateTree(folder)
        for name in folder.names():
            path = f"{folder.path}/{name}"
            if is_of_key_directory(name):
                self._check_directory(name, path)
                continue
            # Hadoop's local file system keeps checksums in hidden files of its own.
            if segment_id_of(name) is None and not name.startswith((".", "_")):
                self.notes.append(Note(path, 0, "not a file of this store"))

    def _check_directory(self, name: str, path: str) -> None:
        """Note damage: a load then reads the log instead, so that nothing is lost with the file."""
        try:
            problem = problem_of(self.folder, name)
        except FileNotFoundError:
            return  # maintenance has made a newer one
        if problem is not None:
            what = (
                f"of a key directory: {problem}; loads read the log instead, and it can be deleted"
            )
            self.notes.append(Note(path, 0, what))

    def segments(self) -> Iterator[LogSegment | Fault]:
        """The segments, ascending; a branch that was given up stands between others."""
        for segment_id in self.tree.ids:
            segment = self.segment(segment_id)
            if segment is not None:
                yield segment

    def segment(self, segment_id: int) -> LogSegment | None:
        """A segment; ``None`` where maintenance has forgotten it meanwhile."""
        try:
            scan = SegmentScan(self.folder, segment_id)
            state_segment = self.tree.segment(segment_id)
        except (FileNotFoundError, StorageError):
            if not self.is_trimmed(segment_id):
                raise
            return None
        acknowledged = state_segment.end if state_segment.refusal is None else scan.bytes
        return LogSegment(scan, scan.bytes, acknowledged, False, True)

    def is_trimmed(self, segment_id: int) -> bool:
        """Return True if maintenance has deleted this segment by now."""
        try:
            return segment_id not in StateTree(self.folder).ids
        except CecError:
            return False

    def header_faults(self, segment: LogSegment) -> Iterator[Fault]:
        """Yield the faults in a segment's header by itself."""
        scan, header = segment.scan, segment.scan.header
        fault = segment.header_fault()
        if fault is not None and (header is not None or segment.acknowledged):
            yield fault
        elif header is not None and header.epoch:
            what = f"epoch {header.epoch} in a state log"
            yield Fault("epoch", scan.path, 12, what, True)

    def ends_at(self, at: int | str) -> dict[int, int]:
        """Return, for each segment that a version builds on, the bytes of it that count.

        Raises:
            OutOfRange, CorruptLog: it is not there, or out of reach.
        """
        lineage = StateLog(self.folder).version_reader(at)
        return {number: lineage.segment_end(number) for number in lineage.segments}


LogFiles = QueueFiles | StateLogFiles


def files_of(folder: Folder) -> LogFiles:
    """Raises :class:`NotAQueue` where there is neither a queue nor a state log."""
    return StateLogFiles(folder) if is_state_log(folder) else QueueFiles(folder)
