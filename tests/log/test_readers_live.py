"""Readers in other processes, next to a writer that appends, rolls and trims as fast as it can."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.processes.writer_processes import Server

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("sync", ["group", "none"])
def test_readers_see_a_growing_prefix(
    sync: str, tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    server = Server()
    path, seed, seconds = tmp_path / "queue", 77, crash_count(4, 60)
    child = server.send(
        path=str(path), seed=seed, round_seed=seed, frames_max=10**9, sync=sync,
        segment_bytes=30_000, takeover=False, trims=True,
    )  # fmt: skip
    assert server.line() == "acked 0\n"
    readers = [
        subprocess.Popen(
            [sys.executable, "-m", "support.processes.live_reader", str(path), str(seed),
             str(seconds), how],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for how in ("follow", "reopen")
    ]  # fmt: skip
    outputs = [reader.communicate(timeout=seconds + 60) for reader in readers]
    os.kill(child, signal.SIGKILL)
    acked, status = server.finish()
    server.close()
    assert status == signal.SIGKILL, "the writer failed by itself"
    for reader, (_, errors) in zip(readers, outputs, strict=True):
        assert reader.returncode == 0, errors
    followed, reopened = (json.loads(output) for output, _ in outputs)
    print(f"{sync}: {acked} frames acknowledged; followed {followed}; reopened {reopened}")
    assert acked > 20
    assert followed["frames"] > 20
    assert followed["segments"] > 2, "no roll was met: the test proves nothing"
    assert reopened["openings"] > 5
    assert reopened["frames"] > 5
