"""Consumers in processes of their own, killed and started again, beside a writer that trims."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cec_store import QueueOptions, open_queue

PROGRAM = "support.processes.consuming_process"
SCHEMA = pa.schema([("n", pa.int64())])


def start(path: Path, name: str, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", PROGRAM, str(path), name, str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def require_alive(child: subprocess.Popen[str]) -> None:
    if child.poll() is not None:
        _, error = child.communicate()
        raise AssertionError(f"a consumer ended by itself: {error}")


@pytest.mark.crash
def test_no_consumer_misses_a_record_beside_a_writer_that_trims(tmp_path, crash_count) -> None:
    rng, path = random.Random(5), tmp_path / "queue"
    options = QueueOptions(segment_bytes=20_000)
    trims = kills = number = first = 0
    with open_queue(path, "x", schema=SCHEMA, options=options, retention="consumers") as queue:
        children = {name: start(path, name, seed) for seed, name in enumerate("abc")}
        try:
            for child in children.values():
                assert child.stdout is not None
                assert child.stdout.readline() == "ready\n"
            kill_s = time.monotonic() + 1
            end_s = kill_s + crash_count(5, 60)
            # On a busy machine a consumer that was killed needs a while to come back.
            while time.monotonic() < end_s or (trims == 0 and time.monotonic() < end_s + 60):
                for _ in range(rng.randint(1, 20)):
                    size = rng.randint(1, 50)
                    batch = pa.record_batch({"n": np.arange(number, number + size)})
                    queue.append(batch)
                    number += size
                queue.sync()
                before, first = first, queue.trim()
                trims += first > before
                if kill_s < time.monotonic() < end_s:
                    kill_s = time.monotonic() + 1.5
                    name = rng.choice("abc")
                    require_alive(children[name])
                    children[name].kill()
                    children[name].communicate()
                    kills += 1
                    children[name] = start(path, name, number)
            for child in children.values():
                require_alive(child)
        finally:
            for child in children.values():
                child.kill()
                child.communicate()
        saved = {each.name: each.effects_saved for each in queue.consumers()}
        print(f"{number} records, {trims} trims, {kills} kills, saved {saved}")
        assert queue.chain().first_offset() <= min(saved.values())
    assert set(saved) == set("abc")
    # Little, but something.
    assert trims > 0
    assert kills > 1
