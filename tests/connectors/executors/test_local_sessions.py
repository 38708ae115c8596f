"""The plugin for replicas in a session without executors of its own: what it says at its start."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")
RUN_S_MAX = 300.0
DYNAMIC = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.testing": "true"}


@pytest.mark.parametrize("conf", [{}, DYNAMIC], ids=["fixed", "dynamic"])
def test_the_plugin_warns_of_dynamic_allocation_and_of_nothing_else(conf: dict[str, str]) -> None:
    words = [sys.executable, "-m", "support.runs.local_replicas", json.dumps({"conf": conf})]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    [said] = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert [each["executor"] for each in said["executors"]] == ["driver"]
    told = [line for line in ran.stderr.splitlines() if "WARN" in line and "cec" in line]
    assert ["dynamic allocation" in line for line in told] == [True] * bool(conf)
