"""Running queries to their ends on checkpoints, and what they said batch by batch."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cec_store.connectors.spark.setup.settings import PREFIX, PROVIDER_KEY
from support.runs.minors import HAS_INSTANCE_METRICS
from support.spark.inputs import FILES, Inputs
from support.spark.queries import StreamQuery
from support.spark.session import CEC, HDFS

STORE = "spark.sql.streaming.stateStore."
HALF = FILES // 2
# Spark gives a Python process ten seconds to start, and so many of them on a busy machine are few.
TOO_LATE = "failed to connect back"
_TRIES = 5
METRICS = ("numRowsTotal", "numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark")


@dataclass(frozen=True)
class Kept:
    """How a run keeps its state; `later` holds from the restart on."""

    provider: str = CEC
    version: int = 1
    settings: dict[str, str] = field(default_factory=dict)
    later: dict[str, str] = field(default_factory=dict)

    def of(self, life: int) -> dict[str, str]:
        settings = {**self.settings, **(self.later if life else {})}
        fixed = {PROVIDER_KEY: self.provider, STORE + "checkpointFormatVersion": str(self.version)}
        return {**fixed, **settings}


REFERENCE = Kept(HDFS)


@dataclass
class Run:
    checkpoint: Path
    rows: dict[int, list[Any]] = field(default_factory=dict)
    """By batch, sorted."""
    metrics: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    """By batch and operator, in the order of METRICS."""
    custom: dict[int, list[dict[str, int]]] = field(default_factory=dict)
    run_ids: list[str] = field(default_factory=list)
    """Of its lives."""
    rows_kept: list[int] = field(default_factory=list)
    """In the state as each life ended that has told of one."""

    def sum_of(self, metric: str) -> int:
        return sum(each.get(metric, 0) for batch in self.custom.values() for each in batch)

    def removed(self) -> int:
        place = METRICS.index("numRowsRemoved")
        return sum(each[place] for batch in self.metrics.values() for each in batch)


@contextmanager
def settings_of(spark: Any, settings: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def format_of(spark: Any, checkpoint: Path) -> AbstractContextManager[None]:
    """For Spark's reader, which goes by the session's format and not by that of the checkpoint."""
    commit = (checkpoint / "commits" / "0").read_text("utf-8")
    return settings_of(spark, {STORE + "checkpointFormatVersion": commit[1]})


@dataclass(frozen=True)
class Job:
    """A query to be run in a folder of its own, with inputs of its own."""

    query: StreamQuery
    folder: Path
    kept: Kept
    twice: bool = False
    """Each batch is computed by two actions."""
    lives: int = 2
    """It is stopped and started again on the same checkpoint in between."""

    @property
    def inputs(self) -> Inputs:
        # Not shared: each run meets every file when the others meet it.
        return Inputs(self.folder / "input")


def run(spark: Any, *jobs: Job) -> list[Run]:
    """All files, one in a batch, over as many lives as the jobs have, all of them the same.

    The jobs run side by side: a batch this short leaves a processor idle half of the time.
    """
    done = [Run(job.folder / "checkpoint") for job in jobs]
    [lives] = {job.lives for job in jobs}
    for life in range(lives):
        files = range(FILES * life // lives, FILES * (life + 1) // lives)
        pairs = list(zip(jobs, done, strict=True))
        running = [start(spark, job, life, files, each) for job, each in pairs]
        for query, each in zip(running, done, strict=True):
            query.awaitTermination()
            take_progress(query, each)
    return done


def start(spark: Any, job: Job, life: int, files: range, done: Run) -> Any:
    inputs = job.inputs
    inputs.write(files)
    # A query takes the settings of the moment when it starts.
    with settings_of(spark, {**job.query.conf, **job.kept.of(life)}):
        writer = job.query.build(spark, inputs).writeStream.outputMode(job.query.mode)
        writer = writer.option("checkpointLocation", str(done.checkpoint))
        writer = writer.foreachBatch(taker(done, job.twice))
        return writer.trigger(availableNow=True).start()


def run_files(spark: Any, job: Job, life: int, files: range, done: Run) -> None:
    """To the end of these; a query whose Python came too late is started again."""
    from pyspark.errors import StreamingQueryException

    for tries_left in reversed(range(_TRIES)):
        query = start(spark, job, life, files, done)
        try:
            query.awaitTermination()
            take_progress(query, done)
            return
        except StreamingQueryException as error:
            take_progress(query, done)
            if TOO_LATE not in str(error) or not tries_left:
                raise


def taker(done: Run, twice: bool) -> Callable[[Any, int], None]:
    def take(frame: Any, batch: int) -> None:
        assert batch not in done.rows, f"batch {batch} came twice"
        # Each action runs the whole plan, so that the same version is committed once more.
        count = frame.count() if twice else None
        done.rows[batch] = sorted(map(tuple, frame.collect()), key=repr)
        assert count in (None, len(done.rows[batch]))

    return take


def take_progress(query: Any, done: Run) -> None:
    done.run_ids.append(str(query.runId))
    for progress in query.recentProgress:
        if "addBatch" in progress.durationMs:
            operators = progress.stateOperators
            done.metrics[progress.batchId] = [
                tuple(getattr(each, name) for name in METRICS) for each in operators
            ]
            done.custom[progress.batchId] = [dict(each.customMetrics) for each in operators]
    if done.metrics:
        done.rows_kept.append(sum(rows for rows, *_ in done.metrics[max(done.metrics)]))


class References:
    """What Spark's own provider says to a query: run once for all who compare with it."""

    def __init__(self, spark: Any, new_folder: Callable[[str], Path]) -> None:
        self.spark = spark
        self.new_folder = new_folder
        self.done: dict[tuple[str, int], Run] = {}

    def with_others(self, query: StreamQuery, others: Sequence[Job]) -> list[Run]:
        """The reference, and what others of the same query and lives say, run beside it."""
        [lives] = {job.lives for job in others}
        if (query.name, lives) in self.done:
            return [self.done[query.name, lives], *run(self.spark, *others)]
        folder = self.new_folder(query.name.replace(", ", "-"))
        found = run(self.spark, Job(query, folder, REFERENCE, lives=lives), *others)
        self.done[query.name, lives] = found[0]
        return found


