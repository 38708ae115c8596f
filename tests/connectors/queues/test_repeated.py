"""Output that a queue drops because it has that batch of that writer already: is it said?"""

import logging
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from cec_store.connectors.spark.queues.sink import BatchSink, StreamSink, Written
from cec_store.partitioned.staging import Stager
from cec_store.storage.local import LocalFolder
from support.places.partitioned_queues import contents

SCHEMA = StructType([StructField("n", LongType())])


def write(path: Path, version: int, first: int, count: int, app: str = "totals") -> None:
    """As a batch of `foreachBatch` does it."""
    given = {"path": str(path), "txnAppId": app, "txnVersion": str(version)}
    sink = BatchSink(given, SCHEMA, overwrite=False)
    sink.commit([Written(app, version, staged(sink, path, app, version, first, count))])


def staged(sink, path: Path, query: str, batch: int, first: int, count: int):
    schema = sink._target.schema
    stager = Stager(LocalFolder(path), schema, query, batch, 0)
    if count:
        rows = pa.record_batch([pa.array(range(first, first + count), pa.int64())], schema.data)
        stager.append(rows)
    return stager.finish()


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [(each.levelno, each.getMessage()) for each in caplog.records]
    caplog.clear()
    return found


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "cec_store.connectors.spark.queues.repeated")
    return caplog


def test_output_of_a_new_checkpoint_under_an_old_name_is_dropped_with_a_warning(
    log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "q"
    for version in range(3):
        write(path, version, 10 * version, 5)
    assert said(log) == []
    for version in range(2):
        write(path, version, 100, 4)
        [(level, text)] = said(log)
        assert level == logging.WARNING
        for word in (str(path), "4 rows", f"batch {version}", "'totals'", "up to 2", "txnAppId"):
            assert word in text
    write(path, 2, 100, 4)
    [(level, text)] = said(log)
    assert (level, "with other rows" in text) == (logging.WARNING, True)
    assert len(contents(path)[0]) == 15
    write(path, 0, 100, 4, app="totals-2")
    assert said(log) == []
    assert len(contents(path)[0]) == 19


def test_two_forks_under_one_name_are_told_apart_from_a_batch_run_again(
    log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "q"
    write(path, 0, 0, 5)
    write(path, 1, 5, 5)
    write(path, 7, 0, 1, app="another")
    write(path, 1, 5, 5)
    [(level, text)] = said(log)
    assert (level, "run again" in text) == (logging.INFO, True)
    write(path, 1, 5, 6)
    assert [level for level, _ in said(log)] == [logging.WARNING]
    write(path, 1, 5, 0)
    assert said(log) == []


def test_a_query_from_a_copied_checkpoint_is_told_so(
    log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "q"
    sink = StreamSink({"path": str(path)}, SCHEMA)
    for batch, count in ((0, 3), (1, 3), (0, 2)):
        piece = staged(sink, path, "query", batch, 10 * batch, count)
        sink.commit([Written("query", batch, piece)], batch)
    [(level, text)] = said(log)
    assert (level, "cec-store fork" in text) == (logging.WARNING, True)
