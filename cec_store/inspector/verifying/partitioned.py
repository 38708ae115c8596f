"""The parts of a queue of many partitions against each other. docs/format.md §11. Reads only."""

from __future__ import annotations

from collections.abc import Mapping

from cec_store.errors import CecError, CorruptLog
from cec_store.format.commit import Commit, Staged
from cec_store.format.schema import RecordSchema
from cec_store.inspector.damage.faults import Fault, Note, located
from cec_store.inspector.verifying.results import Verification
from cec_store.log.chain import Chain
from cec_store.partitioned.commits import newest_first
from cec_store.partitioned.staging import StagedReader
from cec_store.storage.folder import FolderTree
from cec_store.storage.names import (
    COMMITS_FOLDER,
    STAGED_FOLDER,
    partition_name,
    segment_name,
    staged_name,
)


class PartitionedQueue:
    """Looks at what is committed and what is there, once each log has been looked at."""

    def __init__(self, folder: FolderTree, partitions: Mapping[int, Verification | None]) -> None:
        """``partitions``: what was found in each; ``None`` where nothing is."""
        self._folder = folder
        self._partitions = partitions
        self._schema: RecordSchema | None = None
        self._has_unvouched = False
        """After a power cut, commits may be there that nothing vouches for: the next committer
        takes them in, and partitions may show already what they say."""
        self.faults: list[Fault] = []
        self.notes: list[Note] = []
        self.count = 0
        """How many partitions there should be, as far as it can be read."""

    def check(self) -> None:
        commits = self._commits()
        newest = commits[0] if commits else None
        self._check_schemas()
        if newest is not None:
            self.count = max(len(newest.ends), *(number + 1 for number in self._partitions))
            self._check_ahead(newest)
            for number in range(len(newest.ends)):
                self._check_end(newest, number)
        self._note_staged(newest)

    def _fault(self, kind: str, path: str, byte: int, what: str, log: str) -> None:
        self.faults.append(Fault(kind, path, byte, what, True, log=log))

    # -- commits ------------------------------------------------------------------------------

    def _commits(self) -> list[Commit]:
        """Those that can be read, from the newest back; each must follow from the one before."""
        found: list[Commit] = []
        try:
            chain = Chain(self._folder.folder(COMMITS_FOLDER))
            self._has_unvouched = chain.written_offset > chain.end.offset
            for commit in newest_first(chain):
                if found and not _follows(found[-1], commit):
                    path, last = chain.folder.path, found[-1]
                    what = f"batch {last.batch} of {last.query} does not go on where "
                    what += f"batch {commit.batch} of {commit.query} ends"
                    self._fault("commit-record", path, 0, what, COMMITS_FOLDER)
                found.append(commit)
        except CorruptLog as error:
            if error.reason.startswith("no commit"):
                cause = (error.path, error.byte, error.reason)
                self._fault("commit-record", *cause, COMMITS_FOLDER)
        except CecError:
            return found  # reported with that log
        return found

    def _check_schemas(self) -> None:
        """All partitions have one record schema."""
        for number in sorted(self._partitions):
            try:
                schema = Chain(self._partition(number)).schema()
            except CecError:
                continue  # reported with that log
            if self._schema is None:
                self._schema = schema
            elif not schema.is_as(self._schema):
                what = "other columns than those of the partitions before"
                path = self._partition(number).path
                self._fault("schema", path, 0, what, f"partition {number}")

    def _partition(self, number: int) -> FolderTree:
        return self._folder.folder(partition_name(number))

    # -- ends ---------------------------------------------------------------------------------

    def _check_ahead(self, newest: Commit) -> None:
        """No partition holds more than is committed."""
        ahead = []
        for number, found in sorted(self._partitions.items()):
            due = newest.ends[number] if number < len(newest.ends) else 0
            if found is not None and found.end_offset > due:
                ahead.append(f"partition {number} {found.end_offset:,} of {due:,}")
        if ahead and not self._has_unvouched:
            path = self._folder.folder(COMMITS_FOLDER).path
            more = f" and {len(ahead) - 3} more partitions" if len(ahead) > 3 else ""
            what = f"more records are there than are committed: {', '.join(ahead[:3])}{more}"
            self._fault("commits-behind", path, 0, what, COMMITS_FOLDER)

    def _check_end(self, newest: Commit, number: int) -> None:
        due = newest.ends[number]
        found = self._partitions.get(number)
        end = found.end_offset if found is not None else 0
        log, path = f"partition {number}", self._partition(number).path
        if end >= due:
            return
        start = newest.starts[number]
        lost = [
            fault
            for piece, at in newest.pieces.get(number, ())
            if end < at + piece.records
            for fault in self._piece_faults(newest, piece, at)
        ]
        if self._has_grown(number, due):
            return  # a committer has brought it there meanwhile
        if end < start:
            kind, what = "partition-short", f"it ends with record {end:,}"
            if number not in self._partitions:
                kind, what = "log-missing", "the folder is missing"
            what += f", of {due:,} that are committed"
            self.faults.append(Fault(kind, path, 0, what, True, end, start, log=log))
        self.faults += lost
        if not lost and end >= start:
            what = f"records {end:,} to {due - 1:,} are committed and staged; the next committer "
            what += "copies them here"
            self.notes.append(Note(path, 0, what, log))

    def _has_grown(self, number: int, due: int) -> bool:
        try:
            return Chain(self._partition(number)).written_offset >= due
        except CecError:
            return False

    def _piece_faults(self, commit: Commit, piece: Staged, start: int) -> list[Fault]:
        """Why a piece of an acknowledged commit cannot be copied any more."""
        name = staged_name(commit.query, commit.batch)
        folder = self._folder.folder(STAGED_FOLDER).folder(name)
        log, ends = f"partition {piece.partition}", (start, start + piece.records)
        path = f"{folder.path}/{segment_name(piece.segment_id)}"
        try:
            schema = self._schema or Chain(self._partition(0)).schema()
            StagedReader(folder, piece, schema)
        except CecError as error:
            _, byte, what = located(error, path)
            return [Fault("staged-lost", path, byte, what, True, *ends, log=log)]
        return []

    def _note_staged(self, newest: Commit | None) -> None:
        staged = self._folder.folders().get(STAGED_FOLDER)
        if staged is None:
            self.notes.append(Note(f"{self._folder.path}/{STAGED_FOLDER}", 0, "not here"))
            return
        own = staged_name(newest.query, newest.batch) if newest is not None else ""
        for name, folder in sorted(staged.folders().items()):
            what = "staged by tasks, and in no commit yet"
            query, _, batch = name.rpartition("-")
            if newest is not None and batch.isdigit() and newest.has(query, int(batch)):
                what = "staged for a commit that has taken it in; its next one removes it"
            if name == own and self._is_pending(newest):
                continue  # reported with the partition
            self.notes.append(Note(folder.path, 0, what))

    def _is_pending(self, newest: Commit | None) -> bool:
        ends = newest.ends if newest is not None else ()
        found = (self._partitions.get(number) for number in range(len(ends)))
        return any(
            each is None or each.end_offset < end for each, end in zip(found, ends, strict=True)
        )


def _follows(commit: Commit, before: Commit) -> bool:
    """Whether a commit ends where the one before and its own pieces say."""
    is_stream = commit.queries.get(commit.query) == commit.batch
    due = before.following(commit.query, commit.batch, commit.staged, is_stream=is_stream)
    return (due.ends, due.queries) == (commit.ends, commit.queries)
