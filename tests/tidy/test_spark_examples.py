"""Each example with Spark runs as it stands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import EXAMPLES

PROGRAMS = sorted(EXAMPLES.glob("spark_*.py"))
SAYS = {
    "spark_chain_of_queries": "highest total, day by day: [10480, 40960, 91440]",
    "spark_replay_from_timestamp": "orders since noon: {0: 720, 1: 720, 2: 720, 3: 720, 4: 720}",
    "spark_state_into_duckdb_and_polars": (
        "now: [('ann', 5), ('bob', 6), ('cid', 7)]\n"
        "after the first batch: [('ann', 3), ('bob', 1)]\n"
        "changed since: [(1, 'ann'), (1, 'cid'), (2, 'bob')]\n"
    ),
}


def test_every_example_with_spark_is_tested() -> None:
    assert {path.stem for path in PROGRAMS} == set(SAYS)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_example_with_spark(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert SAYS[path.stem] in done.stdout
