"""The adaptation manager, against documents of the driver side: when it acts, and only says."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from cec_store.connectors import spark
from cec_store.connectors.spark.executors import adaptation
from cec_store.connectors.spark.executors.batch_loads import BatchLoads, OtherLoads
from cec_store.connectors.spark.executors.planning import Placing, crowded, placed, planned
from cec_store.connectors.spark.executors.snapshot import PartitionId, parsed
from cec_store.errors import PlacementRefused
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
    found = {each.id: each.executors for each in placed(snapshot_of(driver), history, 0.0)}
    assert set(found) == {group(number) for number in range(4)}
    for key, on in found.items():
        assert len(on) == 1
        assert (key.partition < 2) is (int(on[0]) >= 2)
    assert placed(snapshot_of(driver), history, 100.0) == []


def test_no_more_replicas_are_placed_than_there_are_other_executors() -> None:
    driver = DriverDouble(
        executors=[executor("0"), executor("1"), executor("2", state="draining")],
        assignments=[partition(0, "0"), partition(1, "1")],
    )
    history = LoadHistory()
    history.add({group(0): 1.0, group(1): 1.0})
    found = placed(snapshot_of(driver), history, 0.0)
    assert [(each.id, each.executors) for each in found] == [(group(0), ("1",)), (group(1), ("0",))]
    driver.lists["executors"] = [executor("0")]
    assert placed(snapshot_of(driver), history, 0.0) == []


def test_replicas_leave_an_executor_that_drains_whatever_the_threshold() -> None:
    driver = DriverDouble(
        executors=[executor("0"), executor("1"), executor("2", state="draining")],
        assignments=[partition(0, "0"), partition(1, "1")],
        replicas=[replica(0, "2"), replica(1, "0")],
    )
    history = LoadHistory()
    history.add({group(0): 1.0, group(1): 1.0})
    found = placed(snapshot_of(driver), history, 100.0)
    assert [(each.id, each.executors) for each in found] == [(group(0), ("1",))]
    # So they do where it is the adaptation that has freed it.
    driver.lists["executors"][2]["state"] = "alive"
    found = placed(snapshot_of(driver), history, 100.0, freed={"2"})
    assert [(each.id, each.executors) for each in found] == [(group(0), ("1",))]
    assert placed(snapshot_of(driver), history, 100.0) == []


def history_of_four_against_one() -> LoadHistory:
    history = LoadHistory()
    for at in range(20):
        up, down = 1 + at / 20, 2 - at / 20
        history.add({group(number): up if number < 4 else down for number in range(5)})
    return history


def driver_of_five(**more: Any) -> DriverDouble:
    return DriverDouble(
        executors=[executor(name) for name in "01234"],
        assignments=[partition(number, str(number)) for number in range(5)],
        **more,
    )


def loads_of(placings: Any, history: LoadHistory) -> dict[str, float]:
    """The load of each executor's replicas over the average over the five executors."""
    mean = {group(n): history.series([group(n)]).mean() for n in range(5)}
    loads = dict.fromkeys("01234", 0.0)
    for each in placings:
        for name in each.executors:
            loads[name] += mean[each.id] / sum(mean.values()) * 5
    return loads


def test_replicas_may_all_go_to_the_one_executor_that_suits_them() -> None:
    """Four partitions vary together, and against that of executor 4."""
    placings = placed(snapshot_of(driver_of_five()), history_of_four_against_one(), 0.0)
    found = {each.id: each.executors for each in placings}
    assert [found[group(number)] for number in range(4)] == [("4",)] * 4


@pytest.mark.parametrize(("spread", "moves"), [(1.1, 4), (2.0, 3), (3.0, 1), (5.0, 0)])
def test_a_spread_is_kept_whatever_the_threshold(spread: float, moves: int) -> None:
    history, driver = history_of_four_against_one(), driver_of_five()
    first = placed(snapshot_of(driver), history, 0.0, spread=spread)
    assert max(loads_of(first, history).values()) <= spread + 1e-6
    # All on executor 4 but its own: a threshold alone would leave them there.
    at_one = [replica(number, "4" if number < 4 else "0") for number in range(5)]
    driver = driver_of_five(replicas=at_one)
    assert placed(snapshot_of(driver), history, 100.0) == []
    moved = {each.id: each for each in placed(snapshot_of(driver), history, 100.0, spread=spread)}
    now = [moved.get(group(n), Placing(group(n), (at_one[n]["executor"],))) for n in range(5)]
    assert max(loads_of(now, history).values()) <= spread + 1e-6
    assert len(moved) == moves, "and no more of them move than have to"


