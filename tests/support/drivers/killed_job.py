"""A Spark driver that kills its own tasks, executors and queries: `killed_job ORDER`.

ORDER is JSON: `folder`, `query` (of `killed_queries`), `master`, `conf`, `provider` ("cec", or else
Spark's default one), `configure` (what `spark.configure` is told, if anything), `seed`, `rounds`
(names of functions in ROUNDS), `checkpoints` (a URL below which the checkpoint is, instead of in
the folder; `conf` says how to reach it), and `then`: "stop", or "run" for one that goes on until it
is killed. Says what it did on stdout, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.feather
from pyspark.sql import SparkSession

from support.drivers.killed_queries import QUERIES

CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # Half of the time of a query this short is compilation, by the JVM and by Spark.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
}
AWAIT_S = 300
ROUND_S_MAX = 0.8
"""Somewhat more than a batch takes."""
IN_COMMIT = re.compile(r"\b[\w.$]*(?:state|cecstore)\.[\w.$]*\.commit\(")
"""A frame of a stack: Spark's own stores are in `…streaming.state`, ours in `…sql.cecstore`."""
TASK = re.compile(r"Executor task launch worker .*\(TID (\d+)\)")


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def jvm_of(session: SparkSession) -> Any:
    """Return the JVM of a session, which is there as long as the session is."""
    return session._jvm


