"""The wheel on each Python that pyproject.toml names and that this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

MINORS = tuple(f"3.{minor}" for minor in range(10, 15))
_TIMEOUT_S = 1200
_SMOKE = """\
import datetime, importlib.metadata, pathlib, sys
import pyarrow as pa
import cec_store
assert "site-packages" in cec_store.__file__, cec_store.__file__
assert cec_store.__version__ == sys.argv[1], cec_store.__version__
rows = pa.table({"at": pa.array([datetime.datetime(2026, 1, 1)], pa.timestamp("us")), "n": [1]})
with cec_store.open_queue("queue", "x", schema=rows.schema, timestamp_column="at") as queue:
    queue.append(rows, sync=True)
print(cec_store.read_queue("queue").read_all().num_rows)
"""


class Outcome(NamedTuple):
    """Result of trying one thing."""

    subject: str
    text: str
    is_tried: bool
    is_sound: bool


def find(minor: str, versions: Path | None = None) -> Path | None:
    """Return an interpreter of this minor: one on the path that runs, or one of pyenv's."""
    root = versions or Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{minor}")
    candidates = [Path(on_path)] if on_path else []
    candidates += sorted(root.glob(f"{minor}.*/bin/python{minor}"))
    return next((path for path in candidates if _version(path) == minor), None)


def _version(program: Path) -> str | None:
    # One of pyenv's own programs stands for a Python that may not be switched on.
    command = [str(program), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def try_wheel(wheel: Path, version: str, minor: str, folder: Path) -> Outcome:
    """Install a wheel with the newest of its dependencies into an environment, and use it there."""
    subject = f"Python {minor}"
    python = find(minor)
    if python is None:
        return Outcome(subject, "not tried: this machine has none", False, True)
    folder.mkdir(parents=True)
    steps = (
        [str(python), "-m", "venv", "--clear", "venv"],
        ["venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         str(wheel.resolve())],
        ["venv/bin/python", "-c", _SMOKE, version],
        ["venv/bin/cec-store", "verify", "queue"],
    )  # fmt: skip
    for step in steps:
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S)
        if done.returncode:
            why = (done.stderr or done.stdout).strip().splitlines()[-1:]
            return Outcome(subject, f"failed at {' '.join(step[:4])}: {' '.join(why)}", True, False)
    return Outcome(subject, "installed; a row was appended, read and verified", True, True)


def faults(outcomes: Iterable[Outcome]) -> list[str]:
    """Return what failed; what was not tried is no fault, and is told."""
    return [f"{o.subject}: {o.text}" for o in outcomes if not o.is_sound]
