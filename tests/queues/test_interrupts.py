"""Ctrl-C at any step of a writer: nothing hangs, nothing acknowledged goes, nothing stays held."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.disks.fault_shim import library
from support.disks.loop_disk import folder_in_memory
from support.paths import ROOT, SUPPORT, TESTS
from support.runs.counts import crash_count
from support.runs.suites import Tally

pytestmark = pytest.mark.crash

SOURCE = SUPPORT / "processes" / "interrupts.c"
PARTS = 4
STRIDE = crash_count(811, 16)


@pytest.mark.parametrize("part", range(PARTS))
def test_an_interrupt_at_any_step_hangs_nothing_and_loses_nothing(
    part: int, tmp_path: Path, tally: Tally
) -> None:
    module = "support.processes.interrupted_writer"
    first = part * STRIDE // PARTS
    with folder_in_memory(tmp_path) as folder:
        ran = subprocess.run(
            [sys.executable, "-m", module, library(SOURCE), str(first), str(STRIDE), folder],
            cwd=ROOT, env={"PYTHONPATH": f"{ROOT}:{TESTS}", "PATH": "/usr/bin:/bin"},
            capture_output=True, text=True,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-6000:]
    found = json.loads(ran.stdout)
    assert found["interrupted"] > 0.8 * found["runs"] > 10
    tally(found["runs"])
