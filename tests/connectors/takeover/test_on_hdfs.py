"""A passive standby of a query whose checkpoint and queue are on a real HDFS."""

import signal
from pathlib import Path

import pytest

from cec_store.storage.stores.by_url import store_at
from support.runs.counts import CRASH_FULL
from support.spark.standby_runs import Driver, await_batch, faults_of, newest
from support.stores.hdfs_cluster import Hdfs
from support.stores.needed import need

need("fsspec", "requests")
pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(not CRASH_FULL, reason="at full size only: a minute or two"),
]


def test_drivers_that_are_stopped_and_killed_lose_and_double_nothing_on_hdfs(
    hdfs: Hdfs, tmp_path: Path
) -> None:
    options = {"user": "root", "port": hdfs.http_port}
    order = {"place": f"{hdfs.url}/standby", "storage_options": options}
    store = store_at(f"{hdfs.url}/standby", options)
    drivers = [Driver(tmp_path, "primary", **order)]
    try:
        primary = drivers[0]
        assert primary.wait_for("started") == 1
        await_batch(store, 1)
        for takeover, kill in enumerate((signal.SIGSTOP, signal.SIGKILL)):
            drivers.append(standby := Driver(tmp_path, "standby", **order))
            standby.wait_for("warm")
            await_batch(store, newest(store) + 1)
            primary.send(kill)
            assert standby.wait_for("started") == takeover + 2
            await_batch(store, newest(store) + 2)
            if kill == signal.SIGSTOP:
                primary.send(signal.SIGCONT)
                assert "another driver has taken this query over" in primary.wait_for("failed")
            primary.end()
            await_batch(store, newest(store) + 2)
            primary = standby
        primary.send(signal.SIGKILL)
    finally:
        for driver in drivers:
            driver.end()
    assert faults_of(f"{hdfs.url}/standby/queue", storage_options=options) == []
