"""Spark's own files in a checkpoint: what it needs to go on with the query. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress

from cec_store.connectors.spark.checkpoint.layout import (
    COMMITS,
    METADATA,
    METADATA_FOLDER,
    OFFSETS,
    Checkpoint,
    Commit,
    store_folder,
)
from cec_store.connectors.spark.checkpoint.state_schema import (
    StateSchema,
    begun_repartition,
    has_variables,
    read_schema_file,
    read_state_schema,
    state_partitions,
)
from cec_store.connectors.spark.checkpoint.variables import (
    read_families,
    read_variable,
    variable_names,
)
from cec_store.connectors.spark.setup.settings import AVRO, ENCODING_KEY, PROVIDER, PROVIDER_KEY
from cec_store.errors import (
    CecError,
    CorruptLog,
    NotAQueue,
    OutOfRange,
    SchemaMismatch,
    UnsupportedVersion,
)
from cec_store.inspector.damage.faults import Fault, Note
from cec_store.inspector.damage.hadoop_checksums import hadoop_mismatch
from cec_store.inspector.places.places import Log
from cec_store.storage.folder import Folder, FolderTree


class SparkFiles:
    """Looks at all of them, and goes on after each fault."""

    def __init__(
        self, checkpoint: Checkpoint, logs: tuple[Log, ...], is_built_in: bool = False
    ) -> None:
        self._is_built_in = is_built_in
        self._checkpoint = checkpoint
        self._logs = logs
        self.faults: list[Fault] = []
        self._known: set[Fault] = set()
        self.notes: list[Note] = []
        self.batches: list[int] = []
        """Committed ones of which the offsets are kept, ascending."""
        self.schemas: dict[tuple[int, str], StateSchema] = {}
        """Schemas by operator and store, as far as they can be read."""
        self._with_variables: list[tuple[int, str]] = []
        """Operators and stores that keep several tables."""
        self.is_ours = True
        """True if our provider keeps the state."""
        self._commits: dict[int, Commit] = {}
        """Commits by batch, as far as they can be read: every store asks each."""
        self._encodings: dict[int, str] = {}
        """Encodings of rows by batch."""
        self._partitions: dict[int, int] = {}
        """Number of partitions of state after each batch; repartitioning changes it."""

    def check(self) -> None:
        """Check metadata, batches and schemas; faults and notes go to the attributes."""
        self._check_metadata()
        self._check_batches()
        self._check_repartition()
        if self.is_ours or self._is_built_in:
            for operator, store in sorted({_store_of(log) for log in self._logs}):
                self._check_schema(operator, store)
            self._check_operators()

    def _check_operators(self) -> None:
        """Report operators whose folder is missing, by the newest commit in format V2."""
        present = {log.operator for log in self._logs}
        newest = self._commits.get(self.batches[-1]) if self.batches else None
        for operator in sorted({*((newest and newest.unique_ids) or {})} - present):
            self._fault("log-missing", f"state/{operator}", 0, "the operator's folder is missing")

    def committed(self, log: Log) -> list[tuple[int, int | str]]:
        """The versions that a store must have, each with the name to find it by."""
        versions: list[tuple[int, int | str]] = []
        operator, store = _store_of(log)
        assert log.partition is not None
        for batch in self.batches:
            if batch not in self._commits:
                continue  # unreadable: a fault of its own, and it does not say which attempt counts
            if log.partition >= self._partitions.get(batch, log.partition + 1):
                continue  # it had fewer then
            try:
                at = self._commits[batch].unique_id(operator, log.partition, store)
            except (LookupError, ValueError):
                what = f"it names no state of {log.name}"
                self._fault("spark-commits", f"{COMMITS}/{batch}", 0, what)
                continue
            versions.append((batch + 1, at or batch + 1))
        return versions

    def due_stores(self) -> list[tuple[int, int, str]]:
        """Operator, partition and store of all that there have to be, in order."""
        counted = self._partitions.get(self.batches[-1]) if self.batches else None
        due = {
            (operator, store): schema.due_partitions(counted)
            for (operator, store), schema in self.schemas.items()
        }
        due |= dict.fromkeys(self._with_variables, counted or 0)
        return sorted((o, n, store) for (o, store), count in due.items() for n in range(count))

    def has_gone_on(self) -> bool:
        """Read the committed batches again, and return True if the query has changed them
        meanwhile.

        Later checks use the new batches.
        """
        before = self.batches
        self.batches = self._checkpoint.committed_batches()
        for batch in sorted({*self.batches} - {*before}):
            with suppress(CecError):  # written since this inspection began
                self._commits[batch] = self._checkpoint.commit(batch)
        return self.batches != before

    # -- the query ----------------------------------------------------------------------------

    def _fault(self, kind: str, name: str, byte: int, what: str) -> None:
        self._add(Fault(kind, f"{self._checkpoint.path}/{name}", byte, what, True))

    def _note(self, name: str, what: str) -> None:
        note = Note(f"{self._checkpoint.path}/{name}", 0, what)
        if note not in self.notes:
            self.notes.append(note)

    def _add(self, fault: Fault) -> None:
        if fault not in self._known:
            self._known.add(fault)
            self.faults.append(fault)

    def _try(self, kind: str, name: str, read: Callable[[], object]) -> None:
        # A file that Spark deletes meanwhile is no fault.
        with suppress(OutOfRange, FileNotFoundError):
            try:
                read()
            except CorruptLog as error:
                self._add(Fault(kind, error.path, error.byte, error.reason, True))
            except UnsupportedVersion as error:
                self._fault("version", name, 0, str(error))

    def _check_metadata(self) -> None:
        self._try("spark-metadata", METADATA, lambda: self._checkpoint.query_id)
        self._check_checksums(self._checkpoint.folder, METADATA)

    # -- batches ------------------------------------------------------------------------------

    def _check_batches(self) -> None:
        checkpoint = self._checkpoint
        commits = checkpoint.folder.folder(COMMITS)
        # Commits first: a batch that is committed meanwhile has had its offsets before.
        committed = self._numbers_in(commits) if commits.exists() else []
        if not commits.exists():
            self._fault("spark-commits", COMMITS, 0, "the folder is missing")
        logged = self._numbers_in(checkpoint.folder.folder(OFFSETS))
        self._check_gaps(logged, committed)
        self.batches = sorted({*logged} & {*committed})
        for batch in logged:
            name = f"{OFFSETS}/{batch}"
            self._try("spark-offsets", name, lambda batch=batch: self._read_offsets(batch))  # type: ignore[misc]
            self._check_checksums(checkpoint.folder.folder(OFFSETS), str(batch))
        for batch in committed:
            name = f"{COMMITS}/{batch}"
            self._try("spark-commits", name, lambda batch=batch: self._read_commit(batch))  # type: ignore[misc]
            self._check_checksums(commits, str(batch))

    def _check_repartition(self) -> None:
        """Spark ends its own; of state of ours it has written the offsets and then refused."""
        with suppress(CecError):  # offsets that cannot be read are a fault already
            begun = begun_repartition(self._checkpoint)
            if begun is None or not self.is_ours or not self._logs:
                return
            what = (
                f"Spark was asked to bring state from {begun.before} into {begun.after} "
                "partitions, and refused: it does so with its RocksDB provider alone"
            )
            name = f"{OFFSETS}/{begun.batch}"
            self._add(Fault("spark-repartition", f"{self._checkpoint.path}/{name}", 0, what, False))

    def _read_offsets(self, batch: int) -> None:
        offsets = self._checkpoint.offsets(batch)
        self.is_ours = offsets.conf.get(PROVIDER_KEY, PROVIDER) == PROVIDER
        self._encodings[batch] = offsets.conf.get(ENCODING_KEY, "")
        with suppress(ValueError):
            count = state_partitions(offsets.conf)
            if count is not None:
                self._partitions[batch] = count

    def _read_commit(self, batch: int) -> None:
        self._commits[batch] = self._checkpoint.commit(batch)

    def _numbers_in(self, folder: Folder) -> list[int]:
        names = folder.names()
        for name in names:
            if not name.isdigit() and not name.startswith("."):
                what = "not a file that Spark reads here"
                self.notes.append(Note(f"{folder.path}/{name}", 0, what))
        return _numbers(names)

    def _check_gaps(self, logged: list[int], committed: list[int]) -> None:
        """Spark deletes from the oldest on, and commits a batch before it begins the next."""
        newest = max([*logged, *committed], default=-1)
        for run in self._missing(OFFSETS, {*logged}, min(logged, default=0), newest + 1):
            name, what = f"{OFFSETS}/{run[0]}", _missing_text(run)
            if self._logs:
                self._fault("spark-offsets", name, 0, what)
            else:  # without state Spark may be told to write them only now and then
                self.notes.append(Note(f"{self._checkpoint.path}/{name}", 0, what))
        # The last batch that was begun need not be committed yet.
        first = min([*committed, *logged[:1]], default=0)
        for run in self._missing(COMMITS, {*committed}, first, newest):
            self._fault("spark-commits", f"{COMMITS}/{run[0]}", 0, _missing_text(run))

    def _missing(self, name: str, present: set[int], first: int, end: int) -> list[range]:
        """Runs of batches that are not there; looked at again, as a query may be running."""
        runs = [*_runs_missing(present, first, end)]
        folder = self._checkpoint.folder.folder(name)
        if not runs or not folder.exists():
            return runs
        now = _numbers(folder.names())
        return [*_runs_missing({*present, *now}, max(first, min(now, default=first)), end)]

    # -- checksums ----------------------------------------------------------------------------

    def _check_checksums(self, folder: Folder, name: str) -> None:
        """Hadoop's local file system refuses a file that its hidden checksums do not fit."""
        try:
            problem = hadoop_mismatch(folder, name)
        except FileNotFoundError:
            return  # Spark has deleted it this very moment
        if problem is not None:
            self.faults.append(Fault("spark-checksum", f"{folder.path}/{name}", *problem, True))

    # -- schemas ------------------------------------------------------------------------------

    def _check_schema(self, operator: int, store: str) -> None:
        state = self._checkpoint.folder.folder("state").folder(str(operator))
        name = f"state/{operator}/{METADATA_FOLDER}/metadata"
        try:
            if has_variables(state):
                self._with_variables.append((operator, store))
                self._check_variables(state, name)
                return
        except UnsupportedVersion as error:
            self._fault("version", name, 0, str(error))
            return
        is_older = self._is_built_in and not _is_noted(state, "metadata")
        if is_older:
            what = "the file is missing: Spark writes it from release 4 on, and goes on without it"
            self._note(name, what)
        if is_older and not _is_noted(store_folder(state, 0, store), "schema"):
            return  # before release 3.1 Spark did not write that either
        try:
            self.schemas[operator, store] = (
                read_schema_file(state, "", store, 0, 0)
                if is_older
                else read_state_schema(state, store)
            )
        except CorruptLog as error:
            self._add(Fault("spark-schema", error.path, error.byte, error.reason, True))
        except UnsupportedVersion as error:
            if self._is_built_in:  # its state is of formats of its own
                self._note(name, str(error))
            else:
                self._fault("version", name, 0, str(error))
        except SchemaMismatch as error:
            self._note(name, str(error))
        except (ValueError, NotAQueue) as error:
            self._fault("spark-schema", name, 0, str(error))
        for folder in _schema_folders(state, store):
            for file in sorted(set(folder.names()) & {"metadata", "schema"}):
                self._check_checksums(folder, file)

    def _check_variables(self, state: FolderTree, name: str) -> None:
        """Each has a schema of its own, and in Avro those of earlier runs as well."""
        if not self.batches:
            return
        batch = self.batches[-1]
        in_avro = self._encodings.get(batch) == AVRO
        try:
            for variable in variable_names(state, batch):
                read_variable(state, variable, batch, in_avro=in_avro)
            read_families(state, in_avro=in_avro)
        except CorruptLog as error:
            self._add(Fault("spark-schema", error.path, error.byte, error.reason, True))
        except UnsupportedVersion as error:
            self._fault("version", name, 0, str(error))
        except SchemaMismatch as error:
            self._note(name, str(error))


