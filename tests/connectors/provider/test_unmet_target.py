"""The warning of an executor whose keys take longer to read than the recovery time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.drivers import warned_job

TIMEOUT_S = 600
KEYS = 40_000
"""Keys of the one partition. Before a load is timed, a restart is taken to read 400 in a ms."""
WARNING = re.compile(
    r"^WARN .*cannot meet its target: reading its 40000 keys alone takes about 160 ms "
    r".*recoveryTimeMs is 150\b.*Use more partitions, or allow a longer recovery time$",
    re.MULTILINE,
)


@pytest.mark.parametrize(("recovery_time_s", "warnings"), [(0.15, 1), (0.2, 0)])
def test_keys_that_take_longer_than_the_recovery_time_are_told_in_the_executors_log(
    tmp_path: Path, recovery_time_s: float, warnings: int
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("\n".join(map(str, range(KEYS))), encoding="utf-8")
    job = subprocess.run(
        [sys.executable, warned_job.__file__, str(tmp_path), str(recovery_time_s)],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert job.returncode == 0, job.stderr[-6000:]
    log = (tmp_path / "executor.log").read_text("utf-8")
    assert len(WARNING.findall(log)) == warnings, log
    assert log.count("cannot meet its target") == warnings
    assert "cannot meet its target" not in job.stderr
