"""Gauges of queries as Prometheus sees them, and the history that the listener keeps."""

from __future__ import annotations

import logging
import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from cec_store.connectors import spark as connector
from cec_store.connectors.spark.progress.listening import QueryProgress
from cec_store.connectors.spark.progress.progress_file import ProgressFile
from cec_store.connectors.spark.progress.reported import GAUGES
from support.spark.queries import QUERIES
from support.spark.runs import Job, Kept, run

parser = pytest.importorskip("prometheus_client.parser")
LABELS = ("query", "operator", "metric")
Told = dict[tuple[str, str], float]


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def progress(batch: int, **changes: Any) -> Any:
    operator = SimpleNamespace(
        customMetrics={"cecExtentRecords": 12, "rocksdbX": 1}, numStateStoreInstances=2,
        commitTimeMs=80, memoryUsedBytes=4096, numRowsTotal=7,
    )  # fmt: skip
    fields = {
        "timestamp": f"2026-01-01T00:00:{batch:02d}.500Z", "batchId": batch,
        "durationMs": {"addBatch": 1, "triggerExecution": 250}, "numInputRows": 100,
        "inputRowsPerSecond": 200.0, "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
        "stateOperators": [operator],
    }  # fmt: skip
    return SimpleNamespace(**{**fields, **changes})


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def scraped(port: int) -> Told:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, "/".join(sample.labels[n] for n in LABELS if n in sample.labels)): (
            sample.value
        )
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def queries(port: int) -> Iterator[QueryProgress]:
    with QueryProgress(Clock()) as told:
        told.serve(port, "127.0.0.1")
        yield told
    with pytest.raises(OSError, match="refused"):
        scraped(port)


def test_gauges_are_those_of_the_newest_batch_and_go_with_the_query(
    queries: QueryProgress, port: int
) -> None:
    queries.started("run", "totals", None)
    assert scraped(port) == {}
    queries.progressed("run", "totals", progress(0))
    queries.progressed("run", "totals", progress(3))
    told = scraped(port)
    assert {name for name, _ in told} == set(GAUGES)
    assert told["cec_query_batch", "totals"] == 3
    assert told["cec_query_batch_seconds", "totals"] == 0.25
    assert told["cec_query_commit_seconds", "totals"] == 0.04
    assert told["cec_query_watermark_seconds", "totals"] == 1767225600
    assert told["cec_query_input_rows_per_second", "totals"] == 200
    assert told["cec_state", "totals/0/cecExtentRecords"] == 12
    assert ("cec_state", "totals/0/rocksdbX") not in told
    queries.ended("run")
    assert scraped(port) == {}


def test_a_run_that_ends_late_does_not_take_the_gauges_of_the_next(
    queries: QueryProgress, port: int
) -> None:
    queries.started("old", "totals", None)
    queries.progressed("old", "totals", progress(1))
    queries.started("new", "totals", None)
    queries.progressed("new", "totals", progress(2))
    assert scraped(port)["cec_query_batch", "totals"] == 2
    queries.ended("old")
    assert scraped(port)["cec_query_batch", "totals"] == 2


def test_a_query_without_state_or_watermark_has_fewer_gauges(
    queries: QueryProgress, port: int
) -> None:
    queries.progressed("run", "plain", progress(1, stateOperators=[], eventTime={}))
    queries.progressed("run", "plain", progress(2, durationMs={"triggerExecution": 1}))  # no batch
    told = scraped(port)
    assert told["cec_query_batch", "plain"] == 1
    assert not {name for name, _ in told} & {"cec_state", "cec_query_commit_seconds"}
    assert ("cec_query_watermark_seconds", "plain") not in told


def test_the_history_is_written_now_and_then_and_at_the_end(tmp_path: Path) -> None:
    clock, file = Clock(), ProgressFile(tmp_path)
    queries = QueryProgress(clock)
    queries.started("run", "totals", str(tmp_path))
    for number in range(5):
        queries.progressed("run", "totals", progress(number))
    assert [stretch.batch for stretch in file.read()] == [0]
    clock.now_s += 11
    queries.progressed("run", "totals", progress(5))
    assert [stretch.batch for stretch in file.read()] == [0, 1, 2, 3, 4, 5]
    queries.progressed("run", "totals", progress(6))
    queries.ended("run")
    assert len(file.read()) == 7
    queries.started("next", "totals", str(tmp_path))
    queries.progressed("next", "totals", progress(7))
    queries.stop()
    assert [stretch.batch for stretch in file.read()] == [*range(8)]


def test_a_run_that_begins_before_the_last_one_has_ended_keeps_its_history(tmp_path: Path) -> None:
    """Spark tells of the start at once, and of what was before it when the bus comes to it."""
    queries = QueryProgress(clock=lambda: 0.0)
    queries.started("first", "q", str(tmp_path))
    for batch in range(5):
        queries.progressed("first", "q", progress(batch))
    queries.started("second", "q", str(tmp_path))
    queries.ended("first")
    for batch in range(5, 8):
        queries.progressed("second", "q", progress(batch))
    queries.ended("second")
    assert [stretch.batch for stretch in ProgressFile(tmp_path).read()] == list(range(8))


def test_a_file_that_cannot_be_written_is_told_once_and_the_gauges_stay(
    queries: QueryProgress, port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "progress").write_text("a file in the folder's place")
    with caplog.at_level(logging.WARNING, "cec_store"):
        queries.started("run", "totals", str(tmp_path))
        for number in range(3):
            queries.progressed("run", "totals", progress(number))
        queries.ended("run")
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("the progress of totals is not kept: ")
    queries.progressed("again", "totals", progress(1))
    assert scraped(port)["cec_query_batch", "totals"] == 1


@pytest.mark.parametrize("event", ["progressed", "ended"])
def test_a_slow_store_does_not_hold_a_scrape_up(
    event: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, may_end = Event(), Event()

    def write(*_: object) -> None:
        has_begun.set()
        assert may_end.wait(60)

    clock = Clock()
    queries = QueryProgress(clock)
    queries.started("run", "totals", str(tmp_path))
    queries.progressed("run", "totals", progress(0))
    monkeypatch.setattr(ProgressFile, "write", write)
    clock.now_s += 11
    events = {
        "progressed": lambda: queries.progressed("run", "totals", progress(1)),
        "ended": lambda: queries.ended("run"),
    }
    with ThreadPoolExecutor(2) as threads:
        written = threads.submit(events[event])
        try:
            assert has_begun.wait(30)
            families = threads.submit(lambda: list(queries.collect())).result(timeout=30)
            assert not written.done()
        finally:
            may_end.set()
        written.result(timeout=30)
    batches = [s.value for f in families if f.name == "cec_query_batch" for s in f.samples]
    assert batches == ([1] if event == "progressed" else [])


@pytest.mark.spark
def test_a_real_query_has_gauges_while_it_runs_and_a_history_afterwards(
    spark: Any, tmp_path: Path, port: int
) -> None:
    with connector.prometheus(spark, port=port):
        [done] = run(spark, Job(QUERIES["join_then_aggregate"], tmp_path, Kept(), lives=1))
        spark._jsc.sc().listenerBus().waitUntilEmpty()
        assert scraped(port) == {}
    [place] = {path.parent for path in tmp_path.rglob("progress")}
    stretches = ProgressFile(place).read()
    assert sum(stretch.batches for stretch in stretches) == len(done.rows) > 3
    assert all(stretch.commit_us is not None for stretch in stretches)
    assert sum(stretch.rows for stretch in stretches) > 0
