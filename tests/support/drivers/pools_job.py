"""Run by connectors/fleet/test_pools.py: who gets one core when it is shared out fairly."""

import json
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from cec_store import open_queue, read_queue
from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.fleet.fleet import Fleet

ROWS = 6
DEADLINE_S = 120.0


def session_of() -> Any:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    return cec_spark.configure(builder.config("spark.scheduler.mode", "FAIR")).getOrCreate()


def stages(session: Any) -> list[Any]:
    none = session.sparkContext._gateway.new_array(session._jvm.double, 0)
    lists = session._jvm.java.util.ArrayList
    found = session.sparkContext._jsc.sc().statusStore().stageList(
        lists(), False, False, none, lists()
    )  # fmt: skip
    return [found.apply(each) for each in range(found.size())]


def await_so(is_so: Any) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def served(session: Any, folder: Path, pools: list[str]) -> list[str]:
    """In which order jobs of these pools get the core, which all of them wait for."""
    folder.mkdir()
    context = session.sparkContext
    before, gone, free = len(stages(session)), folder / "served", folder / "free"

    def run(pool: str, work: Any) -> None:
        context.setLocalProperty("spark.scheduler.pool", pool)
        context.parallelize([pool], 1).foreach(work)

    def hold(_: str) -> None:
        while not free.exists():
            time.sleep(0.05)

    def note(pool: str) -> None:
        with gone.open("a", encoding="utf-8") as file:
            file.write(pool + "\n")

    threads = []
    for pool, work in [("holder", hold), *((each, note) for each in pools)]:
        threads.append(Thread(target=run, args=(pool, work)))
        threads[-1].start()
        await_so(lambda: len(stages(session)) == before + len(threads))
    free.touch()
    for thread in threads:
        thread.join()
    return gone.read_text(encoding="utf-8").splitlines()


def pools_of_a_fleet(session: Any, folder: Path, *, in_turn: bool) -> list[str]:
    """Pools of the stages of a query that has more to read than one batch may take."""
    folder.mkdir()
    with open_queue(
        folder / "in", "x", schema=pa.schema([("v", pa.int64())]), partitions=1
    ) as into:
        into.append(pa.table({"v": list(range(ROWS))}))
    before = {each.stageId() for each in stages(session)}
    fleet = Fleet(folder / "fleet")
    fleet.query(
        "copied", lambda rows: rows.select("v"), reads=[str(folder / "in")],
        writes=str(folder / "out"), read_options={"maxOffsetsPerTrigger": "2"}, priority=1,
    )  # fmt: skip
    with fleet.start(session, period_s=0.2, in_turn=in_turn) as driver:
        await_so(lambda: (driver.notes.of("copied").batch or 0) == ROWS / 2 - 1)
    assert read_queue(folder / "out").read_all().num_rows == ROWS
    assert session.sparkContext.getLocalProperty("spark.scheduler.pool") is None
    return [each.schedulingPool() for each in stages(session) if each.stageId() not in before]


def main(order: dict[str, Any]) -> None:
    folder = Path(order["folder"])
    session = session_of()
    pools = session._jvm.org.apache.spark.sql.cecstore.fleet.Pools
    context = session.sparkContext._jsc.sc()
    for query in ("first", "second", "third"):
        pools.enter(context, query)
    pools.leave(context)
    queued = ["second, behind", "first, behind", "third"]
    said: dict[str, Any] = {"served": served(session, folder / "one", queued)}
    pools.enter(context, "first")
    pools.leave(context)
    said["first anew"] = served(session, folder / "two", queued)
    session.stop()
    for in_turn in (True, False):
        session = session_of()
        place = folder / f"fleet-{in_turn}"
        said[str(in_turn)] = sorted(set(pools_of_a_fleet(session, place, in_turn=in_turn)))
        session.stop()
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
