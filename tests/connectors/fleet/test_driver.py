"""A fleet's driver, its clock and its engine the test's own: who is started and stopped when."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest

from cec_store.connectors.spark.fleet import driver as driver_module
from cec_store.connectors.spark.fleet.driver import FleetDriver
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.fleet_folder import STOP
from cec_store.connectors.spark.fleet.status import message_of, queries_of
from cec_store.errors import Fenced
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.registrations import registered
from cec_store.storage.stores.local_store import LocalStore
from support.fleets import diamond
from support.fleets.engine_double import EngineDouble, driver_of

COSTS = {"parsed": 1.0, "even": 0.5, "odd": 0.5, "counts": 0.4, "joined": 1.0, "tall": 0.6}
ALL = set(diamond.NAMES)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return diamond.with_empty_queues(tmp_path, COSTS)


def test_queries_are_started_after_those_that_they_read(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver_of(fleet, engine, 0.0).look(0.0)
    order = engine.started.index
    assert engine.running() == ALL
    assert order("parsed") < min(order("even"), order("odd")) < order("joined") < order("tall")
    assert engine.queries["odd"].checkpoint == f"{fleet.folder.path}/queries/odd/0"


def test_queries_that_are_behind_are_served_in_the_order_of_the_plan(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    whole = ["parsed", "counts", "even", "odd", "joined", "tall"]
    assert engine.started == engine.arranged == whole
    engine.lose(1, 2, 3, 4)
    driver.look(10.0)
    assert engine.arranged == ["parsed", "counts"]
    engine.queries["parsed"].fail("once")
    driver.look(20.0)
    driver.look(30.0)
    assert engine.arranged == ["parsed", "counts"], "one that is started anew keeps its place"
    engine.come("8", "9", "10")
    driver.look(40.0)
    assert engine.arranged == list(driver.notes.situation.order) == whole
    taken_over = EngineDouble(6)
    again = driver_of(fleet, taken_over, 50.0)
    again.look(50.0)
    assert taken_over.started == taken_over.arranged == whole


def test_after_a_correlated_failure_what_the_plan_leaves_out_is_held_back(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    engine.lose(1, 2, 3, 4)
    driver.look(10.0)
    assert engine.running() == {"parsed", "counts"}  # 1.4 of 1.6
    assert all(engine.queries[name].is_stopped for name in ALL - engine.running())
    shown = {each.name: each for each in queries_of(driver.notes, True, 11.0)}
    assert shown["counts"].state == "running"
    assert (shown["joined"].state, shown["joined"].expected_s) == ("held back", None)
    assert shown["joined"].waits_for == "executors, as even, odd does"
    assert "the next one takes 2, 0.2 are left" in message_of(driver.notes)
    engine.come("8", "9")
    driver.look(20.0)
    assert engine.running() == {"parsed", "counts"}  # three cores would be 3.2 of 3.2 with joined
    engine.come("10")
    driver.look(30.0)
    assert engine.running() == ALL  # 4.0 of 4.0
    assert driver.notes.situation.outage is None


def test_a_driver_that_dies_in_the_middle_is_gone_on_from(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    engine.lose(1, 2, 3, 4)
    driver.look(10.0)
    # Its successor has executors of its own, and fewer at first.
    other = EngineDouble(0)
    other.come("a", "b")
    again = driver_of(fleet, other, 40.0)
    again.look(40.0)
    assert other.started == ["parsed", "counts"]
    assert again.notes.situation.outage == driver.notes.situation.outage
    other.come("c", "d", "e")
    again.look(50.0)
    assert other.running() == ALL


def test_what_the_last_holder_of_the_lease_has_noted_is_gone_on_with(fleet: Fleet) -> None:
    """A rollback may end while this driver waits for the lease."""
    driver_of(fleet, EngineDouble(6), 0.0).look(0.0)
    engine = EngineDouble(6)

    def go_back() -> None:
        fleet.folder.write(replace(fleet.folder.read(), generation=1))

    engine.on_entering = go_back
    driver = driver_of(fleet, engine, 10.0)
    driver.look(10.0)
    assert driver.notes.generation == fleet.folder.read().generation == 1
    assert engine.queries["odd"].checkpoint == f"{fleet.folder.path}/queries/odd/1"
    assert f"{fleet.folder.path}/queries/odd/1" in engine.discarded


def test_a_driver_that_cannot_begin_falls_silent(fleet: Fleet) -> None:
    """So that whoever watches the fleet tries again; one that was stopped lets go of its lease."""
    engine = EngineDouble(6)
    engine.executors = lambda: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(ZeroDivisionError):
        driver_of(fleet, engine, 0.0)
    assert engine.lease.is_silent


def test_a_queue_that_is_damaged_fails_its_readers_by_name_and_no_others(
    fleet: Fleet, tmp_path: Path
) -> None:
    for commit in (tmp_path / "parsed" / "log").glob("*/*"):
        commit.write_bytes(b"not a commit")
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    shown = {each.name: each for each in queries_of(driver.notes, True, 1.0)}
    readers = {"even", "odd", "counts"}
    assert engine.running() == ALL - readers
    for name in readers:
        assert shown[name].state == "failing"
        assert f"{tmp_path}/parsed/log" in shown[name].reason


def test_a_queue_whose_only_reader_was_removed_is_no_longer_kept_for_the_fleet(
    fleet: Fleet,
) -> None:
    driver_of(fleet, EngineDouble(6), 0.0)
    (queue,) = fleet.checked().reads("tall")
    consumers_before = consumers_of(queue)
    fewer = Fleet(fleet.folder.path)
    fewer._queries = [query for query in fleet._queries if query.name != "tall"]
    for start_s in (10.0, 20.0):
        driver_of(fewer, EngineDouble(6), start_s)
        assert (len(consumers_before), consumers_of(queue)) == (1, [])
    (kept,) = fewer.checked().reads("even")
    assert consumers_of(kept) == consumers_before


def consumers_of(queue: str) -> list[str]:
    return list(registered(ReferenceLog(LocalStore(queue)).open(), queue))


def test_fewer_executors_can_be_accepted_for_good(fleet: Fleet) -> None:
    driver_of(fleet, EngineDouble(6), 0.0).look(0.0)
    for accept, runs in ((False, {"parsed", "counts"}), (True, ALL)):
        engine = EngineDouble(2)
        driver_of(fleet, engine, 10.0, accept=accept).look(10.0)
        assert engine.running() == runs


def test_with_dynamic_allocation_a_fleet_begins_with_all_queries_and_without_executors(
    fleet: Fleet,
) -> None:
    """Spark starts executors for the tasks of queries that run."""
    driver_of(fleet, EngineDouble(6), 0.0).look(0.0)
    engine = EngineDouble(0)
    engine.is_dynamic = True
    driver = driver_of(fleet, engine, 10.0)
    driver.look(10.0)
    assert engine.running() == ALL
    assert driver.notes.situation.outage is None
    assert driver.notes.missing.since_s is None


def test_with_dynamic_allocation_one_query_runs_after_all_executors_are_lost(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    engine.is_dynamic = True
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    engine.lose(*range(6))
    for at_s in (10.0, 11.0):
        driver.look(at_s)
        assert engine.running() == {"parsed"}, "otherwise nobody asks Spark for executors"
    engine.come("7", "8")
    driver.look(20.0)
    assert engine.running() == {"parsed", "counts"}
    engine.come("9", "10", "11", "12")
    driver.look(30.0)
    assert engine.running() == ALL


def test_less_than_the_cheapest_query_takes_is_said_and_waited_for(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    engine.lose(1, 2, 3, 4, 5)
    driver.look(10.0)
    assert engine.running() == set()
    assert "the cheapest query takes 1.4, 0.8 are left" in message_of(driver.notes)
    engine.come("9")
    driver.look(20.0)
    assert engine.running() == {"parsed", "counts"}


def test_a_query_that_fails_again_and_again_waits_longer_and_the_others_go_on(
    fleet: Fleet,
) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    engine.refuses["odd"] = "no such column"
    engine.queries["odd"].fail("first")
    tried = []
    for at in range(1, 200):
        driver.look(at / 10)
        if engine.started[-1] == "odd" and len(engine.started) > 6 + len(tried):
            tried.append(at / 10)
    gaps = [later - earlier for earlier, later in pairwise(tried)]
    assert gaps == pytest.approx([0.4, 0.8, 1.6, 3.2, 6.4], abs=0.11)
    assert engine.running() == ALL - {"odd"}
    shown = {each.name: each for each in queries_of(driver.notes, True, 20.0)}
    assert (shown["odd"].state, shown["odd"].reason) == ("failing", "no such column")
    del engine.refuses["odd"]
    for at in range(20, 40):
        driver.look(float(at))
    engine.queries["odd"].does(1)
    driver.look(40.0)
    assert driver.notes.of("odd").failures.count == 0


def test_a_query_waits_for_a_queue_that_its_writer_has_not_made(tmp_path: Path) -> None:
    diamond.make_input(tmp_path)
    engine = EngineDouble(6)
    driver = driver_of(diamond.declared(tmp_path, COSTS), engine, 0.0)
    driver.look(0.0)
    assert engine.started == ["parsed"]
    shown = {each.name: each for each in queries_of(driver.notes, True, 1.0)}
    assert shown["even"].state == "waiting"
    assert shown["even"].waits_for == f"{tmp_path}/parsed, which its writer has not made yet"
    diamond.make_queue(tmp_path / "parsed")
    driver.look(1.0)
    assert engine.running() == {"parsed", "even", "odd", "counts"}


def test_costs_are_measured_while_queries_keep_up_and_kept_for_the_next_driver(
    tmp_path: Path,
) -> None:
    diamond.make_input(tmp_path)
    fleet = diamond.declared(tmp_path)
    engine = EngineDouble(2)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    for at in range(1, 20):
        engine.queries["parsed"].does(at)
        engine.cpu_s = {"parsed": 0.25}
        driver.look(float(at))
    cost = driver.notes.costs()["parsed"]
    assert cost == pytest.approx(0.25, rel=0.1)
    # What is caught up with later counts over all of the time that it came in.
    for at in range(20, 30):
        driver.look(float(at))
    engine.cpu_s = {"parsed": 2.5}
    driver.look(30.0)
    engine.queries["parsed"].does(31)
    driver.look(30.5)
    assert driver.notes.costs()["parsed"] == pytest.approx(0.25, rel=0.15)
    again = driver_of(diamond.declared(tmp_path), EngineDouble(2), 100.0)
    assert again.notes.costs() == driver.notes.costs()


def test_what_a_query_has_spent_before_it_failed_or_was_stopped_is_counted(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    engine.queries["parsed"].fail("once")
    fleet.pause("odd")
    engine.cpu_s = {"parsed": 5.0, "odd": 3.0}
    driver.look(1.0, asked=fleet.folder.requests())
    assert not {"parsed", "odd"} & engine.running()
    pending_cpu_s = {name: driver.notes.of(name).cost.pending_cpu_s for name in ("parsed", "odd")}
    assert pending_cpu_s == {"parsed": 5.0, "odd": 3.0}


def test_the_next_batch_of_an_idle_query_is_not_taken_for_done(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    engine.queries["odd"].idles(0)
    driver.look(1.0)
    assert driver.notes.of("odd").batch is None
    engine.queries["odd"].does(0)
    driver.look(2.0)
    engine.queries["odd"].idles(1)
    driver.look(3.0)
    assert driver.notes.of("odd").batch == 0
    engine.cpu_s = {"odd": 0.5}
    engine.queries["odd"].does(1)
    driver.look(4.0)
    assert driver.notes.of("odd").batch == 1
    assert driver.notes.of("odd").cost.caught_up_at_s == 4.0, "it was done, and is counted"


def test_losses_of_an_idle_fleet_that_are_an_hour_apart_are_not_correlated(tmp_path: Path) -> None:
    diamond.make_input(tmp_path)
    engine = EngineDouble(6)
    fleet = diamond.declared(tmp_path, COSTS, checkpoint_s=10.0)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    for hour, lost in enumerate((1, 2, 3, 4), 1):
        engine.lose(lost)
        driver.look(3600.0 * hour)
        driver.look(3600.0 * hour + 20.0)
    assert driver.notes.situation.outage is None
    engine.lose(0, 5)
    driver.look(20_000.0)
    assert driver.notes.situation.outage is not None


def test_a_clock_that_was_set_back_delays_neither_notes_nor_global_checkpoints(
    fleet: Fleet,
) -> None:
    driver = driver_of(fleet, EngineDouble(6), 10_000.0)
    driver.look(10_000.0)
    driver.look(12_000.0)
    before_us = driver.notes.checkpointed_us
    assert before_us is not None
    driver.look(8400.0)
    assert (driver.notes.checkpointed_us or 0) > before_us
    assert fleet.folder.read().written_s == 8400.0


def test_it_stops_all_when_it_is_asked_to(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    fleet.folder.ask(STOP)
    driver.begin()
    assert driver.wait(60.0)
    assert engine.running() == set()
    assert not engine.lease.is_held
    assert not fleet.folder.requests().is_stop_asked
    assert not any(each.is_active for each in fleet.folder.read().queries.values())


def test_a_query_that_does_not_stop_is_named_and_waited_for(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark waits for it without end, unless spark.sql.streaming.stopTimeout is set."""
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    is_told, stopped = Event(), engine.queries["odd"].stop

    def stop() -> None:
        assert is_told.wait(60.0)
        stopped()

    def warning(text: str, *values: object) -> None:
        if "has not stopped" in (message := text % values):
            assert "odd" in message
            is_told.set()

    engine.queries["odd"].stop = stop  # type: ignore[method-assign]
    monkeypatch.setattr(driver_module, "_STOP_TOLD_S", 0.01)
    monkeypatch.setattr(driver_module._log, "warning", warning)
    fleet.pause("odd")
    driver.look(1.0, asked=fleet.folder.requests())
    assert engine.running() == ALL - {"odd"}


