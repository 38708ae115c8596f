"""The commits of a partitioned queue against each other. docs/format.md §11."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.errors import CecError, CorruptLog, NotAQueue
from cec_store.format.by_reference.commits import (
    Operation,
    ReferenceCommit,
    ReferenceObject,
    Since,
    floor_of,
)
from cec_store.format.columns import Ints
from cec_store.format.schema import RecordSchema
from cec_store.inspector.damage.faults import Fault, Note, kind_of
from cec_store.inspector.damage.reference_objects import Read, Wanted, read_all
from cec_store.ledger.commit_mark import CommitMark
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.storage.names import (
    COMMIT_MARK,
    LOG_FOLDER,
    commit_number_of,
    commit_object_name,
)
from cec_store.storage.stores.store import Store


class CommitChecks:
    """Goes through all of them in order, and over damage on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.faults: list[Fault] = []
        self.notes: list[Note] = []
        self.state: QueueState | None = None
        """The queue after its newest commit; ``None`` where damage hides it."""
        self.schema: RecordSchema | None = None
        self.named: set[str] = set()
        """The files that commits have ever named."""
        self.is_all_known = True
        """True as long as every commit could be read."""
        self._log_id: bytes | None = None
        self._before: ReferenceObject | None = None
        self._floor = 0
        """Number of the commit below which others may be deleted."""
        self._mark = CommitMark(store)

    def check(self) -> None:
        """Raises :class:`NotAQueue` where there is no commit."""
        commits = self._names()
        if not commits and self._mark.newest() is None:
            raise NotAQueue(f"{self._store.url}: no commit is left in {LOG_FOLDER}/")
        numbers = _numbers_due(commits)
        self._floor = floor_of(max(commits, default=0))
        objects = (Wanted(commit_object_name(number)) for number in numbers)
        # Close it here: otherwise Python's garbage collector may join its threads at any moment.
        with closing(read_all(self._store, objects)) as read:
            for number in numbers:
                self._take_commit(number, next(read))
        self._check_mark(max(commits, default=-1) + 1)
        if self.state is None:
            self._ask_as_readers_do()
        if self.state is not None:
            self._check_offsets(self.state)

    def _names(self) -> set[int]:
        """Return the numbers of commits; what else stands among them gets a note."""
        commits = set()
        for folder in self._store.list(LOG_FOLDER):
            inside = self._store.list(f"{LOG_FOLDER}/{folder.name}") if folder.is_folder else ()
            for name in [entry.name for entry in inside] or [""]:
                whole = f"{LOG_FOLDER}/{folder.name}/{name}".rstrip("/")
                commit = commit_number_of(name)
                if commit is not None and commit_object_name(commit) == whole:
                    commits.add(commit)
                elif whole != f"{LOG_FOLDER}/{COMMIT_MARK}":  # in a store that of a copy
                    self.notes.append(Note(self._path(whole), 0, "no commit, and never read"))
        return commits

    def _path(self, name: str) -> str:
        return f"{self._store.url}/{name}"

    def _fault(self, kind: str, name: str, byte: int, what: str) -> None:
        self.faults.append(Fault(kind, self._path(name), byte, what, True))

    # -- commits ------------------------------------------------------------------------------

    def _take_commit(self, number: int, data: Read) -> None:
        name = commit_object_name(number)
        if isinstance(data, FileNotFoundError) and 0 < number < self._floor:
            self.state = self._before = None  # whoever cleans up has deleted it since the listing
            return
        decoded = self._decoded(name, number, data)
        if decoded is None:
            self.state = self._before = None
            self.is_all_known = False
            return
        for part in (decoded, decoded.at_once()):
            self.named.update(part.segments.column("file").to_pylist())
        if self._before is not None and self._before.number != number - 1:
            self.state = self._before = None  # what is between is deleted
        if number == 0:
            self.schema = decoded.commit.schema
            if decoded.commit.schema is None or decoded.commit.operation != Operation.MAKE:
                self._fault("commit-record", name, 0, "it does not make the queue")
            self._before, self.state = decoded, QueueState.of([decoded])
            return
        before = self._before
        problem = "" if before is None else what_does_not_follow(before.commit, decoded)
        if before is not None and decoded.after != (number - 1, before.salt):
            problem = f"it goes on from another commit {number - 1} than the one that is here"
        if problem:
            self._fault("commit-record", name, 0, problem)
        self._before = decoded
        try:
            self.state = None if self.state is None else self.state.after(decoded)
        except ValueError as error:
            self._fault("commit-record", name, 0, str(error))
            self.state = None
        self._check_since(name, decoded)

    def _check_since(self, name: str, decoded: ReferenceObject) -> None:
        since = decoded.since
        if self.state is None:
            if since is not None and since.base is None:  # what follows is known again
                self.state = QueueState.of([decoded.at_once()])
            return
        due = self.state.since()
        if since is None and due is not None:
            what = "it does not say what came since an earlier commit; readers do without"
            self.notes.append(Note(self._path(name), 0, what))
        elif since is not None and (due is None or not _are_same(due, since)):
            what = "what it says that came since an earlier commit is not what commits say"
            self._fault("commit-record", name, 0, what)

    def _decoded(self, name: str, number: int, data: Read) -> ReferenceObject | None:
        try:
            if isinstance(data, FileNotFoundError):
                raise CorruptLog(self._path(name), 0, "the object is missing")
            if isinstance(data, CecError):
                raise data
            decoded = ReferenceObject.decode(data, self._path(name), number)
            self._log_id = self._log_id or decoded.log_id
            if decoded.log_id != self._log_id:
                raise CorruptLog(self._path(name), 16, "it is of another queue")
        except CorruptLog as error:
            is_gone = isinstance(data, FileNotFoundError)
            kind = "commit-missing" if is_gone else "commit-damaged"
            self._fault(kind, name, error.byte, error.reason)
        except CecError as error:
            self._fault(kind_of(error), name, 0, str(error))
        else:
            return decoded
        return None

    def _check_mark(self, commits: int) -> None:
        """The commits that the mark names are here; a queue that was copied has none."""
        try:
            mark = self._mark.newest(self._log_id)
        except CecError as error:
            self._fault(kind_of(error), f"{LOG_FOLDER}/{COMMIT_MARK}", 0, str(error))
            return
        if mark is None:
            if self._mark.path is not None:
                what = "it is not there: the newest commit is known in one place until the next one"
                self.notes.append(Note(self._mark.path, 0, what))
            return
        for number in range(commits, mark.segment_id + 1):
            if self._is_there(number):  # made since the listing
                continue
            what = f"the object is missing: {self._mark.path} says that the queue had it"
            self._fault("commit-missing", commit_object_name(number), 0, what)
            self.is_all_known = False
        before = self._before
        if before and before.number == mark.segment_id and before.salt != mark.salt:
            what = f"it is another commit than the one that {self._mark.path} names"
            self._fault("commit-record", commit_object_name(before.number), 0, what)

    def _is_there(self, number: int) -> bool:
        try:
            self._store.size(commit_object_name(number))
        except FileNotFoundError:
            return False
        return True

    def _ask_as_readers_do(self) -> None:
        try:
            self.state = ReferenceLog(self._store).open()
        except CecError as error:
            what = f"which segments count is not known, and none was checked: {error}"
            self.notes.append(Note(self._path(LOG_FOLDER), 0, what))

    # -- offsets ------------------------------------------------------------------------------

    def _check_offsets(self, state: QueueState) -> None:
        """The segments of each partition follow each other, from its start to its end."""
        names = ("partition", "first_offset", "records")
        live = state.live.sort_by([(name, "ascending") for name in names])
        partitions, firsts, records = (live.column(name).to_numpy() for name in names)
        commit, path = state.commit, commit_object_name(state.number)
        cuts = np.searchsorted(partitions, np.arange(len(commit.ends) + 1))
        for number, (start, end) in enumerate(zip(commit.starts, commit.ends, strict=True)):
            mine = slice(int(cuts[number]), int(cuts[number + 1]))
            problem = _gap_in(firsts[mine], records[mine], start, end)
            if problem:
                self._fault("commit-record", path, 0, f"partition {number}: {problem}")


