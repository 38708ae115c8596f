"""A real endpoint is asked as Prometheus asks, and what it tells is what there is."""

import socket
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import QueueOptions, Standby, open_queue
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema
from cec_store.signals import Signals
from cec_store.signals.figures import METRICS
from cec_store.standby.leases import leases_of
from support.fleets.walks import Walk
from support.standby.node_threads import NodeThreads

parser = pytest.importorskip("prometheus_client.parser")
ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", pa.timestamp("us"))])
Told = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def sums() -> Aggregate:
    return Aggregate(
        group_by=["k"], aggregates={"s": ("sum", "v")}, window=CountWindow(3), input_schema=ROWS
    )


def source(rows: int) -> ArrowSource:
    numbers = list(range(rows))
    table = pa.table({"k": [n % 7 for n in numbers], "v": numbers, "at": numbers}, schema=ROWS)
    return ArrowSource(table, "at")


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def signals(port: int) -> Iterator[Signals]:
    found = Signals()
    end = found.serve(port)
    yield found
    end()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)


def scraped(port: int) -> Told:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    found: Told = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert (sample.name, labels) not in found
            found[sample.name, labels] = sample.value
    return found


def of(told: Told, metric: str, **labels: str) -> float:
    return told[metric, tuple(sorted(labels.items()))]


def test_a_runner_its_queue_and_its_consumers(tmp_path: Path, signals: Signals, port: int) -> None:
    schema = record_schema(sums())
    with open_queue(tmp_path / "q", "a", schema=schema) as queue:
        runner = Runner(sums(), [source(100)], queue)
        signals.add_runner("sums", runner)
        told = scraped(port)
        assert of(told, "cec_records_written_total", name="sums") == 0
        assert ("cec_recovery_records", (("name", "sums"),)) not in told, "there was nothing"
        runner.run()
        queue.consumer("late").close()
        told = scraped(port)
        assert of(told, "cec_records_written_total", name="sums") == runner.records_written > 0
        assert of(told, "cec_checks_written_total", name="sums") == runner.checks_written
        assert of(told, "cec_durable_records", name="sums") == queue.durable_offset
        extent = queue.extent()
        assert of(told, "cec_open_windows", name="sums") == extent.open_windows > 0
        assert of(told, "cec_extent_records", name="sums") == extent.records > 0
        lag = of(told, "cec_consumer_lag_records", name="sums", consumer="late")
        assert lag == queue.durable_offset
        assert of(told, "cec_consumer_waiting_seconds", name="sums", consumer="late") > 0
    signals.remove("sums")
    with open_queue(tmp_path / "q", "a", schema=schema) as queue:
        again = Runner(sums(), [source(100)], queue)
        signals.add_runner("again", again)
        told = scraped(port)
        assert again.recovery is not None
        assert of(told, "cec_recovery_records", name="again") == again.recovery.extent.records
        assert of(told, "cec_recovery_load_seconds", name="again") == again.recovery.load_s > 0
        assert all(("name", "sums") not in labels for _, labels in told)


def test_a_standby_until_it_is_over(tmp_path: Path, signals: Signals, port: int) -> None:
    schema = record_schema(sums())
    options = QueueOptions(sync="commit")
    with open_queue(tmp_path / "q", "a", schema=schema, options=options) as queue:
        Runner(sums(), [source(50)], queue).run()
        with Standby(tmp_path / "q", sums, [source(50)]) as standby:
            signals.add_standby("second", standby)
            assert of(scraped(port), "cec_standby_lag_records", name="second") > 0
            while standby.follow():
                pass
            told = scraped(port)
            assert of(told, "cec_standby_lag_records", name="second") == 0
            assert of(told, "cec_standby_is_over", name="second") == 0
            taken = standby.take_over()
            told = scraped(port)
            assert of(told, "cec_standby_is_over", name="second") == 1
            assert ("cec_standby_lag_records", (("name", "second"),)) not in told
            taken.queue.close()


def test_nodes_by_their_queue(tmp_path: Path, signals: Signals, port: int) -> None:
    with NodeThreads(tmp_path) as nodes:
        nodes.start("a")
        nodes.primary()
        nodes.start("b")
        nodes.wait_ready("b")
        signals.add_nodes("sums", nodes.output)
        told = scraped(port)
        figures = [(node, of(told, f"cec_node_{name}", name="sums", node=node))
                   for name in ("is_primary", "is_warm", "lag") for node in "ab"]  # fmt: skip
        assert figures == [("a", 1), ("b", 0), ("a", 1), ("b", 1), ("a", 0), ("b", 0)]
        assert of(told, "cec_takeovers_are_paused", name="sums") == 0
        nodes.end("b")
        assert of(scraped(port), "cec_node_is_warm", name="sums", node="b") == 0


def test_a_fleet_by_its_folder(tmp_path: Path, signals: Signals, port: int) -> None:
    walk = Walk(tmp_path, 1)
    walk.until_checkpoint()
    walk.fail()
    signals.add_fleet("trades", tmp_path / "fleet")
    with leases_of(tmp_path / "fleet").hold("driver"):
        told = scraped(port)
    states = [of(told, "cec_fleet_queries", name="trades", state=state)
              for state in ("running", "held back", "failing", "waiting", "stopped")]  # fmt: skip
    assert sum(states) == len(walk.fleet.folder.read().declared)
    assert states[1] > 0
    assert of(told, "cec_fleet_is_driven", name="trades") == 1
    assert of(told, "cec_fleet_executors", name="trades") == 1
    assert of(told, "cec_fleet_query_failures", name="trades", query="a") == 0
    assert of(told, "cec_fleet_checkpoint_age_seconds", name="trades") >= 0
    waiting = [of(told, "cec_fleet_query_lag_records", name="trades", query=query.name)
               for query in walk.fleet.folder.read().declared]  # fmt: skip
    assert max(waiting) > 0, "those that are held back have their input before them"
    assert of(told, "cec_fleet_query_waiting_seconds", name="trades", query="d") == 0
    assert of(scraped(port), "cec_fleet_is_driven", name="trades") == 0, "its driver let go"


def test_what_cannot_be_looked_at_is_counted_and_the_rest_is_told(
    tmp_path: Path, signals: Signals, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with open_queue(tmp_path / "q", "a", schema=record_schema(sums())) as queue:
        runner = Runner(sums(), [source(20)], queue)
        runner.run()
        signals.add_runner("sums", runner)
        signals.add_fleet("nowhere", tmp_path / "nowhere")
        for count in (1, 2):
            told = scraped(port)
            assert of(told, "cec_scrape_failures_total", name="nowhere") == count
            assert of(told, "cec_scrape_failures_total", name="sums") == 0
            assert of(told, "cec_records_written_total", name="sums") > 0
    assert "nowhere cannot be looked at" in caplog.text


def test_without_prometheus_everything_else_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'cec-store\[metrics\]'"):
        Signals()
    with open_queue(tmp_path / "q", "a", schema=record_schema(sums())) as queue:
        Runner(sums(), [source(20)], queue).run()


def test_every_metric_says_what_it_is(signals: Signals) -> None:
    families = {each.name: each for each in signals.collect()}
    assert families.keys() == {*METRICS, "cec_scrape_failures"}
    assert all(each.documentation for each in families.values())
