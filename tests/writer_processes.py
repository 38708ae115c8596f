"""Writers in processes of their own, to be stopped and killed."""

import json
import subprocess
import sys
from pathlib import Path


class Server:
    """`killed_writer.py`, which forks a writer a round."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("killed_writer.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip

    def send(self, **order: object) -> int:
        """Start a writer; returns its process id."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        return int(self.line().removeprefix("pid "))

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server died"
        return line

    def finish(self) -> tuple[int, int]:
        """How much the writer acknowledged, and its exit status."""
        acked = 0
        while not (line := self.line()).startswith("done"):
            acked = max(acked, int(line.removeprefix("acked ")))
        return acked, int(line.removeprefix("done "))

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
