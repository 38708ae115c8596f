"""Executors of a real cluster are lost together, and the driver with them: each row comes once."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.fleets import diamond
from support.fleets.runs import WORKERS, FleetRun, fleet_run
from support.runs.counts import CRASH_FULL

pytest.importorskip("pyspark")
pytestmark = pytest.mark.crash


@pytest.mark.skipif(not CRASH_FULL, reason="at full size only: minutes of a real cluster")
def test_queries_come_back_one_by_one_also_under_another_driver(tmp_path: Path) -> None:
    dice = random.Random(1)
    with fleet_run(tmp_path) as run:
        run.await_all_running()
        run.await_notes(lambda notes: notes.of("counts").batch is not None, "nothing was counted")
        run.lose(2, dice)
        notes = run.await_notes(lambda notes: notes.situation.outage is not None, "no outage")
        assert notes.situation.outage is not None
        assert notes.situation.outage.running == ("parsed", "counts")

        run.kill_driver()
        run.feed()
        run.start_driver()
        again = run.fleet.read().situation.outage
        assert again is not None
        assert again.since_s == notes.situation.outage.since_s
        assert again.running == ("parsed", "counts")

        run.cluster.add_workers(1)
        notes = run.await_notes(
            lambda notes: notes.situation.outage is None or len(notes.situation.outage.running) > 2,
            "an executor that has come changed nothing",
        )
        assert notes.situation.outage is not None
        assert set(notes.situation.outage.running) == set(diamond.NAMES) - {"tall"}
        run.cluster.add_workers(1)
        run.await_all_running()
        diamond.await_all(run.folder, run.rows)
        run.stop_driver()


def correlated_failure(run: FleetRun, dice: random.Random) -> None:
    """Two or three machines, at a random moment; others come one by one, and things may go on."""
    for _ in range(dice.randint(0, 4)):
        run.feed()
    lost = dice.randint(2, WORKERS - 1)
    run.lose(lost, dice)
    if dice.random() < 0.4:
        run.kill_driver()
        run.feed()
        run.start_driver()
    come = 0
    while come < lost:
        run.feed()
        if dice.random() < 0.25 and len(run.cluster.workers) > 1:  # in the middle of the recovery
            run.lose(1, dice)
            lost += 1
        run.cluster.add_workers(1)
        come += 1
    run.await_all_running()


def test_correlated_failures_with_random_victims_moments_and_arrivals(
    tmp_path: Path, crash_count: Callable[[int, int], int], tally: Callable[[int], None]
) -> None:
    """The input is read row for row by all queries, whatever happens."""
    count = crash_count(0, 50)
    if not count:
        pytest.skip("in `make crash`")
    with fleet_run(tmp_path) as run:
        for number in range(count):
            correlated_failure(run, random.Random(number))
            if number % 10 == 9:
                diamond.await_all(run.folder, run.rows)
        diamond.await_all(run.folder, run.rows)
        run.stop_driver()
    tally(count)