def _numbers_due(commits: set[int]) -> list[int]:
    """Return the numbers of the commits that have to be here: not those that may be deleted.

    Of the commits before the last multiple of 4,096 the ones in front of the last gap may be; no
    record is lost with them.
    """
    newest = max(commits, default=-1)
    oldest = max(1, floor_of(newest))
    while oldest > 1 and oldest - 1 in commits:
        oldest -= 1
    return [*range(min(1, newest + 1)), *range(oldest, newest + 1)]


def _gap_in(firsts: Ints, records: Ints, start: int, end: int) -> str:
    firsts, records = firsts[records > 0], records[records > 0]
    if not len(firsts):
        return "" if start == end else f"no segment has its records {start:,} to {end - 1:,}"
    ends = firsts + records
    apart = np.flatnonzero(firsts[1:] != ends[:-1])
    if len(apart):
        at = int(apart[0])
        return (
            f"a segment ends at {int(ends[at]):,}, and the next begins at {int(firsts[at + 1]):,}"
        )
    if not firsts[0] <= start < ends[0] or ends[-1] != end:
        has = f"its segments have {int(firsts[0]):,} to {int(ends[-1]) - 1:,}"
        return f"{has}, and it is said to have {start:,} to {end - 1:,}"
    return ""


def _are_same(one: Since, other: Since) -> bool:
    def in_order(since: Since) -> pa.Table:
        keys = [(name, "ascending") for name in ("removed", "file", "byte")]
        return pa.Table.from_batches([since.segments]).sort_by(keys).combine_chunks()

    return one.base == other.base and in_order(one).equals(in_order(other))


