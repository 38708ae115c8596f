"""The report of a fleet of which queries read and write what is no queue."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cec_store.cli import app
from cec_store.connectors.spark.fleet import Fleet, Sink, Source
from cec_store.signals.figures import fleet_figures
from support.command_line.json_schemas import check
from support.fleets import diamond
from support.fleets.engine_double import EngineDouble, SourceDouble, driver_of
from support.processes.chromium import browser

PLACE = "support.fleets.diamond:even"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """One query of it reads Kafka, of which Spark has told; another one writes files."""
    diamond.make_queue(tmp_path / "landed")
    fleet = Fleet(tmp_path / "fleet")
    orders = Source("kafka", {"subscribe": "orders"})
    fleet.query("landed", PLACE, sources=[orders], writes=str(tmp_path / "landed"))
    kept = Sink("parquet", {"path": str(tmp_path / "kept")})
    fleet.query("kept", PLACE, reads=[str(tmp_path / "landed")], sink=kept)
    engine, start_s = EngineDouble(2), time.time()
    driver = driver_of(fleet, engine, start_s)
    driver.look(start_s)
    offsets = ('{"orders":{"0":5}}', '{"orders":{"0":12}}')
    engine.queries["landed"].outer = (SourceDouble("KafkaV2[orders]", 3, {}, "null", *offsets),)
    engine.queries["landed"].does(0)
    driver.look(start_s + 5)
    return fleet


def document_of(folder: Path) -> Any:
    result = CliRunner().invoke(app, ["report", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    check("fleet", document)
    return document


def test_what_is_no_queue_is_in_the_document_and_on_the_page(fleet: Fleet, tmp_path: Path) -> None:
    path = Path(fleet.folder.path)
    assert document_of(path)["queries"][0]["records_waiting"] is None, "nobody drives it"
    with fleet.folder.leases().hold("driver"):
        document = document_of(path)
        figures = list(fleet_figures(fleet.folder))
        page = tmp_path / "report.html"
        result = CliRunner().invoke(app, ["report", str(path), "-o", str(page)])
    assert result.exit_code == 0, result.output
    landed, kept = document["queries"]
    assert (landed["sources"], landed["sink"], landed["level"]) == (["kafka orders"], None, 1)
    assert (kept["writes"], kept["sink"]) == (None, f"parquet {tmp_path}/kept")
    assert landed["records_waiting"] == 7
    assert landed["waiting_since_us"] is None
    lags = {figure.metric: figure.value for figure in figures if figure.labels == ("landed",)}
    assert lags["cec_fleet_query_lag_records"] == 7
    assert "cec_fleet_query_waiting_seconds" not in lags, "since when is nowhere said"
    with browser(tmp_path) as tab:
        tab.open(page, 1280, 900)
        assert tab.complaints() == []
        names = tab.value("[...document.querySelectorAll('.node .name')].map((e) => e.textContent)")
        assert {"kafka orders", "landed", "kept"} <= {*names}
        assert len(names) == 5
        assert tab.value("document.querySelectorAll('.edge').length") == 4
