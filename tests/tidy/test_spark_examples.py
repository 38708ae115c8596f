"""Each example with Spark runs as it stands."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from support.paths import EXAMPLES

STARTED_S = 180
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


def test_the_query_of_the_compose_file_tells_its_figures(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = EXAMPLES / "compose" / "counts.py"
    places = ["--checkpoint", str(tmp_path / "c"), "--queue", str(tmp_path / "q")]
    with subprocess.Popen(
        [sys.executable, str(program), *places, "--port", str(port)],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as query:  # fmt: skip
        try:
            told = gauges(query, port)
        finally:
            os.killpg(query.pid, signal.SIGKILL)
    assert 'cec_state{metric="cecOpenWindows",operator="0",query="counts"}' in told
    checked = verify_place(place_at(tmp_path / "c"))
    assert checked.is_sound


def gauges(query: "subprocess.Popen[bytes]", port: int) -> str:
    """Return what is served once the query has had a batch with state."""
    give_up_s = time.monotonic() + STARTED_S
    while time.monotonic() < give_up_s:
        assert query.poll() is None, "it has ended"
        time.sleep(0.5)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
                text: str = page.read().decode()
        except OSError:
            continue  # not served yet
        if "cec_state{" in text:
            return text
    raise AssertionError(f"no figures after {STARTED_S} s")
