"""The sink in a real Spark, failing and dying at each step: no row is lost, none comes twice."""

import random
import time
from collections.abc import Callable
from pathlib import Path

from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.log.selection import Selection
from cec_store.partitioned.partitions import Partitions
from cec_store.storage.local import LocalFolder
from cec_store.values import Position
from support.drivers.queue_job import ROWS_PER_FILE
from support.spark.jobs import kill, run_job, start_job

JOB = "queue_job"


def assert_exactly_once(folder: Path) -> None:
    files = len(list((folder / "in").glob("*.json")))
    queue = Partitions(LocalFolder(folder / "queue"))
    seen: set[tuple[int, int]] = set()
    for number, end in queue.ends().items():
        before = (-1, -1)
        for batch in queue.replay(number, Selection(Position(0), Position(end))):
            for row in zip(*(batch.column(n).to_pylist() for n in ("file", "row")), strict=True):
                assert row not in seen, f"{row} twice"
                assert row[0] != before[0] or row[1] == before[1] + 1, "not in order"
                seen.add(row)
                before = row
    assert len(seen) == files * ROWS_PER_FILE, "lost"
    assert not list((folder / "queue" / "staged").iterdir())
    found = verify_place(place_at(folder / "queue"), records=True)
    assert found.is_sound, found.faults


def test_failures_and_deaths_at_each_step_lose_and_double_nothing(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    rounds = crash_count(20, 220)
    *events, last = run_job(JOB, tmp_path, 60 + 10 * rounds, rounds=rounds)
    assert last == {"done": True}
    struck = [event for event in events if event["struck"]]
    assert len(struck) >= rounds * 0.6, events
    assert any(event["restarts"] for event in struck if event["phase"] == "commit")
    assert any(not event["restarts"] for event in struck if event["phase"] == "write"), "no retry"
    assert_exactly_once(tmp_path)


def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    generator = random.Random(3)
    for seed in range(crash_count(1, 30)):
        job = start_job(JOB, tmp_path, seed=seed, then="run")
        assert job.stdout is not None
        assert job.stdout.readline(), (tmp_path / "stderr").read_text()[-3000:]
        time.sleep(generator.random() * 3)
        kill(job)
    assert run_job(JOB, tmp_path, 120)[-1] == {"done": True}
    assert_exactly_once(tmp_path)