def start_session(order: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder.master(order["master"])
    for key, value in {**CONF, **order["conf"]}.items():
        builder = builder.config(key, value)
    if order["provider"] == "cec":
        from cec_store.connectors import spark

        builder = spark.configure(builder, **order.get("configure", {}))
    session = builder.getOrCreate()
    log = jvm_of(session).org.apache.logging.log4j
    # Says which tasks it runs a second time.
    scheduler = "org.apache.spark.scheduler.TaskSetManager"
    log.core.config.Configurator.setLevel(scheduler, log.Level.INFO)
    return session


class Job:
    """One query, started as often as it takes."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.folder = Path(order["folder"])
        self.shape = QUERIES[order["query"]]
        self.checkpoints = order.get("checkpoints")
        self.spark = start_session(order)
        self.context = self.spark.sparkContext
        self.written = -1
        self.again = 0
        (self.folder / "out").mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        frame = self.shape.make(self.spark, self.shape.rows)
        writer = frame.writeStream.outputMode(self.shape.mode).foreachBatch(self.write)
        place = str(self.folder / "checkpoint")
        if self.checkpoints:
            place = f"{self.checkpoints}/{self.folder.name}/checkpoint"
        self.query = writer.option("checkpointLocation", place).start()

    def write(self, frame: Any, batch: int) -> None:
        """Idempotent, and sees to it that a batch that is done again says the same."""
        table = frame.toArrow().sort_by([(name, "ascending") for name in self.shape.columns])
        path = self.folder / "out" / f"{batch:06d}.arrow"
        if path.exists():
            self.again += 1
            if not pyarrow.feather.read_table(path).equals(table):
                pyarrow.feather.write_feather(table, path.with_suffix(".other"))
                raise RuntimeError(f"batch {batch} came again, and different: {path}")
        part = path.with_suffix(".part")
        pyarrow.feather.write_feather(table, part)
        part.replace(path)
        self.written = batch

    def renewed(self) -> int:
        """Footprints written again, in the batches that Spark still has the progress of."""
        operators = [each for p in self.query.recentProgress for each in p.stateOperators]
        return sum(each.customMetrics.get("cecCheckRecordsWritten", 0) for each in operators)

    def await_batches(self, count: int) -> None:
        """Until so many more are written."""
        goal, end = self.written + count, time.monotonic() + AWAIT_S
        while self.written < goal:
            if not self.query.isActive:
                raise RuntimeError(f"the query died: {self.query.exception()}")
            if time.monotonic() > end:
                raise RuntimeError(f"no batch {goal} within {AWAIT_S} s: {self.query.status}")
            time.sleep(0.01)

    def tasks(self) -> list[tuple[Any, int]]:
        """Threads at work in this process, and the number of the task of each."""
        threads = jvm_of(self.spark).java.lang.Thread.getAllStackTraces().keySet().toArray()
        found = [(thread, TASK.match(thread.getName())) for thread in threads]
        return [(thread, int(match[1])) for thread, match in found if match]

    def task_in_commit(self) -> int:
        """Wait for a task that is committing state; its number."""
        text = jvm_of(self.spark).org.apache.commons.lang3.ArrayUtils.toString
        end = time.monotonic() + AWAIT_S
        while time.monotonic() < end:
            for thread, _ in self.tasks():
                # Ten looks before the list of threads is made anew: that takes far longer.
                for _ in range(10):
                    if IN_COMMIT.search(text(thread.getStackTrace())):
                        match = TASK.match(thread.getName())
                        if match:
                            return int(match[1])
        raise RuntimeError(f"saw no commit within {AWAIT_S} s")

    def kill_task(self, task: int) -> bool:
        return bool(self.context._jsc.sc().killTaskAttempt(task, True, "a test kills it"))


# -- rounds: each does one thing to the query, and leaves it running -------------------------------


def _pause(dice: random.Random) -> None:
    time.sleep(ROUND_S_MAX * dice.random())


def kill_task(job: Job, dice: random.Random) -> dict[str, object]:
    """A task at a random moment; Spark starts it again."""
    _pause(dice)
    end = time.monotonic() + AWAIT_S
    while time.monotonic() < end:
        tasks = job.tasks()
        if tasks and job.kill_task(dice.choice(tasks)[1]):
            return {"killed": 1}
    raise RuntimeError(f"no task to kill within {AWAIT_S} s")


def kill_commit(job: Job, dice: random.Random) -> dict[str, object]:
    """A task in the middle of its commit: it is interrupted, and started again."""
    _pause(dice)
    tries = 1
    while not job.kill_task(job.task_in_commit()):
        tries += 1  # it had ended by then
    return {"killed": 1, "tries": tries}


def cancel(job: Job, dice: random.Random) -> dict[str, object]:
    """All jobs of the query, every other time in the middle of a commit: the query dies."""
    _pause(dice)
    if dice.random() < 0.5 and str(job.context.master).startswith("local["):
        job.task_in_commit()
    end = time.monotonic() + AWAIT_S
    while job.query.isActive and time.monotonic() < end:
        job.context.cancelJobGroup(str(job.query.runId))
        time.sleep(0.02)
    reason = str(job.query.exception())
    if "ancel" not in reason:
        raise RuntimeError(f"died of something else: {reason}")
    job.start()
    return {"killed": 1}


def stop(job: Job, dice: random.Random) -> dict[str, object]:
    """The query, which interrupts whatever it is at."""
    _pause(dice)
    return {"killed": 1, "failed": stop_now(job)}


def stop_at_once(job: Job, dice: random.Random) -> dict[str, object]:
    """A few times in a row, while it is still loading its state."""
    failed = 0
    for _ in range(3):
        time.sleep(0.3 * dice.random())
        failed += stop_now(job)
    return {"killed": 1, "failed": failed}


def stop_now(job: Job) -> bool:
    """Stop and start again; whether Spark took its own interrupt for a failure, as it may."""
    job.query.stop()
    failure = job.query._jsq.exception()
    job.start()
    if not failure.isDefined():
        return False
    text = jvm_of(job.spark).org.apache.spark.util.Utils.exceptionString(failure.get())
    if "cecstore" in text or "came again" in text:
        raise RuntimeError(f"stop() made it fail: {text}")
    return True


def kill_executor(job: Job, dice: random.Random) -> dict[str, object]:
    """The process, of a cluster on this machine: same process group, another command line."""
    _pause(dice)
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        pid = int(path.parent.name)
        try:
            is_executor = b"CoarseGrainedExecutorBackend" in path.read_bytes()
            if is_executor and os.getpgid(pid) == os.getpgid(0):
                found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since
    if not found:
        raise RuntimeError("no executor runs")
    os.kill(dice.choice(found), signal.SIGKILL)
    return {"killed": 1, "of": len(found)}


def kill_python(job: Job, dice: random.Random) -> dict[str, object]:
    """A Python worker, in the middle of whatever it is at: a process that a daemon has made."""
    end = time.monotonic() + AWAIT_S
    while time.monotonic() < end:
        _pause(dice)
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
                lines = [(each / "cmdline").read_bytes() for each in (path, path.parent / parent)]
                is_worker = all(b"pyspark.daemon" in line for line in lines)
                # A daemon has a process group of its own.
                if is_worker and os.getsid(int(path.name)) == os.getsid(0):
                    found.append(int(path.name))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended since
        if found:
            os.kill(dice.choice(found), signal.SIGKILL)
            return {"killed": 1, "of": len(found)}
    raise RuntimeError(f"no Python worker within {AWAIT_S} s")


ROUNDS: dict[str, Callable[[Job, random.Random], dict[str, object]]] = {
    round_.__name__: round_
    for round_ in (kill_task, kill_commit, cancel, stop, stop_at_once, kill_executor, kill_python)
}


def main(order: dict[str, Any]) -> None:
    job = Job(order)
    job.await_batches(2)
    dice = random.Random(order["seed"])
    for name in order["rounds"]:
        found = ROUNDS[name](job, dice)
        job.await_batches(2)
        say(round=name, batch=job.written, **found)
    if order["then"] == "run":
        say(ready=job.written, again=job.again, renewed=job.renewed())
        while True:
            job.await_batches(1)
    job.query.stop()
    say(done=job.written, again=job.again, renewed=job.renewed())
    job.spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