def test_spreads_that_nothing_could_keep_are_refused_before_anything_runs() -> None:
    driver = DriverDouble(
        executors=[executor(name) for name in "0123"],
        assignments=[partition(number, "0") for number in range(2)],
    )
    cluster = spark.cluster(driver.session())
    for spread in (0.5, math.nan, -math.inf):
        with pytest.raises(PlacementRefused, match="give 1 or more"):
            cluster.adapt(spread=spread)
    with pytest.raises(
        PlacementRefused, match=r"at most 2 can have one of the 2 replicas.*2 times"
    ):
        cluster.adapt(spread=1.9)
    with pytest.raises(ValueError, match="threshold must be at least 0"):
        cluster.adapt(threshold=-0.1)
    assert driver.ordered == []
    cluster.adapt(spread=2.0, every_s=60.0).stop()
    # One executor owns all of them, so that three at most have replicas.
    driver.lists["assignments"] = [partition(number, "0") for number in range(9)]
    with pytest.raises(PlacementRefused, match=r"1\.33 times.*at least 1\.334"):
        cluster.adapt(spread=1.3)
    cluster.adapt(spread=4 / 3, every_s=60.0).stop()
    # Before the first batch nothing is known, and nothing refused.
    driver.lists["assignments"] = []
    cluster.adapt(spread=1.0, every_s=60.0).stop()


def test_loads_that_break_a_spread_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partition 0 alone loads more than twice the average."""
    driver = DriverDouble(
        executors=[executor(name) for name in "012"],
        assignments=[partition(number, str(number)) for number in range(3)],
        replicas=[replica(number, str((number + 1) % 3)) for number in range(3)],
    )
    history = LoadHistory()
    for _ in range(12):
        history.add({group(0): 0.9, group(1): 0.1, group(2): 0.1})
    assert crowded(snapshot_of(driver), history, math.inf) == {}
    assert crowded(snapshot_of(driver), history, 2.0) == {"1": pytest.approx(0.9 / 1.1 * 3)}
    monkeypatch.setattr(adaptation, "LoadHistory", lambda: history)
    said = list[str]()
    session = spark.cluster(driver.session())
    with session.adapt(every_s=0.01, spread=2.0, say=said.append) as running:
        await_so(lambda: running.rounds >= 5)
    assert said == [
        "spread 2 is not kept by these loads: of the average load of replicas executor 1 has 2.45"
    ]
    assert driver.ordered == []


OTHER = "4d0f1c52-0000-0000-0000-000000000002"


def test_each_query_has_as_many_replicas_as_it_asks_for() -> None:
    driver = DriverDouble(
        executors=[executor(name) for name in "0123"],
        assignments=[
            partition(0, "0", replicas_wanted=1),
            partition(1, "1", replicas_wanted=0),
            partition(0, "2", replicas_wanted=3, query=OTHER),
        ],
    )
    history = LoadHistory()
    history.add({group(0): 1.0, group(1): 1.0, PartitionId(OTHER, 0, 0): 1.0})
    found = {each.id: each.executors for each in placed(snapshot_of(driver), history, 0.0)}
    assert found.keys() == {group(0), PartitionId(OTHER, 0, 0)}
    assert len(found[group(0)]) == 1
    assert sorted(found[PartitionId(OTHER, 0, 0)]) == ["0", "1", "3"]


@pytest.mark.parametrize("state", ["loading", "no_room", "failing"])
def test_a_replica_that_is_not_warm_is_not_ordered_again_at_each_look(state: str) -> None:
    driver = DriverDouble(
        executors=[executor(name) for name in "012"],
        assignments=[partition(number, str(number)) for number in range(3)],
        replicas=[replica(number, str((number + 1) % 3), state=state) for number in range(3)],
    )
    history = LoadHistory()
    for at in range(20):
        history.add({group(0): 1.0, group(1): 1 + at / 100, group(2): 1.2 - at / 100})
    first = {each.id: each.executors for each in placed(snapshot_of(driver), history, 5.0)}
    if state == "loading":
        assert first == {}, "it is there, and nothing gains as much as the threshold asks for"
    for each in driver.lists["replicas"]:
        each["executor"] = first.get(group(each["partition"]), (each["executor"],))[0]
    assert placed(snapshot_of(driver), history, 5.0) == []


class Query:
    """A query on a clock of the test's own; each of its batches costs a partition so much."""

    def __init__(self, every_s: float, cpu_s: float, query: str = QUERY, owners: str = "01"):
        self.every_s, self.cpu_s, self.query = every_s, cpu_s, query
        self.partitions = [
            partition(number, owner, query=query, version=0) for number, owner in enumerate(owners)
        ]
        self.spent = {PartitionId(query, 0, n): 0.0 for n in range(len(owners))}

    def run_to(self, at_s: float) -> None:
        while (self.partitions[0]["version"] + 1) * self.every_s <= at_s:
            for each in self.partitions:
                each["version"] += 1
            for of in self.spent:
                self.spent[of] += self.cpu_s


