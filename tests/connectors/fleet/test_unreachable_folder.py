"""A fleet whose folder cannot be written for a moment: its driver goes on and writes later."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.fleet_folder import STOP
from cec_store.connectors.spark.fleet.missing import OnMissing, Shortage
from cec_store.errors import Fenced, StoreUnreachable
from support.fleets import diamond
from support.fleets.engine_double import EngineDouble, driver_of
from support.spark.standalone import wait_for

COSTS = {"parsed": 1.0, "even": 0.5, "odd": 0.5, "counts": 0.4, "joined": 1.0, "tall": 0.6}
ALL = set(diamond.NAMES)
AFTER_CORRELATED_FAILURE = {"parsed", "counts"}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return diamond.with_empty_queues(tmp_path, COSTS)


@pytest.fixture
def refuse(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Have the next version of the notes refused; True: though it has arrived."""
    store = fleet.folder._store
    create, refusals = store.create, list[bool]()

    def refusing(name: str, parts: Sequence[bytes]) -> None:
        if not name.startswith("notes/") or not refusals:
            create(name, parts)
            return
        if refusals.pop():
            create(name, parts)
        raise StoreUnreachable(f"{name}: it is not known whether it was made")

    monkeypatch.setattr(store, "create", refusing)
    return refusals.append


@pytest.mark.parametrize("has_arrived", [False, True])
def test_notes_that_are_refused_once_are_written_at_the_next_look(
    fleet: Fleet, refuse: Callable[[bool], None], has_arrived: bool
) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    refuse(has_arrived)
    driver.look(10.0)
    assert engine.running() == ALL
    driver.look(10.1)
    assert fleet.folder.read() == driver.notes
    assert driver.notes.written_s == 10.1


def test_a_plan_that_cannot_be_written_is_made_again_at_the_next_look(
    fleet: Fleet, refuse: Callable[[bool], None]
) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    engine.lose(1, 2, 3, 4)
    refuse(False)
    driver.look(10.0)
    assert engine.running() == ALL, "nothing is carried out that is not in the folder"
    driver.look(20.0)
    assert engine.running() == AFTER_CORRELATED_FAILURE
    outage = fleet.folder.read().situation.outage
    assert outage is not None
    assert outage.since_s == 20.0


def test_the_hook_is_not_run_before_its_run_is_noted(
    fleet: Fleet, refuse: Callable[[bool], None]
) -> None:
    shortages: list[Shortage] = []
    fleet._on_missing = OnMissing(call=shortages.append, after_s=10.0)
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    engine.lose(0)
    driver.look(1.0)
    refuse(False)
    driver.look(11.0)
    assert driver.notes.missing.asked_s is None
    driver.look(12.0)
    wait_for(lambda: bool(shortages), lambda: "it was not asked")
    assert fleet.folder.read().missing.asked_s == 12.0


def test_a_driver_that_cannot_note_its_end_has_stopped_as_asked(
    fleet: Fleet, refuse: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(request: str) -> None:
        raise StoreUnreachable(f"{request}: no answer")

    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    fleet.folder.ask(STOP)
    refuse(False)
    monkeypatch.setattr(fleet.folder, "withdraw", unreachable)
    driver.begin()
    assert driver.wait(60.0)
    assert engine.running() == set()
    assert not engine.lease.is_silent


def test_a_driver_that_another_has_taken_over_from_is_not_one_with_an_unreachable_folder(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = driver_of(fleet, EngineDouble(6), 0.0)
    driver.look(0.0)

    def fenced(*_: object) -> None:
        raise Fenced("another driver has taken over")

    monkeypatch.setattr(fleet.folder, "write", fenced)
    with pytest.raises(Fenced):
        driver.look(10.0)