def differences(ours: Run, reference: Run) -> list[str]:
    """What is not equal, batch by batch; empty when all is."""
    found = []
    for batch in sorted(set(ours.rows) | set(reference.rows)):
        for what in ("rows", "metrics"):
            got, due = (getattr(each, what).get(batch) for each in (ours, reference))
            if got != due:
                found.append(f"batch {batch}, {what}: {got} where {due} is due")
    return found


def unproven(ours: Run, kept: Kept) -> list[str]:
    """Whether the run was what it says: our logs alone, loaded by the restart, of this version."""
    found = []
    state = [path for path in (ours.checkpoint / "state").rglob("*") if path.is_file()]
    if not any(path.suffix == ".seg" for path in state):
        found.append("no segment in the checkpoint")
    found += [f"{path.name} is not ours" for path in state if path.suffix in (".delta", ".zip")]
    # All rows of a stream may be late, and then there is nothing to load.
    if ours.sum_of("cecLoadedRecords") == 0 and any(ours.rows_kept[:-1]):
        found.append("the restart loaded nothing")
    if ours.sum_of("cecPutCount") == 0:
        found.append("nothing was put")
    names = {name for batch in ours.custom.values() for each in batch for name in each}
    if HAS_INSTANCE_METRICS and not any(
        name.startswith("CecExtentRecords.partition_") for name in names
    ):
        found.append("no partition tells its extent")
    commits = [p for p in (ours.checkpoint / "commits").iterdir() if p.name.isdigit()]
    for commit in commits:
        # The version of the file, and then one line of JSON.
        said = json.loads(commit.read_text(encoding="utf-8").splitlines()[1])
        if (said.get("stateUniqueIds") is not None) != (kept.version == 2):
            found.append(f"commit {commit.name} is not of format {kept.version}")
    return found


def cec(**settings: str) -> dict[str, str]:
    return {PREFIX + name: value for name, value in settings.items()}


NO_HEAP = cec(memoryBytes="0")
"""Rows of versions that are over go to local files."""
# Fewer than the keys that are open: each commit writes all older footprints again.
FEW_RECORDS = cec(extentMaxRecords="1", checkTimeMs="10000")
