"""Compiles `faultshim.c` on demand, and says in Python what it is to do."""

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from support.paths import SUPPORT

SOURCE = SUPPORT / "disks" / "faultshim.c"
ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EFBIG", "EINTR")
KINDS = (*ERRORS, "short", "kill")


def library(source: Path = SOURCE) -> Path:
    """The shared object, compiled once for each source; skips where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip(f"no C compiler: {source.name} cannot be built")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cec-store-tests"
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / f"{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.so"
    if not target.exists():
        # Several test processes may do so at once; the rename makes one of them count.
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / "made.so"
            subprocess.run(
                [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", made, source,
                 "-ldl", "-lpthread"],
                check=True,
            )  # fmt: skip
            made.replace(target)
    return target


@dataclass(frozen=True)
class Order:
    """Which of the calls below a folder fails, and how."""

    kind: str
    at: int
    sticky: bool = False

    def environment(self, under: Path, log: Path) -> dict[str, str]:
        return {
            "FAULT_AT": str(self.at),
            "FAULT_KIND": self.kind if self.kind in ("short", "kill") else "error",
            "FAULT_ERRNO": str(getattr(errno, self.kind, 0)),
            "FAULT_STICKY": str(int(self.sticky)),
            "FAULT_UNDER": str(under),
            "FAULT_LOG": str(log),
        }

    def __str__(self) -> str:
        return f"call {self.at}, {self.kind} {'from then on' if self.sticky else 'once'}"


class Call(NamedTuple):
    """A line of the shim's log."""

    name: str
    result: str
    path: str
    size: int
    """Of the file when it was synced; -1 for other calls."""


def calls_in(log: Path) -> list[Call]:
    lines = [line.split(" ") for line in log.read_text().splitlines()]
    assert [int(line[0]) for line in lines] == list(range(len(lines)))
    return [Call(name, result, path, int(size)) for _, name, result, path, size in lines]


def was_killed(status: int) -> bool:
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL
