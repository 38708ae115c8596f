"""The power of a real disk is cut under a writer at work, again and again, in recovery too."""

import time
from collections.abc import Callable, Iterator

import pytest

from support.disks.layered_disk import LayeredDisk
from support.disks.loop_disk import XFS_BYTES_MIN, LoopDisk, folder_in_memory, require_rig
from support.disks.power_cuts import SYNC_MODES, Cuts, Cuttable, left_of_unsynced
from support.processes.writer_processes import Server
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

ROUNDS = {"ext4": 2_500, "xfs": 500, "btrfs": 75}
"""Of each sync mode, at full size."""
QUICK_ROUNDS = {"ext4": 5, "xfs": 5, "btrfs": 2}
SIZES_BYTES = {"ext4": 64 << 20, "xfs": XFS_BYTES_MIN}


@pytest.fixture(scope="module", params=ROUNDS)
def disk(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cuttable]:
    """Btrfs cannot be shut down as the others can; its image is a file of a disk that can."""
    require_rig(request.param)
    with folder_in_memory(tmp_path_factory.mktemp("disk")) as folder:
        size_bytes = SIZES_BYTES.get(request.param)
        made: Cuttable = (
            LayeredDisk(folder, request.param)
            if size_bytes is None
            else LoopDisk(folder / "image", folder / "mounted", size_bytes, request.param)
        )
        yield made
        made.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.mark.parametrize("sync", SYNC_MODES)
def test_a_power_cut_keeps_what_was_acknowledged(
    sync: str, disk: Cuttable, server: Server, crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    rounds = crash_count(QUICK_ROUNDS[disk.kind], ROUNDS[disk.kind])
    cuts, began = Cuts(disk, server, sync, old_folder=False), time.monotonic()
    for _ in range(rounds):
        cuts.cut_once()
    tally(rounds)
    spent_s = time.monotonic() - began
    print(f"{sync}: {rounds} cuts, {cuts.recovered} recoveries had something to do, "
          f"{spent_s / rounds * 1000:.0f} ms a round")  # fmt: skip
    assert cuts.frames > 5, "hardly anything was written: the test proves nothing"


def test_the_cut_takes_what_was_not_synced(disk: Cuttable) -> None:
    """The rig itself: without this, the tests above would prove nothing."""
    assert left_of_unsynced(disk) == b"synced"
    assert not any(path.is_file() for path in disk.path.iterdir())
