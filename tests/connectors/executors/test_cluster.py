"""`spark.cluster` against documents of the driver side: what it tells, orders and refuses."""

import re
from typing import Any

import pytest

from cec_store.connectors import spark
from cec_store.connectors.spark.executors.events import KINDS
from cec_store.connectors.spark.executors.planning import planned
from cec_store.connectors.spark.executors.snapshot import parsed
from cec_store.connectors.spark.setup.compiler import SOURCES
from cec_store.errors import (
    MigrationFailed,
    MigrationRefused,
    MigrationRunning,
    NoSuchExecutor,
    NoSuchPartition,
    SparkUnavailable,
)
from cec_store.placement.plans import Rules
from support.spark.driver_double import (
    QUERY,
    DriverDouble,
    event,
    executor,
    migration,
    partition,
    replica,
)


def two_executors(**more: Any) -> DriverDouble:
    return DriverDouble(
        executors=[executor("0"), executor("1")],
        assignments=[partition(0, "0"), partition(1, "0")],
        replicas=[replica(0, "1")],
        **more,
    )


def test_what_people_see() -> None:
    driver = two_executors(
        migrations=[
            migration(
                0, 0, "1", state="done", located_ms=2_500, done_ms=3_000, version=17,
                is_from_replica=True, records_read=1_200, load_ms=7,
            )
        ]
    )  # fmt: skip
    driver.wanted = "2 replicas are asked for, and there is one other executor: one is kept"
    assert str(spark.cluster(driver.session())).splitlines() == [
        "2 replicas are asked for, and there is one other executor: one is kept",
        "",
        "executor  host       owns  replicas  MiB of replicas  of at most",
        "--------  ---------  ----  --------  ---------------  ----------",
        "       0  127.0.0.2     2         0              1.0        64.0",
        "       1  127.0.0.2     0         1              1.0        64.0",
        "",
        "query   operator  partition  version   rows  MiB  owner  takeover by",
        "------  --------  ---------  -------  -----  ---  -----  ----------------------------",
        "counts         0          0       17  1,000  3.0      0  1, after 1 version",
        "counts         0          1       17  1,000  3.0      0  anybody, who loads all of it",
        "",
        "query   operator  partition  from  to  protocol  state  cost",
        "------  --------  ---------  ----  --  --------  -----  "
        "---------------------------------------------------",
        "counts         0          0     0   1  cpal      done   "
        "7 ms for 1,200 records from a replica; 2.0 s in all",
    ]


def test_tables() -> None:
    driver = two_executors(migrations=[migration(0, 1, "1")])
    cluster = spark.cluster(driver.session())
    rows = cluster.partitions().to_pylist()
    assert [(row["partition"], row["replica"], row["replica_lag_versions"]) for row in rows] == [
        (0, "1", 1),
        (1, None, None),
    ]
    assert {row["query"] for row in rows} == {QUERY}
    assert cluster.moves().select(["partition", "target", "state"]).to_pylist() == [
        {"partition": 1, "target": "1", "state": "done"}
    ]


@pytest.mark.parametrize("query", ["counts", "4d0f1c52", QUERY])
def test_a_migration_is_waited_for_and_told(query: str) -> None:
    driver = two_executors()
    move = spark.cluster(driver.session()).migrate(query, 0, 1, to=1)
    assert (move.state, move.target, move.version) == ("done", "1", 18)
    assert driver.ordered == [("move", 1, "1", "cpal")]


def test_one_that_is_not_over_in_time_is_cancelled() -> None:
    driver = two_executors()
    driver.ends_as = {}
    with pytest.raises(MigrationFailed, match="does the query run batches"):
        spark.cluster(driver.session()).migrate("counts", 0, 1, to=1, wait_s=0.05)
    assert driver.ordered[-1] == ("cancel", 0)


def test_one_that_fails_says_why() -> None:
    driver = two_executors()
    driver.ends_as = {"state": "failed", "reason": "executor 1 is gone"}
    with pytest.raises(MigrationFailed, match="executor 1 is gone"):
        spark.cluster(driver.session()).migrate("counts", 0, 1, to=1)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("no_such_executor", NoSuchExecutor),
        ("no_such_partition", NoSuchPartition),
        ("migration_running", MigrationRunning),
        ("no_replica", MigrationRefused),
        ("draining", MigrationRefused),
        ("owns_it", MigrationRefused),
    ],
)
def test_refusals(kind: str, error: type[Exception]) -> None:
    driver = two_executors()
    driver.refusal = {"refused": kind, "message": "said so"}
    cluster = spark.cluster(driver.session())
    with pytest.raises(error, match="said so"):
        cluster.migrate("counts", 0, 1, to=7)
    assert driver.ordered == []


def test_protocols_and_queries_that_do_not_exist() -> None:
    driver = two_executors()
    cluster = spark.cluster(driver.session())
    with pytest.raises(ValueError, match="direct, cpa, cpal"):
        cluster.migrate("counts", 0, 1, to=1, protocol="fast")
    with pytest.raises(NoSuchPartition, match=r"no query 'sums' runs .* run: counts"):
        cluster.migrate("sums", 0, 1, to=1)
    assert driver.ordered == []


