"""Partitioned queues on every disk that a power cut may leave, within what recorded_disk names."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from cec_store.storage import local
from cec_store.storage.local_files import LocalFile
from support.contract.layouts import MANY, Layout
from support.crashes.reference_workload import BrokenPromise, ReferenceWorkload, check
from support.disks.recorded_disk import RecordedDisk, power_cuts, put_disk
from support.runs.suites import Tally

MEMORY = Path("/dev/shm")
"""Where syncs cost nothing, if the machine has it."""
QUICK = 12


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    yield made
    shutil.rmtree(made)


def recorded(folder: Path, partitions: int) -> tuple[RecordedDisk, ReferenceWorkload]:
    """Run the workload to its end."""
    (folder / "disk").mkdir()
    disk = RecordedDisk(folder / "disk")
    workload = ReferenceWorkload(disk, partitions)
    with disk.recording():
        workload.run()
    return disk, workload


def sweep(folder: Path, partitions: int, most: int, of_each: int = 16) -> int:
    """Check so many disks; return how many there were."""
    disk, workload = recorded(folder, partitions)
    random, checked = Random(partitions), 0
    for left, moment in power_cuts(disk.moments, random, of_each, most):
        state = folder / "state"
        put_disk(left, state)
        try:
            check(Layout(MANY, os.fspath(state / "queue"), partitions),
                  workload.promise(moment.marks))  # fmt: skip
        except BrokenPromise as error:
            raise BrokenPromise(f"after {moment.operation!r} in step {moment.marks}") from error
        shutil.rmtree(state)
        checked += 1
    return checked


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_power_cut_takes_nothing_that_was_acknowledged(
    folder: Path, partitions: int, crash_count: Callable[[int, int], int], tally: Tally
) -> None:
    most = crash_count(QUICK, 2_000)
    count = sweep(folder, partitions, most, crash_count(4, 16))
    tally(count)
    assert count == most


def test_a_workload_without_power_cuts_is_what_it_promises(folder: Path) -> None:
    disk, workload = recorded(folder, 3)
    assert len({moment.marks for moment in disk.moments}) == len(workload.steps()) + 1
    last = workload.promised[-1]
    assert last is not None
    assert sum(map(len, last.rows.values())) == 6
    assert any(last.starts.values())


@pytest.mark.parametrize("forgotten", ["files", "names"])
def test_a_sync_that_is_left_out_is_found(
    folder: Path, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if forgotten == "files":
        monkeypatch.setattr(LocalFile, "sync", lambda self: None)
    else:
        monkeypatch.setattr(local, "_sync_directory", lambda path: None)
    with pytest.raises(BrokenPromise):
        sweep(folder, 3, 400)
