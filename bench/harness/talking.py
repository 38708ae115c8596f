"""Processes of a benchmark that say what they do: one JSON object a line, on standard output."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def say(**event: Any) -> None:
    """Say something as such a process."""
    print(json.dumps(event), flush=True)


class Talking:
    """A process that runs ``SCRIPT ROLE SETTINGS``, and what it says. Close it to kill it."""

    def __init__(self, script: Path, role: str, settings: dict[str, Any]) -> None:
        command = [sys.executable, str(script), role, json.dumps(settings)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def said(self) -> dict[str, Any]:
        """Wait for the next thing that it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a process of the benchmark has died")
        event: dict[str, Any] = json.loads(line)
        return event

    def rest(self) -> Iterator[dict[str, Any]]:
        """Yield what it says until it ends."""
        assert self.process.stdout is not None
        return map(json.loads, self.process.stdout)

    def read_bytes(self) -> int:
        """Return the bytes that it has read of files so far, those from the page cache included."""
        lines = Path(f"/proc/{self.process.pid}/io").read_text(encoding="ascii").splitlines()
        return int(lines[0].removeprefix("rchar: "))

    def close(self) -> None:
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
