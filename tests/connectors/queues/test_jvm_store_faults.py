"""The sink in the JVM on a real HDFS and a real S3 server that fail, and killed while at work.

A tenth of what `test_jvm_faults` does to local files. moto's server keeps its objects in memory, so
it is not killed: for a time it takes no connection.
"""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cec_store.storage.stores.by_url import store_at
from support.spark.exactly_once import assert_exactly_once
from support.spark.jobs import kill, run_job, start_job
from support.stores.faulty_proxy import FAULTS, FaultyProxy, Request, proxy_to
from support.stores.hdfs_cluster import Hdfs
from support.stores.needed import need
from support.stores.s3_server import options_of
from support.stores.s3a import s3a_settings

need("fsspec", "requests")

JOB = "jvm_queue_job"
DOWN = "down"
DOWN_S = 1.5
REQUESTS = 14
"""About what two batches ask of the store."""


def test_a_writer_to_hdfs_that_is_killed_while_nodes_restart_loses_and_doubles_nothing(
    hdfs: Hdfs, tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    lives = crash_count(0, 3)
    if not lives:
        pytest.skip("at full size only: two minutes")
    generator = random.Random(5)
    for seed in range(lives):
        job = start_job(JOB, tmp_path, seed=seed, then="run", queue=f"{hdfs.url}/killed")
        assert job.stdout is not None
        assert job.stdout.readline(), (tmp_path / "stderr").read_text()[-3000:]
        time.sleep(generator.random() * 3)
        kill(job)
        hdfs.restart_datanode(seed % 3)
    last = run_job(JOB, tmp_path, 300, rounds=1, queue=f"{hdfs.url}/killed")[-1]
    assert last == {"done": True}
    assert_exactly_once(tmp_path, store_at(hdfs.web_url("killed"), {"user": "root"}))


class Strikes:
    """One fault at a time, at a request of a number."""

    def __init__(self, proxy: FaultyProxy, seed: int) -> None:
        self.proxy = proxy
        self.random = random.Random(seed)
        self.seen: list[tuple[str, str]] = []

    def plan(self) -> None:
        fault = self.random.choice([*FAULTS, DOWN])
        at, until_s = self.random.randrange(REQUESTS), 0.0

        def decide(number: int, request: Request) -> str:
            nonlocal until_s
            if number == at:
                self.seen.append((fault, request.kind))
                until_s = time.monotonic() + (DOWN_S if fault == DOWN else 0)
                return "refused" if fault == DOWN else fault
            return "refused" if time.monotonic() < until_s else ""

        self.proxy.expect(decide)


def test_faults_at_any_request_to_s3_and_deaths_lose_and_double_nothing(
    s3_address: str, tmp_path: Path, crash_count: Callable[[int, int], int]
) -> None:
    lives, rounds = crash_count(1, 4), crash_count(6, 8)
    generator = random.Random(9)
    with proxy_to(s3_address) as proxy:
        strikes = Strikes(proxy, 9)
        order: dict[str, Any] = {
            "queue": "s3a://bucket/faulty",
            "conf": s3a_settings(proxy.address),
        }
        for life in range(lives):
            job = start_job(JOB, tmp_path, seed=life, rounds=rounds, **order)
            assert job.stdout is not None
            strikes.plan()
            for _ in range(rounds):
                line = job.stdout.readline()
                assert line, (tmp_path / "stderr").read_text()[-3000:]
                strikes.plan()
                if life < lives - 1 and generator.random() < 0.2:
                    break
            if life < lives - 1:
                time.sleep(generator.random())
                kill(job)
            else:
                proxy.expect()
                assert job.wait(300) == 0
                job.stdout.close()
    assert len(strikes.seen) >= (lives + rounds) // 2, strikes.seen
    assert_exactly_once(tmp_path, store_at("s3://bucket/faulty", options_of(s3_address)))
