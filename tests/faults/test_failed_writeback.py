"""A sync fails because the disk below the file system is full, which is when the kernel forgets.

ext4 on a thin image, which lies on a tmpfs with less room than the image says. After the failure
the page cache still shows what was written, a second sync would succeed, and after a restart the
bytes are zeros (fsyncgate).
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from cec_store import QueueOptions, open_queue
from cec_store.errors import StorageError
from support.disks.loop_disk import LoopDisk, mount, require_rig, unmount
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

TMPFS_BYTES, IMAGE_BYTES = 16 << 20, 48 << 20
COLUMNS = pa.schema([("x", pa.int64()), ("noise", pa.binary())])


class ThinDisk:
    """A loop disk with room for ``free_bytes`` more, until ``make_room``."""

    def __init__(self, folder: Path, free_bytes: int) -> None:
        self.is_open = True
        self._below = folder / "below"
        self._below.mkdir()
        mount("tmpfs", self._below, "tmpfs", f"size={TMPFS_BYTES},mode=700")
        try:
            self.disk = LoopDisk(self._below / "image", folder / "mounted", IMAGE_BYTES)
        except BaseException:
            unmount(self._below)
            raise
        self.disk.write_once_around_the_journal()
        facts = os.statvfs(self._below)
        self._filler = self._below / "filler"
        with open(self._filler, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, facts.f_bavail * facts.f_frsize - free_bytes)

    def make_room(self) -> None:
        self._filler.unlink()

    def close(self) -> None:
        self.is_open = False
        self.disk.close()
        unmount(self._below)


@pytest.fixture
def thin(tmp_path: Path) -> Iterator[Callable[[int], ThinDisk]]:
    require_rig()
    made: list[ThinDisk] = []

    def make(free_bytes: int) -> ThinDisk:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(ThinDisk(folder, free_bytes))
        return made[-1]

    yield make
    for disk in made:
        if disk.is_open:
            disk.close()


def batch(x: int) -> pa.RecordBatch:
    return pa.record_batch({"x": [x], "noise": [random.Random(x).randbytes(60_000)]}, COLUMNS)


def found_in(path: Path) -> int:
    """How many records, each of which is the one that was appended."""
    with open_queue(path, "a") as queue:
        count = 0
        for part in queue.replay():
            for row in range(part.num_rows):
                assert part.slice(row, 1).equals(batch(count)), f"record {count} is another one"
                count += 1
        return count


def appended_until_it_fails(path: Path, sync: str) -> tuple[int, int]:
    """So many acknowledged, and so many appended."""
    options = QueueOptions(sync=sync, segment_bytes=1 << 20)
    queue = open_queue(path, "a", schema=COLUMNS, options=options)
    acked = appended = 0
    with suppress(StorageError):
        while appended < 1_000:
            appended += 1
            queue.append(batch(appended - 1), sync=appended % 3 == 0)
            acked = appended if appended % 3 == 0 else acked
    assert appended < 1_000, "the disk is never full"
    with pytest.raises(StorageError):
        queue.append(batch(appended), sync=True)
    with pytest.raises(StorageError):
        queue.close()
    return acked, appended


def test_what_a_failed_sync_left_in_memory_is_written_again(
    thin: Callable[[int], ThinDisk], crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    again = refused = 0
    for number in range(crash_count(2, 200)):
        generator = random.Random(number)
        disk = thin(generator.randrange(1 << 20, 4 << 20))
        path = disk.disk.path / "queue"
        acked, appended = appended_until_it_fails(path, ("group", "none")[number % 2])
        disk.make_room()
        try:
            # The page cache still shows what the disk has not.
            found = found_in(path)
            assert acked <= found <= appended
            again += found > acked
        except StorageError:
            found = acked  # the file system itself has given up: it says no until it is restarted
            refused += 1
        disk.disk.restart()
        assert found <= found_in(path) <= appended, f"round {number}: lost after a restart"
        disk.close()
    tally(number + 1)
    print(f"{number + 1} failed syncs, {again} with more in memory than acknowledged, "
          f"{refused} file systems that gave up")  # fmt: skip
    assert again, "the page cache never showed more than the disk had: the test proves nothing"


def test_the_rig_forgets_as_the_kernel_does(thin: Callable[[int], ThinDisk]) -> None:
    """A second sync succeeds, the bytes are lost: else the test above would prove nothing."""
    disk = thin(1 << 20)
    path = disk.disk.path / "file"
    data = random.Random(0).randbytes(3 << 20)
    with open(path, "wb", buffering=0) as file:
        file.write(data)
        with pytest.raises(OSError, match=r"No space|Input/output"):
            os.fdatasync(file.fileno())
        os.fdatasync(file.fileno())
    assert path.read_bytes() == data
    disk.make_room()
    disk.disk.restart()
    assert path.read_bytes() != data
