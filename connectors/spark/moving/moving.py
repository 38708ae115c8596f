"""Takes a checkpoint to another provider or to other partitions: a new one, beside the old one.

The state goes through Spark: a job in which each task reads a partition by the provider that has it
and writes it by the other. What Spark notes of the query is copied, with the few words changed that
name the provider and the partitions. All of it is made in a hidden folder, which gets its name when
it is whole; in a store, the file that makes a checkpoint of it is written last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.checkpoint.rewriting import hadoop_url
from cec_store.connectors.spark.moving.plan import (
    Plan,
    adopting,
    check_places,
    releasing,
    repartitioning,
    require_no_driver,
)
from cec_store.connectors.spark.moving.spark_files import spark_files
from cec_store.connectors.spark.moving.state_job import StateJob
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import StorageOptions, folders_at
from cec_store.storage.stores.new_trees import new_folder, sync_below


@dataclass(frozen=True)
class MoveReport:
    """Result of a move, or of a dry run."""

    checkpoint: str
    path: str
    """The new checkpoint."""
    batch: int
    """The last batch that the query takes as done."""
    pending: int | None
    """A batch that had been begun, and is run again with the same input."""
    provider: str
    """The class that keeps the state from here on."""
    partitions: int | None
    """Number of partitions of the new checkpoint; None: as many as before."""
    rows: int | None
    """Rows of state; a list has one for each value. None after a dry run."""


def adopt(
    session: Any,
    checkpoint: AnyPath,
    new: AnyPath,
    *,
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
) -> MoveReport:
    """Make a checkpoint in which a query that runs on one of Spark's providers goes on with ours.

    The state of the last committed batch is read by Spark's provider, in a Spark job, and written
    as state logs. The query started with ``new`` is the same one: it has the same id and goes on
    with the next batch; a batch that was begun is run again. The old checkpoint is not touched.
    After any failure there is nothing at ``new``.

    Args:
        session: A `SparkSession` that was begun with ``spark.configure(builder)``.
        checkpoint: The checkpointLocation of a query that is stopped.
        new: The place to make.
        dry_run: See that it can be done, and write nothing.
        storage_options: Of URLs' fsspec file systems, as pandas takes them.

    Raises:
        NotACheckpoint: there is none.
        OutOfRange: the query has committed no batch yet.
        MoveRefused: another provider's state, a query that runs, or state that ours cannot keep.
        LeaseHeld: a driver runs it.
        CorruptLog: what Spark wrote is damaged, or a partition is missing.
        StorageError: ``new`` is inside the checkpoint.
        FileExistsError: there is something at ``new``.
        SparkUnavailable: the session has no jar of ours, or no driver of its own.

    Examples:
        >>> spark.adopt(session, "checkpoints/old", "checkpoints/new").provider
        'org.apache.spark.sql.cecstore.CecStateStoreProvider'
    """
    mover = _Mover(session, checkpoint, new, dry_run, storage_options)
    return mover.carry_out(adopting(mover.old))


def release(
    session: Any,
    checkpoint: AnyPath,
    new: AnyPath,
    *,
    provider: str = "rocksdb",
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
) -> MoveReport:
    """The way back from :func:`adopt`: a checkpoint in which a query goes on with Spark's provider.

    Args:
        session, checkpoint, new, dry_run, storage_options: As for :func:`adopt`.
        provider: ``"rocksdb"``, or ``"hdfs"``: the HDFS-backed one, which knows no
            ``transformWithState`` and no checkpoint format V2.

    Raises:
        ValueError: no such provider.
        MoveRefused: the state is not ours, its query runs, or that provider cannot keep it.
        NotACheckpoint, OutOfRange, LeaseHeld, CorruptLog, StorageError, FileExistsError,
            SparkUnavailable: as for :func:`adopt`.

    Examples:
        >>> report = spark.release(session, "checkpoints/totals", "checkpoints/back")
        >>> report.provider.rpartition(".")[2]
        'RocksDBStateStoreProvider'
    """
    mover = _Mover(session, checkpoint, new, dry_run, storage_options)
    return mover.carry_out(releasing(mover.old, provider))


def repartition(
    session: Any,
    checkpoint: AnyPath,
    new: AnyPath,
    *,
    partitions: int,
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
) -> MoveReport:
    """Make a checkpoint in which a query of ours goes on with another number of partitions.

    Every row of state goes where Spark's exchange sends the rows of its group. All else is as for
    :func:`adopt`.

    Args:
        session, checkpoint, new, dry_run, storage_options: As for :func:`adopt`.
        partitions: ``spark.sql.shuffle.partitions`` of the query from here on: 1 to 100,000.

    Raises:
        ValueError: a number that is not allowed.
        MoveRefused: the state is not ours, its query runs, it is in so many partitions already, or
            an operator's rows cannot be told apart by their groups.
        NotACheckpoint, OutOfRange, LeaseHeld, CorruptLog, StorageError, FileExistsError,
            SparkUnavailable: as for :func:`adopt`.

    Examples:
        >>> wider = "checkpoints/wider"
        >>> spark.repartition(session, "checkpoints/totals", wider, partitions=8).partitions
        8
    """
    mover = _Mover(session, checkpoint, new, dry_run, storage_options)
    return mover.carry_out(repartitioning(mover.old, partitions))


class _Mover:
    def __init__(
        self,
        session: Any,
        checkpoint: AnyPath,
        new: AnyPath,
        dry_run: bool,
        storage_options: StorageOptions | None,
    ) -> None:
        self._session = session
        self._dry_run = dry_run
        folder, self._target = folders_at((checkpoint, new), storage_options)
        self.old = Checkpoint(folder)
        check_places(self.old, self._target)
        require_no_driver(checkpoint, storage_options)

    def carry_out(self, plan: Plan) -> MoveReport:
        job = StateJob(self._session, plan)
        job.check()
        for _ in spark_files(plan, {}, hadoop_url(self._target)):
            pass  # what cannot be read is found before anything is written
        rows = None if self._dry_run else self._made(plan, job)
        return MoveReport(
            checkpoint=plan.old.path,
            path=self._target.path,
            batch=plan.batch,
            pending=plan.pending,
            provider=plan.provider,
            partitions=plan.partitions,
            rows=rows,
        )

    def _made(self, plan: Plan, job: StateJob) -> int:
        """Make the new checkpoint; return the number of rows of state that were moved."""
        with new_folder(self._target) as tree:
            try:
                rows, unique_ids = job.run(tree.root)
                sync_below(tree.root)
                for file in spark_files(plan, unique_ids, hadoop_url(self._target)):
                    if not file.inside:
                        # It makes a checkpoint of what is there.
                        plan.require_unchanged()
                    tree.write(file.inside, file.name, file.data)
            except FileExistsError:
                # Another, which makes no claim, has written here: the state may be its own.
                raise
            except BaseException:
                # In a store the folder knows only of what was written from here.
                job.take_away(tree.root)
                raise
        return rows
