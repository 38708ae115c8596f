"""With our provider a query says in each batch what it says with Spark's own, restarts included."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from spark_inputs import FILES
from spark_queries import QUERIES
from spark_runs import REFERENCE, STORE, Kept, Run, cec, differences, run_alone, unproven

# The side that an outer join fills with nulls, and the key of the other side.
FILLED = {
    "join_left_outer": [(4, 0)],
    "join_right_outer": [(0, 4)],
    "join_full_outer": [(0, 4), (4, 0)],
}
TIMED_OUT = [name for name in QUERIES if name.endswith(("processing_time", "event_time"))]
SETTINGS_LATER = {
    "smaller extent": cec(extentFactor="1.25"),
    "few records": cec(extentMaxRecords="1", checkTimeMs="1000"),
    "no compression, small segments": cec(compressionLevel="0", segmentBytes="65536"),
    "no sync, no time for checks": cec(syncMode="none", checkTimeMs="0"),
    "recovery time": cec(recoveryTimeMs="100"),
}


def require_what_it_is_for(name: str, reference: Run) -> None:
    """The data makes the operator do what makes it hard: evict, fill with nulls, time out."""
    query = QUERIES[name]
    assert len(reference.rows) >= FILES
    assert sum(map(len, reference.rows.values())) > 0
    assert (reference.removed() > 0) is query.evicts
    rows = [row for batch in reference.rows.values() for row in batch]
    for empty, there in FILLED.get(name, []):
        # A key that is null never goes into the state, so its row proves nothing.
        assert any(row[empty] is None and row[there] is not None for row in rows)
    if name in TIMED_OUT:
        assert any("timed out" in row for row in rows)


@pytest.mark.parametrize("name", QUERIES)
def test_each_batch_equals_that_of_the_hdfs_backed_provider(
    name: str, spark: Any, tmp_path: Path
) -> None:
    reference = run_alone(spark, QUERIES[name], tmp_path / "hdfs", REFERENCE)
    require_what_it_is_for(name, reference)
    for version in (1, 2):
        kept = Kept(version=version)
        ours = run_alone(spark, QUERIES[name], tmp_path / f"v{version}", kept)
        assert differences(ours, reference) == [], f"checkpoint format {version}"
        assert unproven(ours, kept) == [], f"checkpoint format {version}"


@pytest.mark.parametrize("settings", SETTINGS_LATER)
def test_restart_with_other_settings_changes_no_batch(
    settings: str, spark: Any, tmp_path: Path
) -> None:
    query = QUERIES["join_full_outer" if "few" in settings else "aggregate_windows_update"]
    reference = run_alone(spark, query, tmp_path / "hdfs", REFERENCE)
    kept = Kept(version=2 if "no" in settings else 1, later=SETTINGS_LATER[settings])
    ours = run_alone(spark, query, tmp_path / "ours", kept)
    assert differences(ours, reference) == []
    assert unproven(ours, kept) == []
    if "few" in settings:
        assert ours.sum_of("cecCheckRecordsWritten") > 0, "no footprint was ever renewed"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "name", ["aggregate_windows_append", "drop_duplicates_within_watermark", "join_full_outer"]
)
def test_batch_that_is_computed_twice_is_right_each_time(
    name: str, version: int, spark: Any, tmp_path: Path
) -> None:
    reference = run_alone(spark, QUERIES[name], tmp_path / "hdfs", REFERENCE)
    kept = Kept(version=version)
    ours = run_alone(spark, QUERIES[name], tmp_path / "ours", kept, twice=True)
    assert rows_only(differences(ours, reference)) == []
    assert unproven(ours, kept) == []


def rows_only(found: list[str]) -> list[str]:
    """Spark adds the metrics of both computations up, of whatever provider."""
    return [each for each in found if ", rows:" in each]


@pytest.mark.parametrize("version", [1, 2])
def test_maintenance_after_every_moment_changes_no_batch(
    version: int, spark: Any, tmp_path: Path
) -> None:
    query = QUERIES["join_full_outer"]
    reference = run_alone(spark, query, tmp_path / "hdfs", REFERENCE)
    often = {
        STORE + "maintenanceInterval": "100ms",
        "spark.sql.streaming.minBatchesToRetain": "2",
        **cec(segmentBytes="65536"),
    }
    kept = Kept(version=version, settings=often)
    ours = run_alone(spark, query, tmp_path / "ours", kept)
    assert differences(ours, reference) == []
    assert unproven(ours, kept) == []


@pytest.mark.parametrize("asked", ["1", "3"])
def test_join_of_another_state_format_gives_the_same_batches(
    asked: str, spark: Any, tmp_path: Path
) -> None:
    """Spark takes format 2 where 3 is asked for, for any provider but RocksDB."""
    query = QUERIES["join_left_outer"]
    conf = {**query.conf, "spark.sql.streaming.join.stateFormatVersion": asked}
    query = replace(query, conf=conf)
    reference = run_alone(spark, query, tmp_path / "hdfs", REFERENCE)
    ours = run_alone(spark, query, tmp_path / "ours", Kept())
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