def test_sessions_without_plugin_or_provider() -> None:
    driver = two_executors()
    with pytest.raises(ValueError, match="HDFSBacked"):
        spark.cluster(driver.session(provider="HDFSBacked"))
    with pytest.raises(SparkUnavailable, match="replicas=1"):
        spark.cluster(driver.session(knows=False))
    driver.is_up = False
    with pytest.raises(SparkUnavailable, match="replicas=1"):
        spark.cluster(driver.session())
    with pytest.raises(SparkUnavailable, match="Connect"):
        spark.cluster(object())


def test_a_session_that_was_stopped() -> None:
    driver = two_executors()
    cluster = spark.cluster(driver.session())
    driver.is_up = False
    with pytest.raises(SparkUnavailable, match="stopped"):
        cluster.snapshot()


def cost(number: int, cpu_ns: int, **more: int) -> dict[str, Any]:
    sums = {"tasks": 2, "rows": 30, "bytes": 400, "written_bytes": 50, "memory_bytes": 600}
    key = {"query": QUERY, "operator": 0, "partition": number}
    return {**key, **sums, "cpu_ns": cpu_ns, **more}


def test_loads_are_a_table_of_what_was_spent_since_the_last_look() -> None:
    driver = two_executors()
    driver.loads, driver.others_ns = [cost(0, 10**9, tasks=1)], {"0": 10**9}
    cluster = spark.cluster(driver.session())
    assert cluster.loads().num_rows == 0
    driver.loads = [cost(0, 3 * 10**9, memory_bytes=700, written_bytes=90), cost(7, 10**9)]
    driver.others_ns = {"0": 10**9, "1": 5 * 10**8}
    partition_0, executor_1 = cluster.loads().to_pylist()
    assert partition_0 == {
        "query": QUERY, "operator": 0, "partition": 0, "executor": "0", "tasks": 1, "cpu_s": 2.0,
        "rows": 0, "shuffled_bytes": 0, "written_bytes": 40, "memory_bytes": 700,
        "state_bytes": 3 << 20,
    }  # fmt: skip
    assert {name: value for name, value in executor_1.items() if value is not None} == {
        "executor": "1", "cpu_s": 0.5,
    }  # fmt: skip
    assert cluster.loads().num_rows == 0


def test_what_an_executor_does_beside_its_partitions_counts_in_a_plan() -> None:
    """Two partitions that load 0.3 a second each fit on one core, but not beside another 0.5."""
    driver = DriverDouble(
        executors=[executor("0"), executor("1")],
        assignments=[partition(number, "0") for number in range(2)],
        replicas=[replica(number, "1") for number in range(2)],
    )
    rules = Rules(fills=False, scales=False)
    snapshot, cores = parsed({"wanted": None, **driver.lists}), {"0": 1.0, "1": 1.0}
    loads = {each.id: 0.3 for each in snapshot.partitions}
    assert planned(snapshot, loads, cores, rules).moves == ()
    [move] = planned(snapshot, loads, cores, rules, others={"0": 0.5, "gone": 9.0}).moves
    assert (move.source, move.target) == ("0", "1")
    assert planned(snapshot, loads, cores, rules, others={"0": 0.5, "1": 0.6}).moves == ()


def test_events_are_a_table() -> None:
    driver = two_executors()
    driver.happened = [
        event(3, "executor_lost", "1"),
        event(4, "move_done", "1", of=1, move=2, **{"from": "0"}),
    ]
    cluster = spark.cluster(driver.session())
    lost, done = cluster.events().to_pylist()
    assert lost == {
        "number": 3, "at_ms": 3_000, "kind": "executor_lost", "query": None, "operator": None,
        "partition": None, "executor": "1", "source": None, "move": None, "reason": "",
    }  # fmt: skip
    names = ("query", "operator", "partition", "source", "move")
    assert [done[name] for name in names] == [QUERY, 0, 1, "0", 2]
    driver.happened = []
    assert cluster.events().num_rows == 0
    driver.is_up = False
    with pytest.raises(SparkUnavailable, match="stopped"):
        cluster.events()


def test_kinds_of_events_are_those_of_the_driver() -> None:
    scala = (SOURCES / "replicas" / "History.scala").read_text(encoding="utf-8")
    states = re.findall(
        r'val \w+ = "(done|failed|cancelled)"',
        (SOURCES / "replicas" / "Migrations.scala").read_text(encoding="utf-8"),
    )
    named = {*re.findall(r'(?:add|told)\("(\w+)"', scala), "move_ordered"}
    named |= set(re.findall(r'told\("(\w+)", _\)', scala)) | {f"move_{state}" for state in states}
    assert named == set(KINDS)
    assert len(states) == 3


def test_rebalancing_gives_an_executor_that_joined_its_share() -> None:
    owners = [partition(number, "01"[number % 2]) for number in range(8)]
    driver = DriverDouble(
        executors=[executor("0"), executor("1"), executor("2", host="127.0.0.4")],
        assignments=owners,
    )
    cluster = spark.cluster(driver.session())
    plan = cluster.rebalance(dry_run=True)
    assert [str(each.target) for each in plan.moves] == ["2", "2"]
    assert driver.ordered == []
    cluster.rebalance()
    assert [(word, to, how) for word, _, to, how in driver.ordered] == [("move", "2", "cpal")] * 2
    assert len({number for _, number, _, _ in driver.ordered}) == 2
