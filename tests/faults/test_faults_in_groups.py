"""A call fails while frames wait for their sync: all that was handed over whole comes back."""

import errno
import threading
from collections.abc import Callable
from functools import cache

import pyarrow as pa
import pytest

from cec_store.errors import CecError, DiskFull, Poisoned
from cec_store.log.options import QueueOptions
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.names import claimed_epoch_of
from support.crashes.crash_states import schema
from support.disks.simulated_folder import Fault, SimulatedFolder, Snapshot
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

OPTIONS = QueueOptions(sync="group", group_max_wait_ms=60_000)
TRIM = 4
CHANGES = frozenset(
    {"create", "write", "sync", "close", "truncate", "rename", "unlink", "sync_names", "lock"}
)
FAULTS = {
    "EIO": (errno.EIO, False, frozenset[str]()),
    "ENOSPC": (errno.ENOSPC, False, CHANGES - {"unlink"}),
    "short": (errno.ENOSPC, True, frozenset({"write"})),
}


class Run:
    """Uses a queue in groups of frames, one record each, up to the first error."""

    def __init__(self, folder: SimulatedFolder, handed: int = 0, acked: int = 0) -> None:
        self.folder = folder
        self.handed = handed
        """So many frames have been written whole."""
        self.acked = acked
        self.trimmed = 0
        self.error: CecError | None = None

    def go(self) -> None:
        try:
            self.use(self.long)
            self.use(self.short)
        except CecError as error:
            self.error = error

    def use(self, work: Callable[[AppendableQueue], None]) -> None:
        queue = AppendableQueue(self.folder, "a", schema(), OPTIONS)
        pipeline = queue._pipeline
        assert pipeline is not None
        try:
            work(queue)
            queue.close()
            self.acked = pipeline.end.seq
        except CecError:
            require_no_more(queue)
            raise
        finally:
            self.handed = pipeline.writer.cursor.seq
            self.acked = max(self.acked, queue.durable_offset)

    def long(self, queue: AppendableQueue) -> None:
        self.group(queue, 2)
        queue.sync()
        self.acked = queue.end_offset
        self.group(queue, 3)
        queue.roll()
        self.acked = queue.end_offset
        self.group(queue, 2)
        queue.sync()
        self.acked = queue.end_offset
        self.trimmed = TRIM
        queue.trim(TRIM)
        self.group(queue, 2)

    def short(self, queue: AppendableQueue) -> None:
        self.group(queue, 2)
        queue.sync()

    @staticmethod
    def group(queue: AppendableQueue, frames: int) -> None:
        """Append, and wait until all is written, so that the calls come in the same order."""
        pipeline = queue._pipeline
        assert pipeline is not None
        for _ in range(frames):
            queue.append(pa.record_batch({"x": [queue.end_offset]}), pa.array([0]))
        pipeline.await_written()


def require_no_more(queue: AppendableQueue) -> None:
    """A queue whose writer has failed acknowledges nothing more."""
    pipeline = queue._pipeline
    assert pipeline is not None
    durable = pipeline.durable.seq
    if pipeline.failure is not None:
        with pytest.raises(Poisoned):
            queue.append(pa.record_batch({"x": [0]}), pa.array([0]))
        if durable < pipeline.end.seq:
            with pytest.raises(CecError):
                queue.sync()
    try:
        queue.close()
    except CecError:
        assert durable < pipeline.end.seq
    assert pipeline.failure is None or pipeline.durable.seq == durable


def after_the_worst_power_cut(folder: SimulatedFolder) -> SimulatedFolder:
    """Nothing is left but what was synced, and without a sync that failed."""
    disk = folder.snapshot()
    return SimulatedFolder(
        tuple((name, disk.files[number].durable) for name, number in sorted(disk.names.items()))
    )


