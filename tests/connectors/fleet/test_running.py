"""A fleet on a real Spark: started, stopped, gone on with, gone back, forked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cec_store import read_queue
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.going_back import fork_fleet, roll_back
from cec_store.errors import LeaseHeld
from support.fleets import diamond
from support.spark.session import stages_of
from support.spark.standalone import wait_for

pytestmark = pytest.mark.usefixtures("unfenced")
PERIOD_S = 0.5


@pytest.fixture
def elsewhere_by_default(spark: Any) -> Iterator[None]:
    """A path without a scheme is for Spark one of an HDFS, as on a cluster of YARN."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    before = conf.get("fs.defaultFS")
    conf.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    yield
    conf.set("fs.defaultFS", before)


@pytest.mark.usefixtures("elsewhere_by_default")
def test_a_fleet_goes_on_where_it_was_is_forked_and_goes_back(spark: Any, tmp_path: Path) -> None:
    diamond.make_input(tmp_path)
    diamond.add_rows(tmp_path, 0, 60)
    fleet = diamond.declared(tmp_path)
    with fleet.start(spark, period_s=PERIOD_S):
        diamond.await_all(tmp_path, 60)
        with pytest.raises(LeaseHeld):
            fleet.start(spark)
        early = diamond.await_checkpoint(fleet, 60)
        assert {each.schedulingPool() for each in stages_of(spark)} >= set(diamond.NAMES)
    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") is None
    diamond.add_rows(tmp_path, 60, 60)
    with fleet.start(spark, period_s=PERIOD_S):
        diamond.await_all(tmp_path, 120)
    cost = fleet.folder.read().of("parsed").cost
    assert cost.cpu_s + cost.pending_cpu_s > 0
    sources = fleet.folder.read().of("joined").sources
    assert sorted(sources) == [str(tmp_path / name) for name in ("even", "odd")]

    # A runnable copy of the whole graph at that moment; the original is left alone.
    fork_fleet(fleet.folder, tmp_path / "forked", early)
    forked = {name: tmp_path / "forked" / "queues" / name for name in diamond.NAMES}
    assert diamond.got(forked)["parsed"] == diamond.wanted(60)["parsed"]
    with Fleet.at(tmp_path / "forked").start(spark, period_s=PERIOD_S):
        diamond.await_all(tmp_path, 120, forked)
    diamond.await_all(tmp_path, 120)

    notes = roll_back(fleet.folder, fleet.folder.read(), early, lambda: None)
    assert notes.generation == 1
    assert diamond.got(diamond.queues_of(tmp_path))["parsed"] == diamond.wanted(60)["parsed"]
    with fleet.start(spark, period_s=PERIOD_S) as driver:
        diamond.await_all(tmp_path, 120)
    assert driver.failure is None


def test_a_query_that_dies_in_a_batch_is_tried_again_and_the_others_go_on(
    spark: Any, tmp_path: Path
) -> None:
    """Until its rows can be processed, which is so once a file is there."""
    diamond.make_input(tmp_path)
    diamond.add_rows(tmp_path, 0, 10)
    mended = tmp_path / "mended"

    def dying(rows: Any) -> Any:
        v = "v" if mended.exists() else "cast(raise_error('no such v') as bigint) as v"
        return rows.selectExpr("k", v, "at")

    fleet = Fleet(tmp_path / "fleet", rules=diamond.RULES)
    for name, function in (("sound", diamond.tenfold), ("dying", dying)):
        places = {"reads": [str(tmp_path / "input")], "writes": str(tmp_path / name)}
        fleet.query(name, function, **places)
    with fleet.start(spark, period_s=PERIOD_S) as driver:
        wait_for(lambda: driver.notes.of("dying").failures.count >= 2, lambda: str(driver.notes))
        assert "no such v" in driver.notes.of("dying").failures.reason
        wait_for((tmp_path / "sound" / "log").exists, lambda: "the other has done nothing")
        mended.touch()
        wait_for(lambda: driver.notes.of("dying").batch is not None, lambda: str(driver.notes))
        assert driver.notes.of("dying").failures.count == 0
    assert driver.failure is None
    for name, times in (("sound", 10), ("dying", 1)):
        came = sorted(read_queue(tmp_path / name).read_all()["v"].to_pylist())
        assert came == [times * n for n in range(10)]
