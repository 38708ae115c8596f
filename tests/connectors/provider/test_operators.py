"""With our provider a query says in each batch what it says with Spark's own, restarts included."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.runs.counts import CRASH_FULL
from support.runs.minors import HAS_JOIN_FORMAT_3
from support.spark.inputs import FILES
from support.spark.queries import QUERIES
from support.spark.runs import (
    FEW_RECORDS,
    HALF,
    METRICS,
    REFERENCE,
    Job,
    Kept,
    References,
    Run,
    cec,
    differences,
    run,
    run_files,
    unproven,
)
from support.spark.session import CEC, put_back, without_extension
from support.watermarks import self_join

# Fewer in the quick tier: what the others show is shown by these as well.
NAMES = [name for name in QUERIES if CRASH_FULL or not QUERIES[name].is_extra]

# It says so each time that a query takes a function over pandas.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

# The side that an outer join fills with nulls, and the key of the other side.
FILLED = {
    "join_left_outer": [(4, 0)],
    "join_right_outer": [(0, 4)],
    "join_full_outer": [(0, 4), (4, 0)],
}
TIMED_OUT = [name for name in QUERIES if name.endswith(("processing_time", "event_time"))]
# By query; each on a checkpoint of its own, from the restart on.
SETTINGS_LATER = {
    "aggregate_windows_update": {
        "smaller extent": cec(extentFactor="1.25"),
        "no compression, small segments": cec(compressionLevel="0", segmentBytes="65536"),
        "no sync, no time for checks": cec(syncMode="none", checkTimeMs="0"),
        "recovery time": cec(recoveryTimeMs="100"),
        # The format that a checkpoint began with counts, here and below.
        "another state format": {"spark.sql.streaming.aggregation.stateFormatVersion": "1"},
    },
    "join_full_outer": {
        "few records": FEW_RECORDS,
        "another state format": {"spark.sql.streaming.join.stateFormatVersion": "1"},
    },
    "flat_map_groups_event_time": {
        "another state format": {
            "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "1"
        },
    },
}
# Each scan of these reads only rows that may be due, as do the two of a join. What comes after a
# join or stands before another operator is one of these as well.
NARROWED = {
    "aggregate_windows_update", "aggregate_windows_append", "aggregate_lists_append",
    "drop_duplicates_by_time", "drop_duplicates_within_watermark", "session_windows_append",
    "pandas_state_processing_time", "pandas_state_event_time", "flat_map_groups_processing_time",
    "flat_map_groups_event_time", "join_then_aggregate", "aggregate_then_aggregate",
    "deduplicate_then_aggregate",
}  # fmt: skip
TWICE = ["aggregate_windows_append", "drop_duplicates_within_watermark", "join_full_outer"]


def both_versions(name: str, folder: Path, settings: Any = None, **more: Any) -> list[Job]:
    """Of checkpoint formats V1 and V2."""
    return [
        Job(QUERIES[name], folder / f"v{version}", Kept(CEC, version, settings or {}), **more)
        for version in (1, 2)
    ]


def require_what_it_is_for(name: str, reference: Run) -> None:
    """The data makes the operator do what makes it hard: evict, fill with nulls, time out."""
    query = QUERIES[name]
    assert len(reference.rows) >= FILES
    assert sum(map(len, reference.rows.values())) > 0
    assert has_evicted(name, reference) is query.evicts
    rows = [row for batch in reference.rows.values() for row in batch]
    for empty, there in FILLED.get(name, []):
        # A key that is null never goes into the state, so its row proves nothing.
        assert any(row[empty] is None and row[there] is not None for row in rows)
    if name in TIMED_OUT:
        assert any("timed out" in row for row in rows)


def has_evicted(name: str, run: Run) -> bool:
    """Before 4.3 Spark does not count what a full outer join removes: each row of a join is new."""
    if run.removed() > 0:
        return True
    left = run.metrics[max(run.metrics)][0][METRICS.index("numRowsTotal")]
    added = sum(of[0][METRICS.index("numRowsUpdated")] for of in run.metrics.values())
    return name.startswith("join") and left < added


@pytest.mark.crash
@pytest.mark.parametrize("name", NAMES)
def test_each_batch_equals_that_of_the_hdfs_backed_provider(
    name: str, references: References, tmp_path: Path
) -> None:
    jobs = both_versions(name, tmp_path)
    if not CRASH_FULL:
        # One of the two in turn: what the formats differ in has tests of its own.
        jobs = [jobs[NAMES.index(name) % 2]]
    reference, *runs = references.with_others(QUERIES[name], jobs)
    require_what_it_is_for(name, reference)
    for job, ours in zip(jobs, runs, strict=True):
        assert differences(ours, reference) == [], f"checkpoint format {job.kept.version}"
        assert unproven(ours, job.kept) == [], f"checkpoint format {job.kept.version}"
        require_narrowed_scans(name, ours)


def require_narrowed_scans(name: str, ours: Run) -> None:
    """Require one of each operator that scans by a time, a batch and partition, and two of a join;
    of no other."""
    batches = [operators for operators in ours.custom.values() if operators]
    assert batches
    for at in range(len(batches[0])):
        narrowed = {each[at]["cecNarrowedScans"] for each in batches}
        is_join = at == len(batches[0]) - 1 and name.startswith("join")
        scans = 4 if is_join else 2 if name in NARROWED else 0
        assert narrowed == {scans}, (name, at)


@pytest.mark.parametrize("name", SETTINGS_LATER)
def test_restart_with_other_settings_changes_no_batch(
    name: str, references: References, tmp_path: Path
) -> None:
    settings = SETTINGS_LATER[name]
    jobs = [
        Job(QUERIES[name], tmp_path / what, Kept(version=1 + place % 2, later=later))
        for place, (what, later) in enumerate(settings.items())
    ]
    reference, *runs = references.with_others(QUERIES[name], jobs)
    for job, ours in zip(jobs, runs, strict=True):
        assert differences(ours, reference) == [], job.folder.name
        assert unproven(ours, job.kept) == [], job.folder.name
        require_narrowed_scans(name, ours)
        if job.kept.later == FEW_RECORDS:
            assert ours.sum_of("cecCheckRecordsWritten") > 0, "no footprint was ever renewed"


@pytest.mark.parametrize("name", ["aggregate_windows_append", "join_left_outer"])
def test_query_whose_extension_is_gone_after_a_restart_reads_all_rows(
    spark: Any, name: str, tmp_path: Path
) -> None:
    job = Job(QUERIES[name], tmp_path / "ours", Kept())
    ours = Run(job.folder / "checkpoint")
    [reference] = run(spark, Job(QUERIES[name], tmp_path / "spark", REFERENCE))
    with without_extension(spark) as other:
        run_files(spark, job, 0, range(HALF), ours)
        batches_before = list(ours.custom)
        run_files(other, job, 1, range(HALF, FILES), ours)
    assert differences(ours, reference) == []
    narrowed = {batch: of[0]["cecNarrowedScans"] for batch, of in ours.custom.items()}
    assert min(narrowed[batch] for batch in batches_before) > 0
    assert {narrowed[batch] for batch in narrowed.keys() - set(batches_before)} == {0}


@pytest.mark.parametrize("name", TWICE)
def test_batch_that_is_computed_twice_is_right_each_time(
    name: str, references: References, tmp_path: Path
) -> None:
    jobs = both_versions(name, tmp_path, twice=True)
    reference, *runs = references.with_others(QUERIES[name], jobs)
    for job, ours in zip(jobs, runs, strict=True):
        assert rows_only(differences(ours, reference)) == []
        assert unproven(ours, job.kept) == []


def test_batch_of_a_join_that_is_joined_with_itself_is_that_of_the_hdfs_backed_provider(
    tmp_path: Path,
) -> None:
    """One task then evaluates the stream's join twice at once."""
    found = []
    for store in ("hdfs", "cec"):
        (tmp_path / store).mkdir()
        done = subprocess.run(
            [sys.executable, self_join.__file__, str(tmp_path / store), store],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        found += [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert found[0] == found[1]
    assert found[0].count("[") >= 4


def rows_only(found: list[str]) -> list[str]:
    """Spark adds the metrics of both computations up, of whatever provider."""
    return [each for each in found if ", rows:" in each]


def test_maintenance_that_forgets_changes_no_batch(references: References, tmp_path: Path) -> None:
    """The session's maintenance runs all the time; here it has something to delete as well."""
    name = "join_full_outer"
    settings = {"spark.sql.streaming.minBatchesToRetain": "1", **FEW_RECORDS}
    jobs = both_versions(name, tmp_path, settings, lives=3)
    reference, *runs = references.with_others(QUERIES[name], jobs)
    for job, ours in zip(jobs, runs, strict=True):
        assert differences(ours, reference) == []
        assert unproven(ours, job.kept) == []
        stores = {path.parent for path in (ours.checkpoint / "state").rglob("*.seg")}
        left = [len(list(store.glob("*.seg"))) for store in stores]
        # Each life wrote one: that of the last builds on that of the second.
        assert min(left) == 2, left


def test_join_of_another_state_format_gives_the_same_batches(
    references: References, tmp_path: Path
) -> None:
    """From 4.3 on Spark takes 2 where 3 is asked for, but for RocksDB."""
    if not HAS_JOIN_FORMAT_3:
        pytest.skip("this Spark refuses the setting")
    query = QUERIES["join_left_outer"]
    conf = {**query.conf, "spark.sql.streaming.join.stateFormatVersion": "3"}
    other = replace(query, name=f"{query.name}, format 3", conf=conf)
    reference, ours = references.with_others(query, [Job(other, tmp_path / "ours", Kept())])
    assert differences(ours, reference) == []


def test_differences_are_found() -> None:
    good = Run(Path(), {0: [("a", 1)], 1: []}, {0: [(1, 1, 0, 0)], 1: [(0, 0, 1, 0)]})
    assert differences(good, replace(good)) == []
    for field, batch, value in [
        ("rows", 0, [("a", 2)]), ("rows", 1, [("a", 1)]), ("metrics", 1, [(1, 0, 0, 0)]),
        ("rows", 2, []),
    ]:  # fmt: skip
        bad = replace(good, **{field: {**getattr(good, field), batch: value}})
        assert len(differences(bad, good)) == 1


@pytest.mark.parametrize("is_reported", [True, False])
def test_sparks_coordinator_misses_no_snapshot_of_ours(
    spark: Any, tmp_path: Path, is_reported: bool
) -> None:
    """It warns of stores that have told of none for long; a commit is as good as one.

    Where it is not to be told it would miss one of each store: so the question can fail.
    """
    before = dict(spark.conf.getAll)
    for number in range(6):
        spark.range(number, number + 2).coalesce(1).write.mode("append").parquet(f"{tmp_path}/in")
    prefix = "spark.sql.streaming.stateStore"
    try:
        spark.conf.set(f"{prefix}.providerClass", CEC)
        spark.conf.set(f"{prefix}.minDeltasForSnapshot", "2")
        spark.conf.set(f"{prefix}.multiplierForMinVersionDiffToLog", "1")
        # Spark refuses to force what nobody reports.
        spark.conf.set(f"{prefix}.forceSnapshotUploadOnLag", "false")
        spark.conf.set(f"{prefix}.coordinatorReportSnapshotUploadLag", str(is_reported).lower())
        rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", "1")
        counts = rows.parquet(f"{tmp_path}/in").groupBy("id").count()
        writer = counts.writeStream.format("noop").outputMode("update")
        query = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").start()
        try:
            query.processAllAvailable()
            versions = query.lastProgress["batchId"]
            assert versions >= 5
            run_id = spark._jvm.java.util.UUID.fromString(query.runId)
            spark.conf.set(f"{prefix}.coordinatorReportSnapshotUploadLag", "true")
            coordinator = spark._jsparkSession.streams().stateStoreCoordinator()
            lagging = coordinator.getLaggingStoresForTesting(run_id, versions, True)
            assert lagging.size() == (0 if is_reported else 2)
        finally:
            query.stop()
    finally:
        put_back(spark, before)