def _numbers(names: Iterable[str]) -> list[int]:
    """Batches that files are called by, ascending."""
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def _is_noted(folder: FolderTree, name: str) -> bool:
    """Return True if the folder's metadata has a file of this name."""
    noted = folder.folders().get(METADATA_FOLDER) if folder.exists() else None
    return noted is not None and name in noted.names()


def _store_of(log: Log) -> tuple[int, str]:
    assert log.operator is not None
    assert log.store is not None
    return log.operator, log.store


def _schema_folders(operator: FolderTree, store: str) -> Iterator[FolderTree]:
    """Yield the folders of Spark's notes on an operator, and on one of its stores."""
    folders = operator.folders()
    for inside in folders, folders["0"].folders() if "0" in folders else {}:
        if METADATA_FOLDER in inside:
            yield inside[METADATA_FOLDER]
        of_store = inside[store].folders() if store in inside else {}
        if METADATA_FOLDER in of_store:
            yield of_store[METADATA_FOLDER]


def _runs_missing(present: Collection[int], first: int, end: int) -> Iterator[range]:
    """Yield the stretches of numbers from ``first`` to below ``end`` that are not there.

    A file may have any number, so that they are never gone through one by one.
    """
    for number in (*sorted(n for n in present if first <= n < end), end):
        if number > first:
            yield range(first, number)
        first = number + 1


def _missing_text(run: range) -> str:
    """Return text for a stretch of batches that are not there."""
    if len(run) == 1:
        return f"batch {run[0]} is missing here"
    return f"batches {run[0]} to {run[-1]} are missing here"
