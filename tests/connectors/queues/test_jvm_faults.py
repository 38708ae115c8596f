"""The sink in the JVM, failing and dying at each call: no row is lost, none comes twice."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cec_store
from cec_store.ledger.ages import GRACE_US
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.queues.appendable_queue import now_us
from cec_store.storage.stores.local_store import LocalStore
from support.drivers.jvm_queue_job import JVM
from support.spark.exactly_once import assert_exactly_once
from support.spark.jobs import kill, run_job, start_job

JOB = "jvm_queue_job"
DEATHS = ("kill", "kill-after")


def unnamed(folder: Path) -> set[str]:
    path = folder / "queue"
    there = {f.relative_to(path).as_posix() for f in (path / "data").rglob("*.seg")}
    state = ReferenceQueue(LocalStore(path)).state
    named = set(state.live.column("file").to_pylist())
    assert named <= there
    return there - named


def test_calls_that_fail_lose_and_double_nothing(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    rounds, restarts, struck = crash_count(8, 220), 0, []
    done, seed = 0, 1
    while done < rounds:
        job = start_job(JOB, tmp_path, rounds=rounds - done, seed=seed)
        out, _ = job.communicate(timeout=60 + 10 * rounds)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        done += len(lines) + (job.returncode != 0)  # a death takes its round's line along
        restarts += job.returncode != 0
        struck += [line for line in lines if '"struck": true' in line]
        seed += 1
        assert job.returncode == 0 or seed < 3 * rounds, (tmp_path / "stderr").read_text()[-3000:]
    (tmp_path / "plan").unlink(missing_ok=True)
    assert run_job(JOB, tmp_path, 120)[-1] == {"done": True}
    assert restarts, "no death"
    assert len(struck) >= rounds * 0.3, struck
    assert_exactly_once(tmp_path)
    left = unnamed(tmp_path)
    assert left or rounds < 100, "no task has died between a segment and its commit"
    store = LocalStore(tmp_path / "queue")
    days_ago = {"data": 4, "log": 2}
    for folder, days in days_ago.items():
        for file in (tmp_path / "queue" / folder).rglob("*.*"):
            moment_s = time.time() - days * GRACE_US / 1e6
            os.utime(file, (moment_s, moment_s))
    with PartitionedQueue(store, "a", partitions=6, clock_us=now_us) as queue:
        assert left <= set(queue.clean())
    assert not unnamed(tmp_path)
    assert_exactly_once(tmp_path)


@pytest.mark.quick
def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    generator = random.Random(3)
    for seed in range(crash_count(1, 30)):
        job = start_job(JOB, tmp_path, seed=seed, then="run", queue=str(tmp_path / "queue"))
        assert job.stdout is not None
        assert job.stdout.readline(), (tmp_path / "stderr").read_text()[-3000:]
        time.sleep(generator.random() * 3)
        kill(job)
    assert run_job(JOB, tmp_path, 120, queue=str(tmp_path / "queue"))[-1] == {"done": True}
    assert_exactly_once(tmp_path)


def test_writers_that_race_lose_and_double_nothing(
    spark: Any, tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    """Threads of one JVM, and processes that write from Python."""
    path, each = tmp_path / "q", 5
    writers, processes = 5, crash_count(1, 10)
    schema = pa.schema([("n", pa.int64())])
    with cec_store.open_queue(path, "x", schema=schema, partitions=2):
        pass

    def write(number: int) -> None:
        for batch in range(each):
            first = 1000 * (each * number + batch)
            rows = spark.range(first, first + 1000, 1, 2).toDF("n")
            rows.write.format(JVM).mode("append").save(str(path))

    orders = [[str(path), str(1000 * each * (writers + n)), str(each)] for n in range(processes)]
    program = [sys.executable, "-m", "support.processes.reference_appends"]
    others = [subprocess.Popen([*program, *order]) for order in orders]
    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    assert [other.wait(300) for other in others] == [0] * processes
    found = cec_store.read_queue(path).read_all().column("n").to_pylist()
    assert sorted(found) == list(range(1000 * (writers + processes) * each))
    queue = ReferenceQueue(LocalStore(path))
    assert queue.state.number >= (writers + processes) * each
