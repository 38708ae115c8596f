"""Machine of the connector: its variables, its programs, and a cache folder.

The log's files are `cec_store.storage.local`' business; nothing here touches a log.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cec_store.storage.caches import cache_path

Variables = Mapping[str, str]
VARIABLES = os.environ


def find_program(name: str, variables: Variables) -> Path | None:
    """The program that a shell with these variables would start."""
    path = shutil.which(name, path=variables.get("PATH", os.defpath))
    return Path(path) if path else None


def run_program(
    command: Sequence[str | Path], timeout_s: float, variables: Variables | None = None
) -> tuple[int, str]:
    """Exit status and all output, in order; ``variables``: besides those of this process.

    Raises:
        OSError: it cannot be started.
        TimeoutError: it was killed after ``timeout_s``.
    """
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            env=None if variables is None else {**os.environ, **variables},
            text=True,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{command[0]} did not end within {timeout_s:g} s") from error
    return done.returncode, done.stdout


def become(command: Sequence[str], variables: Variables) -> None:
    """Run this program in place of this process, which ends; with these variables besides its own.

    Raises:
        ValueError: it cannot be started.
    """
    try:
        os.execvpe(command[0], list(command), {**os.environ, **variables})
    except OSError as error:
        raise ValueError(f"{command[0]}: cannot be started: {error.strerror}") from error


def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Run this program beside this process, which it outlives.

    Raises:
        ValueError: it cannot be started.
    """
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        raise ValueError(f"{command[0]}: cannot be started: {error.strerror}") from error


def cache_folder(variables: Variables) -> Path:
    """Return the folder of this user's compiled jars and wrappers; it can always be deleted."""
    return cache_path(variables) / "spark"


def publish(path: Path, data: bytes, mode: int = 0o644) -> Path:
    """Write a file so that others see all of it or none of it, however many write it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())  # after a power cut the name must not stand for no bytes
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path
