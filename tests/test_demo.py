"""The demo, end to end on a part of the flights, with both kills."""

import json
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cec_store import demo, flights, open_queue
from cec_store.demo import RUNS, run_demo

ROWS = 20_000


class Silent:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.rows = dict.fromkeys(RUNS, 0)

    def advance(self, run: str, row: int, total: int) -> None:
        assert row <= total
        self.rows[run] = row

    def tell(self, text: str) -> None:
        self.told.append(text)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return flights.load_flights()


def test_flights_are_the_years_departures_in_time_order(table: pa.Table) -> None:
    assert table.num_rows == 336_776 - 8_255
    times = table.column("departure").cast(pa.int64()).to_numpy()
    assert (times[1:] >= times[:-1]).all()
    first = table.slice(0, 1).to_pylist()[0]
    assert first["departure"] == datetime(2013, 1, 1, 5, 17, tzinfo=timezone.utc)
    assert (first["tailnum"], first["carrier"], first["dep_delay"]) == ("N14228", "UA", 2)
    assert table.column("tailnum").null_count == 0


def test_2400_is_the_midnight_that_ends_the_day(table: pa.Table) -> None:
    midnights = pc.equal(pc.hour(table.column("departure")), 0)
    at_zero = table.filter(pc.and_(midnights, pc.equal(pc.minute(table.column("departure")), 0)))
    assert at_zero.num_rows == 29  # the data set has no 0000 but 29 times 2400
    assert datetime(2014, 1, 1, tzinfo=timezone.utc) >= pc.max(table.column("departure")).as_py()


@pytest.mark.parametrize("seed", [1])
def test_killed_run_equals_the_one_never_killed(tmp_path, seed: int) -> None:
    watcher = Silent()
    report = run_demo(tmp_path / "demo", seed, watcher, ROWS)
    assert report.equal
    assert report.output_rows == sum(output.reference_rows for output in report.outputs) > 1000
    assert len(report.recoveries) == 4
    for found in report.recoveries:
        assert 0 < found.log_at_row < ROWS
        assert 0 < found.extent_records <= max(found.extent_target, found.open_windows)
        assert found.replayed_rows <= found.replay_target
    assert sum("SIGKILL" in text for text in watcher.told) == 2
    assert watcher.rows == dict.fromkeys(RUNS, ROWS)
    json.dumps(demo.report_as_json(report))


def test_a_difference_would_be_seen(tmp_path) -> None:
    schema = pa.schema([("x", pa.int64())])
    for run, values in (("reference", [1, 2, 3]), ("killed", [1, 2, 4])):
        with open_queue(tmp_path / run / "aircraft", "x", schema=schema) as queue:
            queue.append(pa.record_batch([pa.array(values)], schema=schema), pa.array([1, 2, 3]))
    compared = demo._compare(tmp_path, "aircraft")
    assert (compared.rows, compared.first_difference) == (3, 2)


def test_a_folder_in_use_is_refused(tmp_path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        run_demo(tmp_path, 1, Silent())
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_missing_data_are_named(monkeypatch) -> None:
    monkeypatch.setattr(flights, "_PACKAGE", "nyc_no_such_flights")
    with pytest.raises(flights.FlightsMissing, match=r"cec-store\[flights\]"):
        flights.load_flights()