def what_does_not_follow(before: ReferenceCommit, after: ReferenceObject) -> str:
    """Return why a commit cannot follow the one before it; empty where it can."""
    commit, segments = after.commit, after.segments
    count = len(commit.ends)
    if count < len(before.ends):
        return f"{count} partitions, where there were {len(before.ends)}"
    for query, batch in before.queries.items():
        if commit.queries.get(query, -1) < batch:
            return f"batch {batch} of query {query} is forgotten"
    more = [0] * (count - len(before.ends))
    starts, ends = np.array([*before.starts, *more]), np.array([*before.ends, *more])
    is_removed = segments.column("removed")
    added, removed = segments.filter(pc.invert(is_removed)), segments.filter(is_removed)
    operation = commit.operation
    moves_starts = operation == Operation.TRIM and (np.array(commit.starts) >= starts).all()
    if not moves_starts and (np.array(commit.starts) != starts).any():
        return "a partition does not start where it did"
    if operation == Operation.APPEND:
        if removed.num_rows:
            return "an append takes segments away"
        problem = _does_not_go_on(added, ends)
        if problem:
            return problem
        ends = ends + _records_by_partition(added, count)
    if operation == Operation.MERGE:
        if (_records_by_partition(added, count) != _records_by_partition(removed, count)).any():
            return "a merge has more or fewer records than what it takes away"
    elif operation != Operation.APPEND and added.num_rows:
        return "it adds segments, and is neither an append nor a merge"
    if operation == Operation.MAKE:
        return "the queue is made a second time"
    wrong = np.flatnonzero(np.array(commit.ends) != ends)
    if len(wrong):
        number = int(wrong[0])
        return f"partition {number} ends at {commit.ends[number]:,}, where {ends[number]:,} is due"
    return ""


def _records_by_partition(segments: pa.RecordBatch, count: int) -> Ints:
    totals = np.zeros(count, np.int64)
    np.add.at(
        totals, segments.column("partition").to_numpy(), segments.column("records").to_numpy()
    )
    return totals


def _does_not_go_on(added: pa.RecordBatch, ends: Ints) -> str:
    """Segments that an append adds stand behind the end of their partitions, without a gap."""
    if not added.num_rows:
        return ""
    partitions = added.column("partition").to_numpy()
    order = np.lexsort((added.column("first_offset").to_numpy(), partitions))
    partitions = partitions[order]
    firsts = added.column("first_offset").to_numpy()[order]
    records = added.column("records").to_numpy()[order]
    behind = firsts + records
    due = np.where(
        np.r_[True, partitions[1:] != partitions[:-1]], ends[partitions], np.r_[0, behind[:-1]]
    )
    wrong = np.flatnonzero(firsts != due)
    if not len(wrong):
        return ""
    at = int(wrong[0])
    where = f"a segment of partition {int(partitions[at])} begins at {int(firsts[at]):,}"
    return f"{where}, where {int(due[at]):,} is due"
