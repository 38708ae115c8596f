"""Public names have an example in their docstring, and it does what it prints."""

import doctest
import importlib
import inspect
import re
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import cec_store
from cec_store import operators
from cec_store.connectors import spark as connector
from cec_store.connectors.spark import fleet as fleets
from cec_store.connectors.spark.executors.cluster import Cluster
from cec_store.errors import CecError
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Operator, Runner, record_schema
from cec_store.standby.leases import leases_of
from support.places.made_checkpoints import KEY, VALUE, MadeCheckpoint
from support.spark.driver_double import DriverDouble, event, executor, migration, partition, replica
from support.spark.session import put_back

# What has none: steps and effects are made by a runner and an operator, never by their users.
INNER = {"Step", "Effects"}
# Of `cec_store.connectors.spark`: what needs a Spark on the disk only, and what `cluster` gives.
WITHOUT_SESSION = ("conf", "jar")
ON_EXECUTORS = {
    "cluster": connector.cluster,
    **{f"Cluster.{name}": value for name, value in vars(Cluster).items()
       if inspect.isfunction(value) and not name.startswith("_")},
}  # fmt: skip
FLEETS = ("Fleet", "OnMissing", "Rules", "Shortage", "Sink", "Source")
"""Of `cec_store.connectors.spark.fleet` what needs no session."""
MOVING = ("adopt", "compare", "release", "repartition")
IN_SPARK = ("configure", "follow", "keep_alive", "prometheus", "register", "standby", *MOVING)
BIDS = pa.table(
    {
        "item": [1, 2, 1, 1],
        "price": [10, 7, 20, 30],
        "at": pa.array([1, 2, 3, 4], pa.timestamp("us")),
    }
)


def names() -> dict[str, Any]:
    """Of `cec_store` without its errors, which have a page of their own, and of its operators."""
    found = {name: getattr(cec_store, name) for name in cec_store.__all__ if name[0] != "_"}
    found |= {name: getattr(operators, name) for name in operators.__all__}
    return {
        name: value
        for name, value in found.items()
        if not (inspect.isclass(value) and issubclass(value, CecError)) and name not in INNER
    }


def averages() -> Aggregate:
    """Of each item's last two prices."""
    return Aggregate(
        group_by=["item"],
        aggregates={"mean": ("avg", "price")},
        window=CountWindow(2),
        input_schema=BIDS.schema,
    )


def output_of(operator: Operator) -> list[dict[str, Any]]:
    """Of the bids."""
    with cec_store.open_queue("output", "x", schema=record_schema(operator)) as queue:
        Runner(operator, [ArrowSource(BIDS, "at")] * operator.inputs, queue).run()
        found: list[dict[str, Any]] = queue.replay().read_all().to_pylist()
        return found


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the examples speak of, as docs/reference/python.md says."""
    monkeypatch.chdir(tmp_path)
    Path("queues").mkdir()
    rows = pa.table({"item": ["a", "b", "a"], "price": [10, 7, 20]})
    with cec_store.open_queue("queues/trades", "x", schema=rows.schema) as queue:
        noon_us = 1_767_268_800_000_000
        queue.append(rows, pa.array([noon_us + 60_000_000 * n for n in range(3)]), sync=True)
    with cec_store.open_queue("averages", "x", schema=record_schema(averages())) as queue:
        Runner(averages(), [ArrowSource(BIDS, "at")], queue).run()
    made = MadeCheckpoint(tmp_path / "checkpoint", KEY, VALUE, partitions=1)
    for batch in range(3):
        made.batch({("ann", 1): (batch + 1, "home")})
    made.close()
    return {
        **vars(operators), **names(), "pa": pa, "datetime": datetime, "timedelta": timedelta,
        "bids": BIDS, "source": ArrowSource(BIDS, "at"), "averages": averages,
        "output_of": output_of,
    }  # fmt: skip


def example_of(
    name: str, value: Any, given: dict[str, Any], folder: Path | None = None
) -> doctest.DocTest:
    """With `folder` its paths are below that: Spark's own processes stand in another one."""
    text = inspect.getdoc(value) or ""
    if folder is not None:
        text = re.sub(r'"(checkpoints|fleets|queues)/', rf'"{folder}/\1/', text)
    test = doctest.DocTestParser().get_doctest(text, given, name, inspect.getsourcefile(value), 0)
    assert test.examples, f"{name} has no example"
    return test


def check(test: doctest.DocTest) -> None:
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", sorted(names()))
def test_example(name: str, given: dict[str, Any]) -> None:
    check(example_of(name, names()[name], given))


# -- cec_store.connectors.spark --------------------------------------------------------------


@pytest.mark.skipif(find_spec("pyspark") is None, reason="no Spark on the disk")
@pytest.mark.parametrize("name", WITHOUT_SESSION)
def test_example_without_a_session(name: str) -> None:
    check(example_of(name, getattr(connector, name), {"spark": connector}))


