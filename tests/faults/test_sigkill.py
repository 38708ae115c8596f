"""Real processes, killed with SIGKILL at random moments, on a real directory."""

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cec_store.log.epochs import newest_epoch
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.local import LocalFolder
from support.processes.writer_processes import Server, require_frames
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

SYNC_MODES = ("commit", "group", "interval", "none")
ROUNDS_PER_QUEUE = 20


TORN_ROUNDS: list[int] = []
"""Of each test that has run in this process."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def one_round(server: Server, path: Path, seed: int, round_seed: int, known: int, sync: str,
              trims: bool) -> tuple[int, int, bool]:  # fmt: skip
    """Start, kill, look, recover, look: frames there, bytes torn, and whether it was alive."""
    generator = random.Random(round_seed)
    in_opening = generator.random() < 0.2
    child = server.send(
        path=str(path), seed=seed, round_seed=round_seed, frames_max=400, sync=sync,
        segment_bytes=generator.choice((4_000, 40_000)), takeover=False, trims=trims,
    )  # fmt: skip
    if not in_opening:
        server.line()
    time.sleep(generator.choice((0.004, 0.03)) * generator.random())
    os.kill(child, signal.SIGKILL)
    acked, status = server.finish()
    assert status in (0, signal.SIGKILL), f"the writer failed by itself: status {status}"
    promised = max(known, acked)
    if newest_epoch(LocalFolder(path)) is None:
        assert promised == 0
        return 0, 0, status != 0
    shown = require_frames(path, seed, 0)
    with AppendableQueue(LocalFolder(path), "a") as queue:
        torn = queue.report.torn_bytes
    return require_frames(path, seed, max(promised, shown)), torn, status != 0


@pytest.mark.parametrize("sync", SYNC_MODES)
def test_sigkill_keeps_what_was_acknowledged(
    sync: str, server: Server, tmp_path: Path,
    crash_count: Callable[[int, int], int], tally: Tally,
) -> None:  # fmt: skip
    rounds = crash_count(130, 3_000)
    base_seed = SYNC_MODES.index(sync) * 100_000
    torn_rounds = killed = frames = known = 0
    began = time.monotonic()
    for number in range(rounds):
        seed = base_seed + number // ROUNDS_PER_QUEUE
        path = tmp_path / str(seed)
        known = 0 if number % ROUNDS_PER_QUEUE == 0 else known
        if number % ROUNDS_PER_QUEUE == 0 and number:
            shutil.rmtree(tmp_path / str(seed - 1))
        try:
            known, torn, alive = one_round(
                server, path, seed, base_seed + number, known, sync, trims=seed % 2 == 1
            )
        except Exception as error:
            saved = shutil.copytree(path, Path(tempfile.mkdtemp(prefix="cec-kill-")) / "queue")
            raise AssertionError(
                f"{sync}, round {number}, seed {seed}: {error!r}\nits files: {saved}"
            ) from error
        torn_rounds += torn > 0
        killed += alive
        frames = max(frames, known)
    tally(killed)
    spent_s = time.monotonic() - began
    print(f"{sync}: {rounds} rounds, {killed} killed at work, {torn_rounds} torn tails, "
          f"up to {frames} frames, {spent_s / rounds * 1000:.0f} ms a round")  # fmt: skip
    assert killed > rounds / 2, "most had ended by themselves: the test proves nothing"
    TORN_ROUNDS.append(torn_rounds)
    assert frames > 5, "hardly any frame was written: the test proves nothing"


def test_some_were_killed_inside_a_write() -> None:
    assert not TORN_ROUNDS or sum(TORN_ROUNDS) > 0, "the tests above prove nothing"


def test_enough_rounds() -> None:
    assert len(SYNC_MODES) * 130 >= 500
