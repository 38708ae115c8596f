"""Spark drivers as processes of their own, to be killed: scripts that take an order as JSON."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def start_job(script: str, folder: Path, **order: Any) -> subprocess.Popen[str]:
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    text = json.dumps({"folder": str(folder), "rounds": 0, "seed": 1, "then": "stop", **order})
    with (folder / "stderr").open("a") as errors:
        return subprocess.Popen(
            [sys.executable, str(HERE / script), text],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def run_job(script: str, folder: Path, timeout_s: float, **order: Any) -> list[dict[str, Any]]:
    job = start_job(script, folder, **order)
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
