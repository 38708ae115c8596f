"""A standalone Spark cluster of this machine: a master, and workers with one executor each.

All are processes, of the process group of whoever starts them. Each worker has an address of its
own (127.0.0.2 and up), so that Spark tells them apart as it does machines. Workers are numbered in
the order in which they came; no number comes twice.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.java import prepare_variables
from support.spark import archive

DEADLINE_S = 120.0
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_URL = re.compile(r"spark://127\.0\.0\.1:\d+")
_REGISTERED = re.compile("Successfully registered with master")
_DAEMONS = {
    # Executors that a test kills are no reason to give up the application.
    "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
    "SPARK_WORKER_OPTS": "-Dspark.decommission.enabled=true",
    "SPARK_DAEMON_MEMORY": "192m",
}
DECOMMISSIONING = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "false",
    # An executor looks so often whether something is left to hand over, and ends when there is not.
    "spark.storage.decommission.replicationReattemptInterval": "1s",
}
"""An application's settings: executors that leave hand over what they hold of a shuffle."""


@dataclass(frozen=True)
class ExecutorProcess:
    executor_id: str
    pid: int
    worker: int


def wait_for(
    is_so: Callable[[], bool], what: Callable[[], str], deadline_s: float = DEADLINE_S
) -> None:
    """Look every few milliseconds until it is so.

    Raises:
        AssertionError: it is not within the deadline; says ``what`` is seen then.
    """
    end_s = time.monotonic() + deadline_s
    while not is_so():
        assert time.monotonic() < end_s, f"not within {deadline_s:g} s: {what()}"
        time.sleep(0.02)


class StandaloneCluster:
    """Starts with the master and so many workers; ``stop`` ends all of it at once."""

    def __init__(self, folder: Path, workers: int, *, executor_mb: int = 640) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.executor_mb = executor_mb
        self._started = 0
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._master = self._start("master", _MASTER, "127.0.0.1")
        try:
            self.url = self._await_log("master", self._master, _URL)
            self.add_workers(workers)
        except BaseException:
            self.stop()
            raise

    @property
    def workers(self) -> list[int]:
        return sorted(self._workers)

    def add_workers(self, count: int) -> list[int]:
        """Start so many at once, and wait until the master knows them."""
        added = list(range(self._started, self._started + count))
        self._started += count
        for number in added:
            host = f"127.0.0.{number % 250 + 2}"
            told = ["--cores", "1", "--memory", f"{self.executor_mb}m"]
            told += ["--work-dir", str(self.folder / f"work-{number}"), self.url]
            self._workers[number] = self._start(f"worker-{number}", _WORKER, host, *told)
        for number in added:
            self._await_log(f"worker-{number}", self._workers[number], _REGISTERED)
        return added

    def executors(self) -> list[ExecutorProcess]:
        """Those that run, by their numbers."""
        numbers = {process.pid: number for number, process in self._workers.items()}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                # Behind the name, which may have spaces and brackets, come state and parent.
                stat = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
                words = (folder / "cmdline").read_text("utf-8", "replace").split("\0")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended since
            number = numbers.get(int(stat[1]))
            if number is not None and any(word.endswith(_EXECUTOR) for word in words):
                executor_id = words[words.index("--executor-id") + 1]
                found.append(ExecutorProcess(executor_id, int(folder.name), number))
        return sorted(found, key=lambda each: int(each.executor_id))

    def kill_executor(self, executor: ExecutorProcess) -> None:
        """By SIGKILL; its worker starts another one."""
        os.kill(executor.pid, signal.SIGKILL)

    def decommission(self, number: int) -> None:
        """Tell a worker to leave: its executor takes no more tasks, and ends when it has none."""
        self._workers[number].send_signal(signal.SIGPWR)

    def await_left(self, number: int) -> None:
        """Until a worker that was told to leave has no executor any more; then the worker ends."""
        wait_for(
            lambda: all(each.worker != number for each in self.executors()),
            lambda: f"worker {number} has an executor: {self._tail(f'worker-{number}')}",
        )
        self.kill_worker(number)

    def kill_worker(self, number: int) -> None:
        """The worker and its executor, by SIGKILL, as when a machine goes down."""
        running = [each for each in self.executors() if each.worker == number]
        process = self._workers.pop(number)
        process.kill()
        process.wait()
        for each in running:
            try:
                os.kill(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it has seen the end of its worker first

    def stop(self) -> None:
        for number in self.workers:
            self.kill_worker(number)
        self._master.kill()
        self._master.wait()

    def _start(self, name: str, main: str, host: str, *words: str) -> subprocess.Popen[bytes]:
        variables = {**os.environ, **_DAEMONS, "SPARK_DAEMON_JAVA_OPTS": archive.submit_options()}
        # Said to the driver's JVM alone.
        variables.pop("SPARK_SUBMIT_OPTS", None)
        prepare_variables(variables)
        program = compiler.find_spark().jars.parent / "bin" / "spark-class"
        ports = ("--port", "0", "--webui-port", "0")
        with self._log(name).open("wb") as log:
            return subprocess.Popen(
                [program, main, "--host", host, *ports, *words],
                env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def _await_log(self, name: str, process: subprocess.Popen[bytes], text: re.Pattern[str]) -> str:
        found: list[str] = []

        def has_said() -> bool:
            assert process.poll() is None, f"{name} has ended: {self._tail(name)}"
            found.extend(text.findall(self._log(name).read_text("utf-8", "replace")))
            return bool(found)

        wait_for(has_said, lambda: f"{name} says {self._tail(name)}")
        return found[0]

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _tail(self, name: str) -> str:
        return self._log(name).read_text("utf-8", "replace")[-2000:]
