"""Runs a program of a benchmark in a process group of its own, which is gone at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.spark.archive import variables

TIMEOUT_S = 7_200


def run_apart(program: str, folder: Path, task: Mapping[str, Any]) -> Any:
    """Run a program on a task in a new folder; return what it leaves in place of the task.

    Raises:
        SystemExit: it has failed; says the end of its log.
    """
    folder.mkdir(parents=True)
    file = folder / "task.json"
    file.write_text(json.dumps(task, default=str))
    log = folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, program, str(file)],
            stdout=out, stderr=out, env=variables(), start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(TIMEOUT_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status:
        raise SystemExit(f"{task} failed, status {status}:\n{log.read_text()[-8000:]}")
    return json.loads(file.read_text())
