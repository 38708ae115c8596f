"""One query of a fleet that is paused, resumed or restarted while the others run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cec_store.connectors.spark.fleet.driver import FleetDriver
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.fleet_folder import STOP, FleetFolder
from cec_store.connectors.spark.fleet.status import queries_of
from cec_store.errors import BadFleet, StorageError
from support.fleets import diamond
from support.fleets.engine_double import EngineDouble, QueryDouble, driver_of

COSTS = {"parsed": 1.0, "even": 0.5, "odd": 0.5, "counts": 0.4, "joined": 1.0, "tall": 0.6}
ALL = set(diamond.NAMES)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return diamond.with_empty_queues(tmp_path, COSTS)


def look(fleet: Fleet, driver: FleetDriver, now_s: float) -> None:
    driver.look(now_s, asked=fleet.folder.requests())


def test_a_query_that_is_paused_is_stopped_and_no_driver_starts_it(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    look(fleet, driver, 0.0)
    odd = engine.queries["odd"]
    fleet.pause("odd")
    look(fleet, driver, 10.0)
    assert odd.is_stopped
    assert engine.running() == ALL - {"odd"}
    paused = fleet.folder.requests().paused
    shown = {query.name: query.state for query in queries_of(driver.notes, True, 10.0, paused)}
    assert shown == {name: "paused" if name == "odd" else "running" for name in ALL}
    successor = EngineDouble(6)
    second = driver_of(fleet, successor, 20.0)
    second.look(20.0)
    assert successor.running() == ALL - {"odd"}
    fleet.resume("odd")
    look(fleet, second, 30.0)
    assert successor.running() == ALL
    assert successor.queries["odd"].checkpoint == odd.checkpoint


def test_a_query_stays_paused_through_a_recovery_and_its_room_is_kept(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    look(fleet, driver, 0.0)
    fleet.pause("parsed")
    engine.lose(0, 1, 2, 3)
    look(fleet, driver, 10.0)
    plan = driver.notes.situation.outage
    assert plan is not None
    assert "parsed" in plan.running
    assert "parsed" not in engine.running()
    engine.come("7", "8", "9", "10")
    look(fleet, driver, 20.0)
    assert driver.notes.situation.outage is None
    assert engine.running() == ALL - {"parsed"}


def test_a_restart_is_done_once(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    look(fleet, driver, 0.0)
    before = engine.queries["even"]
    fleet.restart("even")
    look(fleet, driver, 10.0)
    after = engine.queries["even"]
    assert before.is_stopped
    assert not after.is_stopped
    assert before.run_id != after.run_id
    assert before.checkpoint == after.checkpoint
    assert fleet.folder.requests().names == set()
    look(fleet, driver, 20.0)
    assert engine.queries["even"] is after


def test_a_query_that_failed_does_not_wait_longer_when_it_is_restarted(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    look(fleet, driver, 0.0)
    engine.refuses["odd"] = "no such column"
    engine.queries["odd"].fail("first")
    for at in range(1, 60):
        look(fleet, driver, at / 10)
    tried = engine.started.count("odd")
    del engine.refuses["odd"]
    look(fleet, driver, 6.0)
    assert engine.started.count("odd") == tried, "it waits by itself"
    fleet.restart("odd")
    look(fleet, driver, 6.1)
    assert engine.running() == ALL
    assert driver.notes.of("odd").failures.count == 0


def test_one_that_is_paused_stays_so_where_it_is_restarted(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    fleet.pause("tall")
    fleet.restart("tall")
    look(fleet, driver, 0.0)
    assert engine.running() == ALL - {"tall"}
    assert (fleet.folder.requests().paused, fleet.folder.requests().restarts) == ({"tall"}, set())


def looks_while_away(
    driver: FleetDriver,
    monkeypatch: pytest.MonkeyPatch,
    away: range,
    seen: Callable[[], object],
) -> list[object]:
    """Begin, and return what is seen at each of the driver's first looks at the folder; at those
    with these numbers, from 1 on, it cannot be read.
    """
    requests, looks = FleetFolder.requests, []

    def told(folder: FleetFolder) -> object:
        looks.append(seen())
        if len(looks) in away:
            raise StorageError("requests", "the disk is away")
        return requests(folder)

    with monkeypatch.context() as patched:
        patched.setattr(FleetFolder, "requests", told)
        driver.begin()
        while len(looks) < 6:
            assert not driver.wait(0.05)
    return looks


def test_a_folder_that_cannot_be_read_resumes_nothing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = EngineDouble(6)
    fleet.pause("tall")
    driver = driver_of(fleet, engine, 0.0)
    looks = looks_while_away(driver, monkeypatch, range(1, 4), engine.running)
    assert looks[1:6] == [ALL - {"tall"}] * 5
    fleet.folder.ask(STOP)
    assert driver.wait(60.0)


def test_what_was_carried_out_is_not_done_again_while_the_folder_cannot_be_read(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    fleet.restart("odd")
    fleet.pause("tall")
    looks = looks_while_away(driver, monkeypatch, range(2, 5), lambda: engine.started.count("odd"))
    assert looks[1:6] == [1] * 5
    assert engine.running() == ALL - {"tall"}
    fleet.folder.ask(STOP)
    assert driver.wait(60.0)


def test_a_request_that_is_made_while_an_earlier_one_is_carried_out_is_carried_out_too(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To stop a query may take as long as a batch."""
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    look(fleet, driver, 0.0)
    fleet.restart("odd")
    stop, asked = QueryDouble.stop, [True]

    def stop_for_long(query: QueryDouble) -> None:
        stop(query)
        if asked:
            asked.clear()
            fleet.restart("odd")

    monkeypatch.setattr(QueryDouble, "stop", stop_for_long)
    look(fleet, driver, 10.0)
    assert (engine.started.count("odd"), fleet.folder.requests().restarts) == (2, {"odd"})
    look(fleet, driver, 20.0)
    assert (engine.started.count("odd"), fleet.folder.requests().names) == (3, set())


def test_a_query_that_the_fleet_does_not_have_is_refused_by_name(fleet: Fleet) -> None:
    for call in (fleet.pause, fleet.resume, fleet.restart):
        with pytest.raises(BadFleet, match="no query 'od' in this fleet; it has parsed, "):
            call("od")
    assert fleet.folder.requests().names == set()
