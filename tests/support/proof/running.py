"""Programs that are ended with all they have started once their time is over."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path


def run(
    command: list[str],
    log: Path,
    seconds: float,
    folder: Path,
    variables: Mapping[str, str] | None = None,
) -> int | None:
    """Run a program whose output goes to a file; with these variables besides those of here.

    Returns:
        The exit status; None of one that was ended.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True, env={**os.environ, **(variables or {})},
        )  # fmt: skip
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None
