"""An active standby holds output back on a disk: where that fails, the log alone is enough."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cec_store import DiskFull, Scheme, Standby, Targets, open_queue
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.queues.output_queue import OutputQueue
from cec_store.standby.followers.held_output import HeldOutputLost
from cec_store.storage.local import LocalFolder
from cec_store.storage.local_files import LocalFile

ROWS = 4_000
TABLE = pa.table(
    {
        "t": pa.array(np.arange(ROWS)).cast(pa.timestamp("us")),
        "k": np.arange(ROWS) % 7,
        "v": np.arange(ROWS),
    }
)
SOURCE = ArrowSource(TABLE, "t", batch_rows_max=500)
POLICY = Targets(extent_factor=2.0, extent_floor=1)


class Miscounting(Aggregate):
    """Has opened a window that the primary has not opened."""

    @property
    def open_windows(self) -> int:
        return super().open_windows + 1


def total(kind: type[Aggregate] = Aggregate) -> Aggregate:
    return kind(
        group_by=["k"],
        aggregates={"v": ("sum", "v")},
        window=CountWindow(3),
        input_schema=TABLE.schema,
    )


def output(queue: OutputQueue) -> list[dict[str, int]]:
    return pa.Table.from_batches(queue.replay()).to_pylist()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, int]]:
    with open_queue(
        tmp_path_factory.mktemp("whole") / "q", "a", schema=record_schema(total())
    ) as queue:
        Runner(total(), [SOURCE], queue, POLICY).run()
        return output(queue)


@pytest.fixture
def running(tmp_path: Path) -> Runner:
    """A healthy primary that has taken 1,000 rows of 4,000."""
    queue = open_queue(tmp_path / "q", "a", schema=record_schema(total()))
    runner = Runner(total(), [SOURCE], queue, POLICY, step_rows_max=500)
    take(runner, 2)
    return runner


def take(runner: Runner, steps: int) -> None:
    for step, _ in zip(runner._steps(runner._position), range(steps), strict=False):
        runner.step(step)
    runner.queue.sync()


@pytest.fixture
def primary(running: Runner) -> AppendableQueue:
    return running.queue


def standby_of(primary: AppendableQueue, held_folder: Path) -> Standby:
    return Standby(
        primary.folder.path, total, [SOURCE], "active", POLICY,
        held_bytes_max=1_000, held_folder=held_folder, step_rows_max=500,
    )  # fmt: skip


def takes_over_by_the_log(
    standby: Standby, expected: list[dict[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    with standby:
        taken = standby.take_over()
    assert taken.report.scheme is standby.scheme is Scheme.PASSIVE
    assert "goes on as a passive standby: output cannot be held back on disk" in caplog.text
    taken.runner.run()
    assert output(taken.queue) == expected
    taken.queue.close()


def test_a_folder_that_cannot_be_made(
    primary: AppendableQueue, tmp_path: Path, expected: list[dict[str, int]],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    (tmp_path / "held").write_text("a file")
    standby = standby_of(primary, tmp_path / "held")
    standby.follow()
    assert standby.scheme is Scheme.PASSIVE
    takes_over_by_the_log(standby, expected, caplog)


class Disk:
    """A disk with folders for held output, until it is full."""

    full_for: str | None = None

    def __init__(self, above: Path) -> None:
        self.above = above

    def folder(self, log_id: bytes, base: object) -> LocalFolder:
        return FolderOn(self)


class FolderOn(LocalFolder):
    def __init__(self, disk: Disk) -> None:
        super().__init__(disk.above / "one")
        self.disk = disk

    def create(self, name: str) -> LocalFile:
        file = super().create(name)
        for operation in ("write", "sync"):
            setattr(file, operation, self._unless_full(operation, getattr(file, operation)))
        return file

    def _unless_full(self, operation: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            if self.disk.full_for == operation:
                raise DiskFull(f"{self.path}: no space left on device")
            return real(*arguments)

        return call


@pytest.mark.parametrize(
    ("operation", "is_late"), [("write", False), ("sync", False), ("sync", True)],
    ids=["write meanwhile", "sync meanwhile", "sync at the takeover"],
)  # fmt: skip
def test_a_full_disk_is_noticed_before_the_primary_is_fenced(
    operation: str, is_late: bool, primary: AppendableQueue, tmp_path: Path,
    expected: list[dict[str, int]], caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    disk = Disk(tmp_path / "held")
    monkeypatch.setattr("cec_store.standby.standby.scratch_folder", disk.folder)
    standby = standby_of(primary, tmp_path)
    epochs: list[int] = []
    real = standby._become_passive

    def become_passive(error: HeldOutputLost) -> None:
        epochs.append(primary.chain().manifest.epoch)
        real(error)

    monkeypatch.setattr(standby, "_become_passive", become_passive)
    before = primary.chain().manifest.epoch
    while standby.follow():
        if not is_late:
            disk.full_for = operation
    disk.full_for = operation
    takes_over_by_the_log(standby, expected, caplog)
    assert epochs == [before]


def test_a_shadow_that_has_done_something_else_gives_way_to_the_log(
    running: Runner, expected: list[dict[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    makers = iter([total, lambda: total(Miscounting), total, total])  # the shadow's is the second
    path = running.queue.folder.path
    standby = Standby(path, lambda: next(makers)(), [SOURCE], "active", POLICY)
    while standby.follow():
        pass
    with standby:
        taken = standby.take_over()
    assert taken.report.scheme is Scheme.PASSIVE
    assert "the two have not done the same" in caplog.text
    taken.runner.run()
    assert output(taken.queue) == expected
    taken.queue.close()


def test_held_output_that_cannot_be_read_again(
    primary: AppendableQueue, tmp_path: Path, expected: list[dict[str, int]],
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    standby = standby_of(primary, tmp_path / "held")
    while standby.follow():
        pass
    assert standby._shadow is not None
    standby._shadow.held.sync()
    (segment,) = sorted((tmp_path / "held").glob("*/*.seg"))
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    segment.write_bytes(damaged)
    takes_over_by_the_log(standby, expected, caplog)
