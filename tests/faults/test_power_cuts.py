"""The power of a real disk is cut under a writer at work, again and again, in recovery too."""

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cec_store.log.epochs import newest_epoch
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.local import LocalFolder
from support.disks.loop_disk import XFS_BYTES_MIN, LoopDisk, folder_in_memory, require_rig
from support.processes.writer_processes import Server, require_frames
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

SYNC_MODES = ("commit", "group", "interval", "none")
ROUNDS_PER_QUEUE = 20
ROUNDS = {"ext4": 2_500, "xfs": 500}
"""Of each sync mode, at full size."""


SIZES_BYTES = {"ext4": 64 << 20, "xfs": XFS_BYTES_MIN}


@pytest.fixture(scope="module", params=SIZES_BYTES)
def disk(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LoopDisk]:
    require_rig(request.param)
    with folder_in_memory(tmp_path_factory.mktemp("disk")) as folder:
        size_bytes = SIZES_BYTES[request.param]
        made = LoopDisk(folder / "image", folder / "mounted", size_bytes, request.param)
        yield made
        made.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def writes_until_the_cut(disk: LoopDisk, server: Server, path: Path, seed: int, sync: str,
                         generator: random.Random) -> int:  # fmt: skip
    """How much was acknowledged by then."""
    child = server.send(
        path=str(path), seed=seed, round_seed=generator.random(), frames_max=400, sync=sync,
        segment_bytes=generator.choice((4_000, 40_000)), takeover=False, trims=seed % 2 == 1,
        quiet=True,
    )  # fmt: skip
    # By what it says and not by the clock, so that a slow machine gets as far. A quarter of them
    # are cut while they are still opening, which is to say in recovery.
    acked, said = 0, "acked 0"
    lines = 0 if generator.random() < 0.25 else generator.randrange(1, 8)
    for _ in range(lines):
        said = server.line()
        if said.startswith("done"):
            break
        acked = int(said.removeprefix("acked "))
    time.sleep(0.004 * generator.random())
    disk.cut_power()
    with suppress(ProcessLookupError):  # it may have been told already, and ended
        os.kill(child, signal.SIGKILL)
    return acked if said.startswith("done") else max(acked, server.finish()[0])


@pytest.mark.parametrize("sync", SYNC_MODES)
def test_a_power_cut_keeps_what_was_acknowledged(
    sync: str, disk: LoopDisk, server: Server, crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    rounds = crash_count(5, ROUNDS[disk.kind])
    base_seed = 700_000 + SYNC_MODES.index(sync) * 100_000
    generator = random.Random(base_seed)
    known = frames = recovered = 0
    began = time.monotonic()
    for number in range(rounds):
        seed = base_seed + number // ROUNDS_PER_QUEUE
        path = disk.path / str(seed)
        if number % ROUNDS_PER_QUEUE == 0:
            disk.clear()
            known = 0
        acked = writes_until_the_cut(disk, server, path, seed, sync, generator)
        disk.restart()
        known = max(known, acked)
        try:
            if newest_epoch(LocalFolder(path)) is None:
                assert known == 0, f"no queue is left, of which {known} frames were acknowledged"
                continue
            # Without the last note a reader may see less, until it has been opened for append.
            found = require_frames(path, seed, 0)
            if generator.random() < 0.5:
                with AppendableQueue(LocalFolder(path), "a") as queue:
                    recovered += queue.report.carried_frames + queue.report.torn_bytes > 0
                known = require_frames(path, seed, max(known, found))
            else:
                known = max(known, found)
            frames = max(frames, known)
        except Exception as error:
            saved = shutil.copytree(path, Path(tempfile.mkdtemp(prefix="cec-power-")) / "queue")
            raise AssertionError(
                f"{sync}, round {number}, seed {seed}: {error!r}\nits files: {saved}"
            ) from error
    tally(rounds)
    spent_s = time.monotonic() - began
    print(f"{sync}: {rounds} cuts, {recovered} recoveries had something to do, "
          f"{spent_s / rounds * 1000:.0f} ms a round")  # fmt: skip
    assert frames > 5, "hardly anything was written: the test proves nothing"


def test_the_cut_takes_what_was_not_synced(disk: LoopDisk) -> None:
    """The rig itself: without this, the tests above would prove nothing."""
    path = disk.path / "file"
    with open(path, "wb") as file:
        file.write(b"synced")
        file.flush()
        os.fsync(file.fileno())
        file.write(b"not synced")
        file.flush()
    disk.cut_power()
    disk.restart()
    assert path.read_bytes() == b"synced"
    disk.clear()  # a test that comes after this one, in whatever order, begins with an empty disk
    assert not path.exists()
