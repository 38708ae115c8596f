"""The adaptation manager, against documents of the driver side: when it acts, and only says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from cec_store.connectors import spark
from cec_store.connectors.spark.executors.planning import (
    SAMPLES_AVERAGED,
    placed,
    planned,
    recent_loads,
)
from cec_store.connectors.spark.executors.snapshot import PartitionId, parsed
from cec_store.placement.loads import LoadHistory
from cec_store.placement.plans import Rules
from support.spark.driver_double import QUERY, DriverDouble, executor, partition, replica

DEADLINE_S = 60.0


def group(number: int) -> PartitionId:
    return PartitionId(QUERY, 0, number)


def snapshot_of(driver: DriverDouble) -> Any:
    return parsed({"wanted": None, **driver.lists})


def await_so(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_an_overloaded_executor_is_relieved_to_where_a_replica_is() -> None:
    driver = DriverDouble(
        executors=[executor(name) for name in "012"],
        assignments=[partition(number, "0" if number < 2 else "2") for number in range(3)],
        replicas=[replica(0, "1"), replica(1, "2")],
    )
    loads = {group(0): 0.5, group(1): 0.5, group(2): 0.4}
    rules = Rules(fills=False, scales=False)
    plan = planned(snapshot_of(driver), loads, dict.fromkeys("012", 1.0), rules)
    assert [(each.group, each.target) for each in plan.moves] == [(group(0), "1")]


def test_an_executor_that_leaves_is_emptied_and_gets_nothing() -> None:
    driver = DriverDouble(
        executors=[executor("0", state="draining"), executor("1"), executor("2")],
        assignments=[partition(number, str(number % 3)) for number in range(6)],
    )
    plan = planned(snapshot_of(driver), {}, {}, Rules(scales=False))
    assert {each.group for each in plan.moves} == {group(0), group(3)}
    assert {each.target for each in plan.moves} <= {"1", "2"}


def test_replicas_go_where_load_falls_while_theirs_rises() -> None:
    """Partitions 0 and 1 vary together, and against 2 and 3."""
    driver = DriverDouble(
        executors=[executor(name) for name in "0123"],
        assignments=[partition(number, str(number)) for number in range(4)],
        replicas=[replica(number, str(number ^ 1)) for number in range(4)],
    )
    history = LoadHistory()
    for at in range(20):
        up, down = at / 20, 1 - at / 20
        history.add({group(0): up, group(1): up, group(2): down, group(3): down})
    found = {each.id: each.executors for each in placed(snapshot_of(driver), history, 1, 0.0)}
    assert set(found) == {group(number) for number in range(4)}
    for key, on in found.items():
        assert len(on) == 1
        assert (key.partition < 2) is (int(on[0]) >= 2)
    assert placed(snapshot_of(driver), history, 1, 100.0) == []


def test_no_more_replicas_are_placed_than_there_are_other_executors() -> None:
    driver = DriverDouble(
        executors=[executor("0"), executor("1"), executor("2", state="draining")],
        assignments=[partition(0, "0"), partition(1, "1")],
    )
    history = LoadHistory()
    history.add({group(0): 1.0, group(1): 1.0})
    found = placed(snapshot_of(driver), history, 3, 0.0)
    assert [(each.id, each.executors) for each in found] == [(group(0), ("1",)), (group(1), ("0",))]
    driver.lists["executors"] = [executor("0")]
    assert placed(snapshot_of(driver), history, 3, 0.0) == []


def test_replicas_leave_an_executor_that_drains_whatever_the_threshold() -> None:
    driver = DriverDouble(
        executors=[executor("0"), executor("1"), executor("2", state="draining")],
        assignments=[partition(0, "0"), partition(1, "1")],
        replicas=[replica(0, "2"), replica(1, "0")],
    )
    history = LoadHistory()
    history.add({group(0): 1.0, group(1): 1.0})
    found = placed(snapshot_of(driver), history, 1, 100.0)
    assert [(each.id, each.executors) for each in found] == [(group(0), ("1",))]
    # So they do where it is the adaptation that has freed it.
    driver.lists["executors"][2]["state"] = "alive"
    found = placed(snapshot_of(driver), history, 1, 100.0, freed={"2"})
    assert [(each.id, each.executors) for each in found] == [(group(0), ("1",))]
    assert placed(snapshot_of(driver), history, 1, 100.0) == []


def test_replicas_may_all_go_to_the_one_executor_that_suits_them() -> None:
    """Four partitions vary together, and against that of executor 4."""
    driver = DriverDouble(
        executors=[executor(name) for name in "01234"],
        assignments=[partition(number, str(number)) for number in range(5)],
    )
    history = LoadHistory()
    for at in range(20):
        up, down = 1 + at / 20, 2 - at / 20
        history.add({group(number): up if number < 4 else down for number in range(5)})
    found = {each.id: each.executors for each in placed(snapshot_of(driver), history, 1, 0.0)}
    assert [found[group(number)] for number in range(4)] == [("4",)] * 4


def test_one_busy_look_does_not_make_an_executor_overloaded() -> None:
    driver = DriverDouble(
        executors=[executor("0"), executor("1")],
        assignments=[partition(0, "0"), partition(1, "0"), partition(2, "1")],
    )
    snapshot, history = snapshot_of(driver), LoadHistory()
    rules = Rules(fills=False, scales=False)

    def moves_after(load: float) -> int:
        history.add({group(0): load, group(1): load, group(2): 0.1})
        loads = recent_loads(snapshot, history)
        return len(planned(snapshot, loads, dict.fromkeys("01", 1.0), rules).moves)

    found = [moves_after(load) for load in [0.2] * SAMPLES_AVERAGED + [0.6] * SAMPLES_AVERAGED]
    assert found[: SAMPLES_AVERAGED + 1] == [0] * (SAMPLES_AVERAGED + 1)
    assert found[-1] == 1


def joined() -> DriverDouble:
    return DriverDouble(
        executors=[executor("0"), executor("1")],
        assignments=[partition(number, "0") for number in range(4)],
    )


def test_a_dry_run_says_what_it_would_do_and_orders_nothing() -> None:
    driver, said = joined(), list[str]()
    cluster = spark.cluster(driver.session())
    with cluster.adapt(every_s=0.01, dry_run=True, say=said.append):
        await_so(lambda: len(said) >= 2)
    assert said[0].count("0 -> 1") == 2
    assert driver.ordered == []


def test_an_executor_that_joins_gets_its_share() -> None:
    driver, said = joined(), list[str]()
    with spark.cluster(driver.session()).adapt(every_s=0.01, say=said.append):
        await_so(lambda: len(driver.ordered) >= 2)
    assert {(word, to, how) for word, _, to, how in driver.ordered} == {("move", "1", "cpal")}
    assert said


def test_nothing_is_planned_while_something_moves() -> None:
    driver = joined()
    driver.ends_as = {}
    with spark.cluster(driver.session()).adapt(every_s=0.01, say=lambda _: None) as running:
        await_so(lambda: running.rounds >= 5)
    assert len(driver.ordered) == 2


def test_it_tells_what_is_idle_and_does_not_fill_it_again() -> None:
    driver = DriverDouble(
        executors=[executor("0"), executor("1")],
        assignments=[partition(number, str(number % 2)) for number in range(2)],
    )
    scaled: list[tuple[int, tuple[str, ...]]] = []
    adapting = spark.cluster(driver.session()).adapt(
        every_s=0.01,
        say=lambda _: None,
        on_scale=lambda more, freed: scaled.append((more, freed)),
    )
    with adapting as running:
        await_so(lambda: bool(scaled))
        [(_, number, to, _)] = [each for each in driver.ordered if each[0] == "move"][:1]
        driver.lists["assignments"][number]["owner"] = to
        rounds = running.rounds
        await_so(lambda: running.rounds >= rounds + 5)
    [(more, (freed,))] = scaled
    assert more == 0
    assert freed != to
    assert len(driver.ordered) == 1


def test_it_ends_with_its_session() -> None:
    driver = joined()
    with spark.cluster(driver.session()).adapt(every_s=0.01, say=lambda _: None) as running:
        driver.status = lambda: 1 / 0  # type: ignore[assignment, method-assign]
        await_so(lambda: running.failure is not None)
    assert isinstance(running.failure, ZeroDivisionError)


def test_looks_have_to_be_apart() -> None:
    with pytest.raises(ValueError, match="every_s"):
        spark.cluster(joined().session()).adapt(every_s=0)
