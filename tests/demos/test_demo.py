"""The demos, end to end on a part of the flights, with their kills."""

import json
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cec_store import open_queue
from cec_store.demos import embedded as embedded_demo
from cec_store.demos import flights
from cec_store.demos import spark as spark_demo
from cec_store.demos.embedded import RUNS, run_embedded_demo
from cec_store.demos.reporting import compare
from cec_store.demos.spark import run_spark_demo
from cec_store.demos.spark_feed import cut, recompute_aircraft, recompute_fleets, recompute_keys
from cec_store.demos.spark_results import read_inputs

ROWS = 20_000


class Silent:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.done: dict[str, int] = {}

    def advance(self, run: str, done: int, total: int) -> None:
        assert done <= total
        self.done[run] = done

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
    report = run_embedded_demo(tmp_path / "demo", seed, watcher, ROWS)
    assert report.equal
    assert report.output_rows == sum(output.reference_rows for output in report.outputs) > 1000
    assert len(report.recoveries) == 4
    for found in report.recoveries:
        assert 0 < found.log_at_row < ROWS
        assert 0 < found.extent_records <= max(found.extent_target, found.open_windows)
        assert found.replayed_rows <= found.replay_target
    assert sum("SIGKILL" in text for text in watcher.told) == 2
    assert watcher.done == dict.fromkeys(RUNS, ROWS)
    json.dumps(report.as_json())


def test_a_difference_would_be_seen(tmp_path) -> None:
    schema = pa.schema([("x", pa.int64())])
    for run, values in (("reference", [1, 2, 3]), ("killed", [1, 2, 4])):
        with open_queue(tmp_path / run / "aircraft", "x", schema=schema) as queue:
            queue.append(pa.record_batch([pa.array(values)], schema=schema), pa.array([1, 2, 3]))
    compared = embedded_demo._compare(tmp_path, "aircraft")
    assert (compared.rows, compared.first_difference) == (3, 2)


@pytest.mark.parametrize("run", [run_embedded_demo, run_spark_demo])
def test_a_folder_in_use_is_refused(tmp_path, run) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        run(tmp_path, 1, Silent())
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_missing_data_are_named(monkeypatch) -> None:
    monkeypatch.setattr(flights, "_PACKAGE", "nyc_no_such_flights")
    with pytest.raises(flights.FlightsMissing, match=r"cec-store\[flights\]"):
        flights.load_flights()


def test_killed_spark_equals_a_recompute(tmp_path) -> None:
    pytest.importorskip("pyspark")
    watcher = Silent()
    report = run_spark_demo(tmp_path / "demo", 1, watcher, ROWS, files=8)
    assert [output.first_difference for output in report.outputs] == [None, None]
    assert report.equal, report.states
    assert [output.rows for output in report.outputs] == [
        output.reference_rows for output in report.outputs
    ]
    assert min(output.rows for output in report.outputs) > 100
    assert sum("SIGKILL" in text for text in watcher.told) == 1
    assert watcher.done == {"spark": 8}
    assert len(report.states) == 3
    for state in report.states:
        assert state.stores == 2
        assert 0 < state.earlier_keys == state.recomputed_keys
        assert state.keys <= state.extent_records
    for back in report.resumed:
        assert report.killed_after_batch < back.batch < 8
        assert back.loaded_records > 0
    json.dumps(report.as_json())


def test_a_driver_that_fails_is_quoted(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(spark_demo, "_JOB", "cec_store.no_such_job")
    monkeypatch.setattr(spark_demo.spark, "jar", lambda: tmp_path)
    with pytest.raises(RuntimeError, match=r"(?s)status 1, not -9.*No module named"):
        run_spark_demo(tmp_path / "demo", 1, Silent(), ROWS, files=8)


def small(rows: list[tuple[int, str, str, int]]) -> pa.Table:
    """Of day, tail number, carrier, delay."""
    days, tails, carriers, delays = zip(*rows, strict=True)
    times = [datetime(2013, 1, day, 12, tzinfo=timezone.utc) for day in days]
    return pa.table(
        {
            "departure": pa.array(times, pa.timestamp("us", "UTC")),
            "tailnum": list(tails),
            "carrier": list(carriers),
            "dep_delay": list(delays),
        }
    )


def test_recompute_is_what_one_counts_by_hand() -> None:
    flights = small(
        [(1, "N1", "AA", 5), (1, "N1", "AA", 1), (1, "N2", "AA", 0), (2, "N3", "UA", 7),
         (3, "N1", "AA", 2), (4, "N3", "UA", -3)]
    )  # fmt: skip
    pieces = cut(flights, 3)
    aircraft = recompute_aircraft(pieces).to_pylist()
    assert [tuple(row.values()) for row in aircraft] == [
        (0, "N1", 2, 6), (1, "N2", 1, 0), (1, "N3", 1, 7), (2, "N1", 3, 8), (2, "N3", 2, 4)
    ]  # fmt: skip
    fleets = [(r["day"].day, r["carrier"], r["aircraft"]) for r in recompute_fleets(pieces)
              .to_pylist()]  # fmt: skip
    # The watermark is the third: the day before the last.
    assert fleets == [(1, "AA", 2), (2, "UA", 1)]
    # At version 3 the watermark is that of the first two files: the first.
    assert recompute_keys({"aircraft": pieces, "fleets": pieces}, 3) == {
        ("aircraft", "stateStoreSave"): 3,
        ("fleets", "dedupe"): 3,
        ("fleets", "stateStoreSave"): 4,
    }


def test_a_batch_that_took_two_files_is_recomputed_as_one(tmp_path) -> None:
    """As when a kill falls between the source's log and the log of offsets."""
    offsets = tmp_path / "checkpoint" / "aircraft" / "offsets"
    offsets.mkdir(parents=True)
    for batch, offset in enumerate([0, 2, 2, 3]):
        (offsets / str(batch)).write_text(f'v1\n{{"conf":{{}}}}\n{{"logOffset":{offset}}}')
        (offsets / f".{batch}.crc").write_bytes(b"crc")
    pieces = cut(small([(day, f"N{day}", "AA", 0) for day in (1, 2, 3, 4)]), 4)
    inputs = read_inputs(tmp_path, "aircraft", pieces)
    assert [part.column("tailnum").to_pylist() for part in inputs] == [
        ["N1"], ["N2", "N3"], [], ["N4"]
    ]  # fmt: skip
    aircraft = recompute_aircraft(inputs).to_pylist()
    assert [(row["batch"], row["tailnum"]) for row in aircraft] == [
        (0, "N1"), (1, "N2"), (1, "N3"), (3, "N4")
    ]  # fmt: skip


def test_one_row_more_or_other_is_a_difference() -> None:
    table = pa.table({"x": [1, 2, 3]})
    assert compare("op", table, table).first_difference is None
    assert compare("op", table.slice(0, 2), table).first_difference == 2
    assert compare("op", pa.table({"x": [1, 5, 3]}), table).first_difference == 1
    assert compare("op", pa.table({"y": [1, 2, 3]}), table).first_difference == 0
