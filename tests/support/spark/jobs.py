"""Spark drivers as processes of their own, to be killed: they take an order as JSON."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


def start_job(driver: str, folder: Path, **order: Any) -> subprocess.Popen[str]:
    text = json.dumps({"folder": str(folder), "rounds": 0, "seed": 1, "then": "stop", **order})
    with (folder / "stderr").open("a") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", f"support.drivers.{driver}", text],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def run_job(driver: str, folder: Path, timeout_s: float, **order: Any) -> list[dict[str, Any]]:
    job = start_job(driver, folder, **order)
    out, _ = job.communicate(timeout=timeout_s)
    assert job.returncode == 0, (folder / "stderr").read_text()[-3000:]
    # A JVM warns of what it does on the same output.
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def kill(job: subprocess.Popen[str]) -> None:
    """The driver and its JVM, at once; Python workers notice by themselves."""
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    assert job.stdout is not None
    job.stdout.close()