def learn_of_a_takeover(fleet: Fleet, engine: EngineDouble, driver: FleetDriver) -> None:
    """It drives on, though another has taken over: it stops, and writes nothing."""
    before = fleet.folder.read()
    engine.lease.is_fenced = True
    driver.begin()
    with pytest.raises(Fenced):
        driver.wait(60.0)
    assert engine.running() == set()
    assert fleet.folder.read() == before


def test_one_that_lost_the_lease_before_it_began_takes_nothing_from_the_holder(
    fleet: Fleet,
) -> None:
    """It was stopped behind taking the lease: what the next driver was asked stays asked."""
    driver_of(fleet, EngineDouble(6), 0.0)
    before = fleet.folder.read()
    fleet.folder.ask(STOP)
    engine = EngineDouble(6)
    engine.lease.is_fenced = True
    with pytest.raises(Fenced):
        driver_of(fleet, engine, 10.0)
    assert engine.discarded == []
    assert fleet.folder.requests().is_stop_asked
    assert fleet.folder.read() == before


def test_one_that_was_taken_over_from_writes_no_notes_and_stops(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    learn_of_a_takeover(fleet, engine, driver)


def test_one_that_is_taken_over_from_during_a_look_writes_no_notes(fleet: Fleet) -> None:
    """It was stopped behind its look at the lease, and goes on when another has gone back."""
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    before = fleet.folder.read()

    def spent() -> dict[str, float]:
        engine.lease.is_fenced = True
        return {}

    engine.spent = spent  # type: ignore[method-assign]
    with pytest.raises(Fenced):
        driver.look(10.0)
    assert fleet.folder.read() == before


def test_one_that_was_taken_over_from_leaves_the_wish_to_stop_to_the_other(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)
    fleet.folder.ask(STOP)
    learn_of_a_takeover(fleet, engine, driver)
    assert fleet.folder.requests().is_stop_asked


def test_a_session_that_ends_is_told(fleet: Fleet) -> None:
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    engine.executors = lambda: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    driver.begin()
    with pytest.raises(ZeroDivisionError):
        driver.wait(60.0)
    assert not engine.lease.is_held
    assert engine.lease.is_silent


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_session_that_ends_with_its_driver_is_no_crash(fleet: Fleet, is_asked: bool) -> None:
    """A service manager sends its signal to the JVM as well."""
    engine = EngineDouble(6)
    driver = driver_of(fleet, engine, 0.0)
    driver.look(0.0)

    def gone() -> dict[str, float]:
        if is_asked:
            driver.end_soon()
        raise ConnectionError("the JVM is gone")

    engine.executors = gone  # type: ignore[method-assign]
    driver.begin()
    if is_asked:
        assert driver.wait(60.0)
    else:
        with pytest.raises(ConnectionError):
            driver.wait(60.0)
    assert engine.lease.is_silent is not is_asked
    assert not engine.lease.is_held
