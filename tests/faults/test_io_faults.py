"""Every call to the file system fails, once or for good: typed errors, nothing acked is lost."""

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cec_store.errors import CecError, DiskFull, DurabilityLost, Poisoned, StorageError
from cec_store.log.chain import Chain
from cec_store.log.options import QueueOptions
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage import local, local_files
from cec_store.storage.local import LocalFolder
from support.crashes.crash_states import Log, check, power_cuts, read_all, schema
from support.disks.open_files import open_below
from support.disks.simulated_folder import Fault, SimulatedFolder
from support.runs.counts import crash_count
from support.runs.planted_bugs import VARIABLE
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

FAULTS = {
    "EIO": Fault(0, errno.EIO),
    "ENOSPC": Fault(0, errno.ENOSPC),
    "short": Fault(0, errno.ENOSPC, short=True, operations=frozenset({"write"})),
}
# In the quick tier each kind fails every third call, from another one on; planted bugs are sought
# in all.
STRIDE = 1 if os.environ.get(VARIABLE) else crash_count(3, 1)
each_fault = pytest.mark.parametrize("kind", FAULTS)
each_spread = pytest.mark.parametrize("sticky", [False, True], ids=["once", "from then on"])


def fault(kind: str, at: int, sticky: bool) -> Fault:
    model = FAULTS[kind]
    return Fault(at, model.errno, sticky, model.short, model.operations)


def failing_calls(kind: str, sticky: bool) -> range:
    return range((list(FAULTS).index(kind) + sticky) % STRIDE, 1_000, STRIDE)


def require_no_second_sync(folder: SimulatedFolder) -> None:
    """A file whose sync failed is never synced again: it would claim what is gone."""
    failed: set[int] = set()
    for operation, name, number in folder.trace:
        assert operation != "sync" or number not in failed, f"{name} synced again"
        if operation == "sync!":
            failed.add(number)


def work(log: Log) -> None:
    log.create()
    log.append()
    log.append(700)
    log.sync()
    log.append()
    log.roll()
    log.append()
    log.sync()
    log.trim(1)
    log.append()
    log.writer.close()
    log.reopen()
    log.append()
    log.sync()
    log.writer.close()


@each_fault
@each_spread
def test_log_survives_a_fault_at_any_call(kind: str, sticky: bool, tally: Tally) -> None:
    states = 0
    for at in failing_calls(kind, sticky):
        folder = SimulatedFolder(fault=fault(kind, at, sticky), record=True)
        log = Log(folder, "faults")
        with contextlib.suppress(StorageError):
            work(log)
        injected = folder.fault.hits
        folder.fault = None
        if not injected:
            break
        with contextlib.suppress(StorageError, AttributeError):
            log.writer.close()
        assert not folder.open_files, f"call {at} {injected[0]}: left open"
        require_no_second_sync(folder)
        for state in power_cuts(folder.snapshots[-1:]):
            check(SimulatedFolder(state.image), log.marks)
            states += 1
        check(folder, log.marks)
    failed = at // STRIDE
    tally(failed)
    print(f"{kind}, {'sticky' if sticky else 'once'}: {failed} calls failed, {states} disks after")
    assert 5 < at < 1_000


# -- the whole queue -------------------------------------------------------------------------------

OPTIONS = QueueOptions(sync="commit", segment_bytes=1_200)


class Run:
    """Uses a queue like an application, up to the first error, and then asks for more."""

    def __init__(self, folder: Any) -> None:
        self.folder = folder
        self.acked = 0
        self.appended = 0
        self.error: CecError | None = None

    def append(self, queue: AppendableQueue) -> None:
        batch = pa.record_batch({"x": pa.array([self.appended], pa.int64())})
        self.appended += 1
        queue.append(batch, pa.array([0]), sync=True)
        self.acked = self.appended

    def go(self) -> None:
        for _ in range(2):
            queue = None
            try:
                queue = AppendableQueue(self.folder, "a", schema(), OPTIONS)
                for _ in range(4):
                    self.append(queue)
                queue.trim(2)
                self.append(queue)
                queue.close()
            except CecError as error:
                self.error = error
                if queue is not None:
                    self.ask_for_more(queue)
                return

    def ask_for_more(self, queue: AppendableQueue) -> None:
        """Whatever failed: either the queue goes on in full, or not at all."""
        failed = queue._pipeline.failure is not None  # type: ignore[union-attr]
        try:
            self.append(queue)
            assert not failed, "acknowledged after a failure"
        except (Poisoned, DurabilityLost, DiskFull, StorageError):
            pass
        with contextlib.suppress(StorageError):
            queue.close()

    def require_acked(self, folder: Any) -> None:
        with AppendableQueue(folder, "a", schema()) as queue:
            chain = queue.chain()
            rows = [x for f in chain.frames() for x in chain.records(f)["x"].to_pylist()]
            first = chain.first_offset()
            assert rows == list(range(first, first + len(rows)))
            assert first <= 2
            assert self.acked <= first + len(rows) <= self.appended
            batch = pa.record_batch({"x": pa.array([first + len(rows)], pa.int64())})
            queue.append(batch, pa.array([0]), sync=True)
        chain = Chain(folder)
        assert chain.end.offset == first + len(rows) + 1