@pytest.mark.parametrize("name", sorted(ON_EXECUTORS))
def test_example_on_executors(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a double of the driver's side: which executor has what is then as the page says."""
    monkeypatch.chdir(tmp_path)
    driver = DriverDouble(
        executors=[executor("0"), executor("1")],
        assignments=[partition(0, "0"), partition(1, "0")],
        replicas=[replica(0, "1"), replica(1, "1")],
        migrations=[migration(0, 1, "0", **{"from": "1"}, state="done", done_ms=3_000)],
    )
    driver.happened = [event(1, "executor_joined", "0")]
    session = driver.session()
    query = SimpleNamespace(awaitTermination=lambda: None)
    cluster = connector.cluster(session)
    given = {"spark": connector, "session": session, "cluster": cluster, "query": query}
    check(example_of(name, ON_EXECUTORS[name], given))
    ordered = {"Cluster.migrate": "move", "Cluster.place": "place", "Cluster.release": "release"}
    due = [ordered[name]] if name in ordered else []
    assert [words[0] for words in driver.ordered] == due
    assert (tmp_path / "cluster.json").exists() is (name == "Cluster.save")


def valid(sold: Any) -> Any:
    return sold.where("price > 0")


def dear(valid: Any) -> Any:
    return valid.where("price > 9")


@pytest.fixture
def shop(tmp_path: Path) -> fleets.Fleet:
    """A fleet of two queries, as the example of `Fleet` declares it, over a queue that is there."""
    queues = {name: str(tmp_path / "queues" / name) for name in ("sold", "valid", "dear")}
    rows = pa.table({"item": ["lamp", "chair"], "price": [30, -1]})
    with cec_store.open_queue(queues["sold"], "x", schema=rows.schema, partitions=2) as queue:
        queue.append(rows)
    fleet = fleets.Fleet(tmp_path / "fleets" / "shop")
    fleet.query("valid", valid, reads=[queues["sold"]], writes=queues["valid"])
    return fleet.query("dear", dear, reads=[queues["valid"]], writes=queues["dear"], priority=9)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("name", FLEETS)
def test_example_of_a_fleet(name: str, tmp_path: Path) -> None:
    given = {name: getattr(fleets, name) for name in FLEETS} | {"valid": valid, "dear": dear}
    check(example_of(name, getattr(fleets, name), given, tmp_path))


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    """The one that tests share, whose settings are afterwards what they were."""
    before = dict(spark.conf.getAll)
    yield spark
    put_back(spark, before)


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A query's first batch: in `old` on Spark's own state store, in `totals` on ours."""
    from support.spark.moves import Leg, go
    from support.spark.queries import QUERIES
    from support.spark.runs import Kept
    from support.spark.session import CEC, HDFS

    folder = tmp_path_factory.mktemp("ran")
    for name, provider in {"old": HDFS, "totals": CEC}.items():
        go(spark, QUERIES["aggregate_update"], folder / name, Kept(provider), [Leg(1)], False)
    return folder


@pytest.fixture
def given_in_spark(
    session: Any, ran: Path, given: dict[str, Any], tmp_path: Path
) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    from cec_store.connectors.spark.takeover.tenure import LEASE
    from support.spark.queries import QUERIES
    from support.spark.runs import Job, Kept, Run, start

    checkpoints = {name: tmp_path / "checkpoints" / name for name in ("old", "totals")}
    for name, path in checkpoints.items():
        shutil.copytree(ran / name / "checkpoint", path)
    leases_of(checkpoints["totals"]).hold(LEASE).release()

    def start_query() -> Any:
        job = Job(QUERIES["aggregate_update"], ran / "totals", Kept())
        return start(session, job, 0, range(1, 2), Run(checkpoints["totals"]))

    named = {"SparkSession": SparkSession, "spark": connector, "session": session}
    return {**given, **named, "start_query": start_query}


@pytest.mark.spark
@pytest.mark.parametrize("name", IN_SPARK)
def test_example_in_spark(name: str, given_in_spark: dict[str, Any], tmp_path: Path) -> None:
    from support.runs import minors

    if name in MOVING and not minors.HAS_MOVING:
        pytest.skip("moving needs Spark 4.2 or newer")
    check(example_of(name, getattr(connector, name), given_in_spark, tmp_path))


@pytest.mark.spark
def test_example_of_a_fleet_that_runs(session: Any, shop: fleets.Fleet) -> None:
    check(example_of("FleetDriver", fleets.FleetDriver, {"session": session, "fleet": shop}))
    assert set(shop.folder.read().queries) == {"valid", "dear"}


def test_every_name_of_the_connector_has_an_example() -> None:
    tested = {*WITHOUT_SESSION, *IN_SPARK, "cluster"}
    assert tested == set(connector.__all__)
    assert len(ON_EXECUTORS) == 12
    assert {*FLEETS, "FleetDriver"} == set(fleets.__all__)
    every = [*(getattr(connector, name) for name in tested), *ON_EXECUTORS.values()]
    every += [getattr(fleets, name) for name in fleets.__all__]
    assert [each for each in every if ">>>" not in (inspect.getdoc(each) or "")] == []


# -- the tests themselves --------------------------------------------------------------------


def test_an_example_that_prints_something_else_fails(given: dict[str, Any]) -> None:
    def wrong() -> None:
        """>>> 1 + 1
        3
        """

    with pytest.raises(AssertionError, match="Expected"):
        check(example_of("wrong", wrong, given))


def test_names_are_found() -> None:
    assert len(names()) > 50
    assert importlib.import_module("cec_store.connectors.spark") is connector