def reopened(folder: SimulatedFolder) -> tuple[int, int, int]:
    """Open, look, append: first and end of what was found, and how many frames were carried."""
    with AppendableQueue(folder, "a", schema()) as queue:
        carried = queue.report.carried_frames
        chain = queue.chain()
        frames = list(chain.frames())
        first, found = chain.first_offset(), chain.end.offset
        assert [chain.records(f)["x"].to_pylist() for f in frames] == [
            [number] for number in range(first, found)
        ]
        newest = [f for f in frames if f.address.segment_id == chain.segments[-1]]
        assert len(newest) == carried, "the new segment holds what was written again"
        assert not [name for name in folder.names() if claimed_epoch_of(name) is not None]
    return first, found, carried


def check(run: Run) -> int:
    """What holds once the disk works again; returns how many frames were carried."""
    folder = run.folder
    assert not folder.open_files
    assert not folder.locks
    failed: set[int] = set()
    for operation, name, number in folder.trace:
        assert operation != "sync" or number not in failed, f"{name} is synced again"
        failed |= {number} if operation == "sync!" else set()
    _, found, _ = reopened(after_the_worst_power_cut(folder))
    assert run.acked <= found <= run.handed, f"{run.acked} acknowledged, {found} found"
    first, found, carried = reopened(folder)
    assert first <= run.trimmed
    assert found == run.handed, f"{run.handed} were written whole, {found} found"
    assert reopened(after_the_worst_power_cut(folder))[:2] == (first, found), "carried in vain"
    with AppendableQueue(folder, "a", schema(), OPTIONS) as queue:
        Run.group(queue, 1)
        queue.sync()
        assert queue.durable_offset == found + 1
    assert reopened(after_the_worst_power_cut(folder))[1] == found + 1
    return carried


@cache
def unclean() -> Snapshot:
    """Two frames acknowledged, two whole ones that are not, and half of a fifth."""
    folder = SimulatedFolder()
    queue = AppendableQueue(folder, "a", schema(), OPTIONS)
    Run.group(queue, 2)
    queue.sync()
    Run.group(queue, 2)
    folder.fault = Fault(0, short=True, operations=frozenset({"write"}))
    Run.group(queue, 1)
    with pytest.raises(CecError):
        queue.close()
    return folder.snapshot()


def start(unclean_disk: bool, fault: Fault) -> Run:
    if unclean_disk:
        return Run(SimulatedFolder.after_kill(unclean(), fault), handed=4, acked=2)
    return Run(SimulatedFolder(fault=fault))


@pytest.mark.parametrize("unclean_disk", [False, True], ids=["new", "unclean"])
@pytest.mark.parametrize("sticky", [False, True], ids=["once", "sticky"])
@pytest.mark.parametrize("kind", FAULTS)
def test_whole_frames_come_back_after_a_fault_at_any_call(
    kind: str, sticky: bool, unclean_disk: bool, tally: Tally
) -> None:
    number, short, operations = FAULTS[kind]
    carried = 0
    # Which, not how many: a thread that an earlier test left may end at any moment.
    threads = set(threading.enumerate())
    for at in range(1_000):
        fault = Fault(at, number, sticky, short, operations)
        run = start(unclean_disk, fault)
        run.go()
        run.folder.fault = None
        if not fault.hits:
            break
        try:
            reasons = (run.error, getattr(run.error, "__cause__", None))
            told = number != errno.ENOSPC or any(isinstance(e, DiskFull) for e in reasons)
            told = told and run.error is not None
            # All was durable by then, or a copy for people; the queue is none the worse.
            # So is the end of the log where only its note could not be put on disk, at the close.
            spared = run.error is None and fault.hits[0].startswith(("close ", "sync durable-"))
            spared = spared or (run.error is None and fault.hits[0].endswith(".torn"))
            assert told or spared, "nobody was told"
            carried += check(run)
        except Exception as error:
            raise AssertionError(f"call {at}, {fault.hits[0]}, {run.error!r}: {error!r}") from error
        left = [thread.name for thread in threading.enumerate() if thread not in threads]
        assert not left, f"call {at}, {fault.hits[0]}: threads left: {left}"
    tally(at)
    print(f"{kind}: {at} calls failed, {carried} frames carried over afterwards")
    assert (20 if short else 50 if operations else 100) < at < 1_000
    assert carried > 0, "no frame was ever waiting: the test proves nothing"