def looked(batches: BatchLoads, at_s: float, *queries: Query) -> dict[Any, float] | None:
    for each in queries:
        each.run_to(at_s)
    lists = [one for each in queries for one in each.partitions]
    spent = {of: cpu_s for each in queries for of, cpu_s in each.spent.items()}
    idle = {each.query: str(at_s // 10) for each in queries if each.every_s == float("inf")}
    return batches.see(snapshot_of(DriverDouble(assignments=lists)), spent, at_s, idle)


@pytest.mark.parametrize("every_s", [0.5, 3.0, 60.0])
def test_a_load_counts_over_whole_batches_whatever_the_trigger(every_s: float) -> None:
    batches, query = BatchLoads(4), Query(every_s, 0.4 * every_s)
    measured_s = None
    for look in range(1, 400):
        looked(batches, 2.0 * look, query)
        if batches.is_measured:
            measured_s = measured_s or 2.0 * look
            assert batches.loads()[group(0)] == pytest.approx(0.4, rel=0.25)
        else:
            assert batches.loads() == {}
    assert measured_s is not None
    assert measured_s >= 5 * every_s - 2.0, "the first span begins with the end of a batch"


def test_nothing_is_measured_before_all_queries_have_had_their_batches() -> None:
    batches, fast, slow = BatchLoads(4), Query(1.0, 0.5), Query(100.0, 1.0, OTHER)
    samples = 0
    for look in range(1, 300):
        samples += looked(batches, 2.0 * look, fast, slow) is not None
        assert batches.is_measured is (look >= 250), look
        assert (group(0) in batches.loads()) is (look >= 4)
    assert samples == 4, "a span of each query in each"


def test_a_query_whose_triggers_have_no_batch_to_run_is_idle_and_not_unknown() -> None:
    """One that has never run a batch as well; Spark tells of such triggers every ten seconds."""
    batches, query, idle = BatchLoads(2), Query(10.0, 5.0), Query(float("inf"), 1.0, OTHER)
    for look in range(1, 30):
        looked(batches, 2.0 * look, query, idle)
    assert batches.is_measured
    assert batches.loads()[group(0)] == pytest.approx(0.5)
    assert batches.loads().get(PartitionId(OTHER, 0, 0)) == 0.0
    query.every_s = float("inf")
    for look in range(30, 50):
        looked(batches, 2.0 * look, query, idle)
    assert batches.loads()[group(0)] == 0.0
    assert batches.is_measured


def test_a_query_that_runs_its_first_batch_for_long_is_unknown_and_not_idle() -> None:
    batches = BatchLoads(2)
    for look in range(1, 100):
        looked(batches, 2.0 * look, Query(1e6, 1.0))
    assert not batches.is_measured


def test_a_query_that_begins_anew_is_measured_anew() -> None:
    batches, query = BatchLoads(2), Query(1.0, 0.5)
    for look in range(1, 10):
        looked(batches, 2.0 * look, query)
    assert batches.is_measured
    looked(batches, 20.0, Query(1000.0, 0.5))
    assert not batches.is_measured
    with pytest.raises(ValueError, match="min_batches=0"):
        BatchLoads(0)


def test_other_loads_are_means_over_the_newest_samples() -> None:
    others = OtherLoads(samples_max=3)
    others.see({"0": 5.0}, 10.0)
    assert others.loads() == {}
    for look in range(1, 6):
        others.see({"0": 5.0 + look, "1": 2.0 * look}, 10.0 + 4.0 * look)
    assert others.loads() == {"0": 0.25, "1": 0.5}
    others.see({"1": 12.0}, 34.0)
    assert others.loads() == {"1": 0.5}, "an executor that is told of no more has no load"
    others.see({"1": 99.0}, 34.0)
    assert others.loads() == {"1": 0.5}, "no time has passed"
    others.begin_anew()
    assert others.loads() == {}


def test_an_executor_whose_other_tasks_overload_it_is_relieved() -> None:
    driver = DriverDouble(
        executors=[executor("0"), executor("1")],
        assignments=[partition(number, str(number)) for number in range(2)],
    )
    rules = Rules(fills=False, scales=False, overload=0.8)
    cluster = spark.cluster(driver.session())
    with cluster.adapt(every_s=0.01, min_batches=1, rules=rules, say=lambda _: None) as running:
        began_s = time.monotonic()
        spent_ns = {"cpu_ns": 0}

        def a_batch() -> bool:
            """Executor 0 is busy with other tasks all the time, and with its partition a little."""
            now_ns = int(1e9 * (time.monotonic() - began_s))
            driver.others_ns = {"0": now_ns}
            spent_ns["cpu_ns"] += 10**6
            sums = {"tasks": 1, "rows": 0, "bytes": 0, "written_bytes": 0, "memory_bytes": 0}
            key = {"query": QUERY, "operator": 0}
            driver.loads = [{**key, **sums, **spent_ns, "partition": n} for n in range(2)]
            end_a_batch(driver)
            rounds = running.rounds
            await_so(lambda: running.rounds >= rounds + 2)
            return bool(driver.ordered)

        await_so(a_batch)
    assert driver.ordered[0] == ("move", 0, "1", "cpal")


def test_without_known_loads_no_executor_is_freed() -> None:
    driver = DriverDouble(
        executors=[executor(name) for name in "01"],
        assignments=[partition(number, str(number)) for number in range(2)],
    )
    snapshot, cores = snapshot_of(driver), dict.fromkeys("01", 1.0)
    assert planned(snapshot, {}, cores, Rules()).freed
    assert planned(snapshot, {}, cores, Rules(), may_free=False).freed == ()


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


@pytest.mark.parametrize("state", ["catching_up", "locating"])
def test_a_move_that_never_ends_is_cancelled_and_keeps_nothing_from_moving(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replica has no room at the target, say; one without a replica goes on there."""
    monkeypatch.setattr(adaptation, "MOVE_S", 0.2)
    driver = joined()
    driver.ends_as = {}
    with spark.cluster(driver.session()).adapt(every_s=0.01, say=lambda _: None) as running:
        await_so(lambda: len(driver.ordered) == 2)
        for move in driver.lists["migrations"]:
            move["state"] = state
        await_so(lambda: len([each for each in driver.ordered if each[0] == "cancel"]) >= 2)
        rounds = running.rounds
        await_so(lambda: running.rounds >= rounds + 3)
    first = [(each[1], each[2]) for each in driver.ordered[:2]]
    again = [
        (each[1], each[2]) for each in driver.ordered if each[0] == "move" and each[3] == "direct"
    ]
    assert again[:2] == (first if state == "catching_up" else [])


def end_a_batch(driver: DriverDouble) -> None:
    for each in driver.lists["assignments"]:
        each["version"] += 1


def test_it_frees_what_is_idle_after_whole_batches_and_tells_once_it_is_empty() -> None:
    driver = DriverDouble(
        executors=[executor("0"), executor("1")],
        assignments=[partition(number, str(number % 2)) for number in range(2)],
    )
    scaled: list[tuple[int, tuple[str, ...]]] = []
    adapting = spark.cluster(driver.session()).adapt(
        every_s=0.01,
        min_batches=3,
        say=lambda _: None,
        on_scale=lambda more, freed: scaled.append((more, freed)),
    )

    def await_looks(running: Any, count: int = 5) -> None:
        rounds = running.rounds
        await_so(lambda: running.rounds >= rounds + count)

    with adapting as running:
        await_looks(running, 20)
        for _ in range(3):
            end_a_batch(driver)
            await_looks(running)
        assert driver.ordered == [], "two whole batches are fewer than three"
        end_a_batch(driver)
        await_so(lambda: bool(driver.ordered))
        await_looks(running)
        assert scaled == [], "its partition has yet to move"
        [(_, number, to, _)] = [each for each in driver.ordered if each[0] == "move"][:1]
        driver.lists["assignments"][number]["owner"] = to
        await_so(lambda: bool(scaled))
        await_looks(running)
    [(more, (freed,))] = scaled
    assert more == 0
    assert freed != to
    assert {each[1] for each in driver.ordered} == {number}


def test_it_ends_with_its_session() -> None:
    driver = joined()
    with spark.cluster(driver.session()).adapt(every_s=0.01, say=lambda _: None) as running:
        driver.status = lambda: 1 / 0  # type: ignore[assignment, method-assign]
        await_so(lambda: running.failure is not None)
    assert isinstance(running.failure, ZeroDivisionError)


def test_looks_have_to_be_apart() -> None:
    with pytest.raises(ValueError, match="every_s"):
        spark.cluster(joined().session()).adapt(every_s=0)
