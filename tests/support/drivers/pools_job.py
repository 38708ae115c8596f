"""Run by connectors/fleet/test_pools.py: who gets one core when it is shared out fairly."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa

from cec_store import PartitionedQueue, open_queue, read_queue
from cec_store.connectors.spark.fleet.driver import FleetDriver
from cec_store.connectors.spark.fleet.fleet import Fleet
from support.spark.session import stages_of, start_session
from support.spark.standalone import wait_for

ROWS = 6
ROWS_MAX = 2
"""Of a batch."""
DAYS_S = 1e6
NOTHING_COMES_S = 3.0
FAIR = {"spark.scheduler.mode": "FAIR"}


def served(session: Any, folder: Path, pools: list[str]) -> list[str]:
    """In which order jobs of these pools get the core, which all of them wait for."""
    folder.mkdir()
    context = session.sparkContext
    held, gone, free = folder / "held", folder / "served", folder / "free"
    # Not the stages: one is known before its tasks stand in line.
    queue = context._jsc.sc().taskScheduler().rootPool().getSortedTaskSetQueue

    def run(pool: str, work: Any) -> None:
        context.setLocalProperty("spark.scheduler.pool", pool)
        context.parallelize([pool], 1).foreach(work)

    def hold(_: str) -> None:
        held.touch()
        while not free.exists():
            time.sleep(0.05)

    def note(pool: str) -> None:
        with gone.open("a", encoding="utf-8") as file:
            file.write(pool + "\n")

    wait_for(lambda: queue().size() == 0, lambda: "the core is still taken")
    threads = []
    for pool, work in [("holder", hold), *((each, note) for each in pools)]:
        threads.append(Thread(target=run, args=(pool, work)))
        threads[-1].start()
        due = len(threads)
        wait_for(lambda due=due: queue().size() == due, lambda: "a job is missing")
        wait_for(held.exists, lambda: "nobody holds the core")
    free.touch()
    for thread in threads:
        thread.join()
    return gone.read_text(encoding="utf-8").splitlines()


@contextmanager
def copying(
    session: Any,
    folder: Path,
    *,
    in_turn: bool,
    every_s: float = 0.0,
    function: Callable[[Any], Any] = lambda rows: rows.select("v"),
) -> Iterator[tuple[PartitionedQueue, FleetDriver]]:
    """A fleet of one query, which has three batches to read."""
    folder.mkdir()
    fleet = Fleet(folder / "fleet")
    fleet.query(
        "copied", function, reads=[str(folder / "in")], every_s=every_s, priority=1,
        writes=str(folder / "out"), read_options={"maxOffsetsPerTrigger": str(ROWS_MAX)},
    )  # fmt: skip
    with open_queue(
        folder / "in", "x", schema=pa.schema([("v", pa.int64())]), partitions=1
    ) as into:
        into.append(pa.table({"v": list(range(ROWS))}))
        with fleet.start(session, period_s=0.2, in_turn=in_turn) as driver:
            yield into, driver
    assert session.sparkContext.getLocalProperty("spark.scheduler.pool") is None


def await_batch(driver: FleetDriver, number: int) -> None:
    wait_for(
        lambda: driver.notes.of("copied").batch == number,
        lambda: f"at batch {driver.notes.of('copied').batch}",
    )


def pools_of_a_fleet(session: Any, folder: Path, *, in_turn: bool) -> list[str]:
    """Pools of the stages of a query that has more to read than one batch may take."""
    before = {each.stageId() for each in stages_of(session)}
    with copying(session, folder, in_turn=in_turn) as (_, driver):
        await_batch(driver, ROWS // ROWS_MAX - 1)
    assert read_queue(folder / "out").read_all().num_rows == ROWS
    return [each.schedulingPool() for each in stages_of(session) if each.stageId() not in before]


def rows_by_one_trigger(session: Any, folder: Path, *, in_turn: bool, **how: Any) -> int:
    """Of those that are there when a query starts, and one that comes later, what it reads by the
    first of its triggers, which are days apart."""
    with copying(session, folder, in_turn=in_turn, every_s=DAYS_S, **how) as (into, driver):
        await_batch(driver, ROWS // ROWS_MAX - 1 if in_turn else 0)
        into.append(pa.table({"v": [ROWS]}))
        time.sleep(NOTHING_COMES_S)
    return read_queue(folder / "out").read_all().num_rows


def failing_once(rows: Any, mark: Path) -> Any:
    """The rows; the first task that gets to one of the second batch fails."""
    from pyspark.sql import functions as f

    def checked(v: int) -> int:
        if v == ROWS_MAX and not mark.exists():
            mark.touch()
            raise ValueError("once")
        return v

    return rows.select(f.udf(checked, "long")("v").alias("v"))


def main(order: dict[str, Any]) -> None:
    folder = Path(order["folder"])
    session = start_session("local[1]", **FAIR)
    pools = session._jvm.org.apache.spark.sql.cecstore.fleet.Pools
    context = session.sparkContext._jsc.sc()
    pools.arrange(context, ["first", "second", "third"])
    for query in ("third", "second", "first"):
        pools.enter(context, query, True)
    pools.leave(context)
    queued = ["second, behind", "first, behind", "third"]
    said: dict[str, Any] = {"served": served(session, folder / "one", queued)}
    pools.enter(context, "first", True)
    pools.leave(context)
    said["first anew"] = served(session, folder / "two", queued)
    pools.arrange(context, ["second", "first", "third"])
    said["arranged anew"] = served(session, folder / "three", queued)
    session.stop()
    for in_turn in (True, False):
        session = start_session("local[1]", **FAIR)
        place = folder / f"fleet-{in_turn}"
        said[str(in_turn)] = sorted(set(pools_of_a_fleet(session, place, in_turn=in_turn)))
        place = folder / f"days-{in_turn}"
        said[f"days {in_turn}"] = rows_by_one_trigger(session, place, in_turn=in_turn)
        if in_turn:
            once = partial(failing_once, mark=folder / "failed once")
            place = folder / "days, failed once"
            said[place.name] = rows_by_one_trigger(session, place, in_turn=True, function=once)
        session.stop()
    session = start_session("local[1]")
    said["days, first come"] = rows_by_one_trigger(session, folder / "days", in_turn=True)
    session.stop()
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