@each_fault
@each_spread
def test_queue_survives_a_fault_at_any_call(kind: str, sticky: bool, tally: Tally) -> None:
    for at in failing_calls(kind, sticky):
        folder = SimulatedFolder(fault=fault(kind, at, sticky))
        run = Run(folder)
        run.go()
        injected = folder.fault.hits
        folder.fault = None
        if not injected:
            break
        assert not folder.open_files, f"call {at}, {injected[0]}: left open"
        assert not folder.locks, f"call {at}, {injected[0]}: still locked"
        require_no_second_sync(folder)
        try:
            run.require_acked(folder)
        except Exception as error:
            raise AssertionError(f"call {at}, {injected[0]}, {run.error!r}: {error!r}") from error
    failed = at // STRIDE
    tally(failed)
    print(f"{kind}, {'sticky' if sticky else 'once'}: {failed} calls failed")
    assert 5 < at < 1_000


# -- a real directory ------------------------------------------------------------------------------

CALLS = ("open", "fchmod",
         "writev", "write", "fdatasync", "fsync", "close", "pread", "replace", "unlink",
         "ftruncate", "listdir", "lstat", "fstat", "pwrite")  # fmt: skip


class FailingOs:
    """Stands for the module ``os`` in both files; fails one call, or all from there on."""

    def __init__(self, at: int, number: int, sticky: bool) -> None:
        self.at = at
        self.number = number
        """Of the error; 0 for a write that does half of its work and says so."""
        self.sticky = sticky
        self.count = 0
        self.hits: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CALLS or (self.number == 0 and name not in {"writev", "write"}):
            return real

        def call(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            hit = self.count > self.at if self.sticky else self.count - 1 == self.at
            if not hit:
                return real(*arguments, **options)
            self.hits.append(name)
            if self.number == 0:
                descriptor, data = arguments
                whole = b"".join(data) if name == "writev" else bytes(data)
                return os.write(descriptor, whole[: max(1, len(whole) // 2)])
            if name == "close":
                real(*arguments)
            raise OSError(self.number, os.strerror(self.number))

        return call


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[FailingOs | None], None]:
    def put(instead: FailingOs | None) -> None:
        for files in (local, local_files):
            monkeypatch.setattr(files, "os", instead or os)

    return put


ERRORS = {"short": 0, "EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EDQUOT": errno.EDQUOT,
          "EFBIG": errno.EFBIG, "EROFS": errno.EROFS}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
@each_spread
def test_directory_survives_a_failing_system_call(
    name: str, sticky: bool, tmp_path: Path, failing: Callable[[FailingOs | None], None],
    crash_count: Callable[[int, int], int], tally: Tally,
) -> None:  # fmt: skip
    stride = crash_count(5 if name == "short" else 9, 1)  # only writes can be short
    failed = 0
    for at in range(list(ERRORS).index(name) % stride, 2_000, stride):
        path = tmp_path / f"{at}"
        faulty = FailingOs(at, ERRORS[name], sticky)
        failing(faulty)
        run = Run(LocalFolder(path))
        try:
            run.go()
        finally:
            failing(None)
        if not faulty.hits:
            break
        failed += 1
        if name == "short":
            assert run.error is None, f"call {at}: {run.error!r}"
            assert run.acked == 10
        left = open_below(path)
        assert not left, f"call {at} ({faulty.hits[0]}): left open: {left}"
        try:
            run.require_acked(LocalFolder(path))
        except Exception as error:
            raise AssertionError(
                f"call {at} ({faulty.hits[0]}), {run.error!r}: {error!r}"
            ) from error
    tally(failed)
    print(f"{name}, {'sticky' if sticky else 'once'}: {failed} calls failed")
    assert failed > 4
    assert not faulty.hits


# -- a full disk -----------------------------------------------------------------------------------


def test_append_goes_on_once_there_is_space_again() -> None:
    folder = SimulatedFolder()
    run = Run(folder)
    queue = AppendableQueue(folder, "a", schema(), OPTIONS)
    run.append(queue)
    folder.fault = fault("ENOSPC", 0, sticky=True)
    with pytest.raises(DiskFull):
        run.append(queue)
    assert [row for _, row in read_all(folder)[1]] == [1], "readers are not concerned"
    with pytest.raises(Poisoned):
        run.append(queue)
    with contextlib.suppress(DiskFull):
        queue.close()
    with pytest.raises(DiskFull):
        AppendableQueue(folder, "a", schema(), OPTIONS)
    folder.fault = None
    run.appended = 2
    run.require_acked(folder)


def test_trim_needs_space_for_the_manifest_and_loses_nothing_without() -> None:
    """The new manifest is a file of 64 bytes, published before anything is removed."""
    folder = SimulatedFolder()
    run = Run(folder)
    queue = AppendableQueue(folder, "a", schema(), OPTIONS)
    for _ in range(6):
        run.append(queue)
    oldest = min(name for name in folder.names() if name.endswith(".seg"))
    folder.fault = fault("ENOSPC", 0, sticky=True)
    with pytest.raises(DiskFull):
        queue.trim(4)
    assert oldest in folder.names()
    with contextlib.suppress(StorageError):
        queue.close()
    folder.fault = None
    with AppendableQueue(folder, "a", schema(), OPTIONS) as queue:
        assert queue.chain().first_offset() == 0
        assert 0 < queue.trim(4) <= 4
    assert oldest not in folder.names()
    chain = Chain(folder)
    assert chain.end.offset == 6
