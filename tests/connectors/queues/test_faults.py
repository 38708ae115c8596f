"""The sink in Python, failing and dying at each step: no row is lost, none comes twice."""

import random
import time
from collections.abc import Callable
from pathlib import Path

from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from support.spark.exactly_once import assert_exactly_once
from support.spark.jobs import kill, run_job, start_job

JOB = "queue_job"


def assert_sound(folder: Path) -> None:
    assert_exactly_once(folder)
    found = verify_place(place_at(folder / "queue"), records=True)
    assert found.is_sound, found.faults


def test_failures_and_deaths_at_each_step_lose_and_double_nothing(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    rounds = crash_count(6, 220)
    *events, last = run_job(JOB, tmp_path, 120 + 20 * rounds, rounds=rounds)
    assert last == {"done": True}
    struck = [event for event in events if event["struck"]]
    assert len(struck) >= rounds * 0.6, events
    assert any(event["restarts"] for event in struck if event["phase"] == "commit")
    assert any(not event["restarts"] for event in struck if event["phase"] == "write"), "no retry"
    assert_sound(tmp_path)


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
    assert_sound(tmp_path)
