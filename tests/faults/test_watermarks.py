"""Operators that evict say of random streams, batch by batch, what they say on Spark's stores."""

from pathlib import Path
from typing import Any

import pytest

from support.runs.counts import crash_count
from support.runs.suites import Tally
from support.spark.runs import METRICS, Kept, Run, settings_of, take_progress, unproven
from support.spark.session import CEC
from support.watermarks.differing import Case, narrowed
from support.watermarks.operators import GROUPS
from support.watermarks.streams import SCHEMA, Stream, write_file

STREAMS = crash_count(1, 200)
ROCKSDB_EVERY = 6
"""One stream in so many runs on RocksDB as well, which is as slow as the others together."""

pytestmark = [
    pytest.mark.crash,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


@pytest.mark.parametrize("seed", range(STREAMS))
@pytest.mark.parametrize("name", GROUPS)
def test_random_stream_is_evicted_as_on_sparks_stores(
    spark: Any, tmp_path: Path, tally: Tally, name: str, seed: int
) -> None:
    case = Case(spark, Stream(f"{name}/{seed}"), GROUPS[name], tmp_path)
    number = seed + list(GROUPS).index(name)
    stores = case.stores(has_rocksdb=number % ROCKSDB_EVERY == 1)
    runs = case.run(stores)
    reference = runs.pop("hdfs")
    tally(len(GROUPS[name].operators))
    # Of some streams no rows are joined: what is kept and removed is compared then.
    assert any(reference.rows.values()) or any(reference.rows_kept)
    if GROUPS[name].evicts and seed == 0:
        assert reference.removed() > 0
    for store, run in runs.items():
        assert case.differences(run, reference) == [], store
    assert unproven(runs["cec"], stores["cec"]) == []
    if GROUPS[name].narrows:
        assert min(narrowed(runs["cec"])) > 0
    if name == "complete":
        assert max(narrowed(runs["cec"])) == 0


def test_scans_read_what_may_be_due_and_no_more(spark: Any, tmp_path: Path) -> None:
    """Each batch's rows stand in a zone of their own; the watermark counts whole milliseconds."""
    at_us = 1_767_225_600_000_000
    batches = [at_us, at_us + 1, at_us + 1_000, None, at_us + 3_000, at_us + 3_000]
    for number, ts in enumerate(batches):
        write_file(tmp_path / "in", number, [{"key": f"{number}-{n}", "ts": ts} for n in range(5)])
    conf = {"spark.sql.shuffle.partitions": "1", **Kept(CEC).of(0)}
    run = Run(tmp_path / "checkpoint")
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    timed = rows.parquet(str(tmp_path / "in")).withWatermark("ts", "0 seconds")
    with settings_of(spark, conf):
        writer = timed.dropDuplicates(["key", "ts"]).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(run.checkpoint))
        query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    take_progress(query, run)
    scans = [(one["cecScannedRows"], one["cecNarrowedScans"]) for [one] in run.custom.values()]
    removed = [one[METRICS.index("numRowsRemoved")] for [one] in run.metrics.values()]
    # By the watermark of the batch before: a row a microsecond behind it is not read, and rows
    # without a time are read each time.
    assert list(zip(scans, removed, strict=True)) == [
        ((0, 1), 0), ((5, 1), 5), ((0, 1), 0), ((15, 1), 10), ((5, 1), 0), ((15, 1), 10),
    ]  # fmt: skip
