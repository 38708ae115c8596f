"""Writers in processes of their own, to be stopped and killed, and what must be left of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from cec_store.log.chain import Chain
from cec_store.storage.local import LocalFolder
from support.processes.killed_writer import SCHEMA, batch_of


class Server:
    """`killed_writer` or another program that forks a writer a round."""

    def __init__(self, program: str = "killed_writer", **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"support.processes.{program}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            env={**os.environ, **environment},
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


def require_frames(path: Path, seed: int, at_least: int) -> int:
    """Every frame is what was appended under its number; returns the next number."""
    chain = Chain(LocalFolder(path))
    due = None
    for frame in chain.frames():
        seq = frame.header.seq
        assert due in (None, seq), f"frame {seq} where {due} is due"
        data = chain.records(frame).select(SCHEMA.data.names)
        assert data.equals(batch_of(seed, seq)), f"frame {seq} is not what was appended"
        due = seq + 1
    assert due in (None, chain.end.seq)
    assert chain.end.seq >= at_least, f"{chain.end.seq} frames, {at_least} were promised"
    return chain.end.seq
