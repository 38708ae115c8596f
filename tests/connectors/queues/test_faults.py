"""Sinks that fail and die at each step, queues that are replaced: no row is lost, none twice."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from cec_store.connectors import spark as cec_spark
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.opening import open_queue
from support.models.replaced_queue import ReplacedQueue
from support.runs.counts import crash_count
from support.spark.exactly_once import assert_exactly_once
from support.spark.jobs import kill, run_job, start_job
from support.spark.jvm_queues import drain

JOB = "queue_job"
SCHEMA = pa.schema([("n", pa.int64())])
ROUNDS = crash_count(20, 200)


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


# -- queues that are removed, made anew or restored between the runs of a stream --


class Model(ReplacedQueue):
    """Queues of two partitions, to which other processes append."""

    def write(self) -> None:
        with open_queue(self.path, "a", schema=SCHEMA, partitions=2) as queue:
            for _ in range(self.random.randint(1, 4)):
                first, self.next = self.next, self.next + self.random.randint(1, 3)
                rows = list(range(first, self.next))
                queue.append(pa.table({"n": rows}))
                self.rows += rows

    def replace(self) -> str:
        """Put nothing, a new queue or an older copy in place of the queue, and maybe go on."""
        kind = self.random.choice(["remove", "anew", "restore", "restore", "nothing"])
        if kind != "nothing":
            shutil.rmtree(self.path)
            self.rows = []
        if kind == "restore":
            self.restore()
        if kind == "anew" or (kind != "remove" and self.random.random() < 0.6):
            self.write()
        return kind


@pytest.mark.crash
def test_streams_over_queues_replaced_at_random_lose_nothing_unsaid(
    spark: Any, tmp_path: Path
) -> None:
    """A run takes what is missing of the queue that is there, or it fails and changes nothing."""
    cec_spark.register(spark)
    random = Random(49)
    model, told = Model(tmp_path / "q", random), 0
    checkpoint, seen = tmp_path / "c", list[int]()
    model.write()
    model.copy()
    for turn in range(ROUNDS):
        more = {"startingOffsets": "earliest"}
        if random.random() < 0.5:
            more["maxOffsetsPerTrigger"] = "4"
        if random.random() < 0.3:
            more["consumer"] = "reader"
        kind = model.replace() if turn else "nothing"
        found, refusal = list[int](), ""
        try:
            found = [n for batch in drain(spark, model.path, checkpoint, **more) for n in batch]
        except Exception as error:  # as Spark has it; what is told of the queue is in its text
            refusal = str(error)
            told += 1
        if refusal:
            assert kind != "nothing", refusal
            assert str(model.path) in refusal
            # The query goes on from what is there once loss is allowed, and then as before.
            if not model.path.exists():
                model.write()
            drain(spark, model.path, checkpoint, failOnDataLoss="false", **more)
            seen = [*model.rows]
        else:
            seen += found
            assert sorted(seen) == sorted(model.rows), (turn, kind)
        model.write()
        seen += [n for batch in drain(spark, model.path, checkpoint, **more) for n in batch]
        assert sorted(seen) == sorted(model.rows), (turn, kind)
        if random.random() < 0.5:
            model.copy()
    assert told
