"""Makes the pictures of reports in docs/images: `PYTHONPATH=tests python -m support.runs.screens`.

The places are made, and so always the same; the cluster is a driver's double. Needs a Chromium.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from typer.testing import CliRunner

from cec_store.cli import app
from cec_store.connectors import spark
from cec_store.opening import open_queue
from cec_store.standby.leases import leases_of
from support.fleets.walks import Walk
from support.paths import DOCS
from support.places import damaged_queues
from support.places.reported_places import grown
from support.processes.chromium import browser
from support.spark.driver_double import DriverDouble, executor, migration, partition, replica

IMAGES = DOCS / "images"
WIDTH, HEIGHT = 1280, 900


def _checkpoint(folder: Path, _: ExitStack) -> list[str]:
    grown(folder / "totals", batches=60, keys=40).close()
    return [str(folder / "totals")]


def _queue(folder: Path, _: ExitStack) -> list[str]:
    damaged_queues.make_operator_queue(folder / "averages", 3_000)
    with open_queue(folder / "averages") as queue:
        queue.consumer("hourly").close()
    return [str(folder / "averages")]


def _cluster(folder: Path, _: ExitStack) -> list[str]:
    done = {"state": "done", "located_ms": 2_500, "done_ms": 3_000, "version": 17}
    driver = DriverDouble(
        executors=[executor("0"), executor("1"), executor("2", state="draining")],
        assignments=[partition(0, "0"), partition(1, "1"), partition(2, "2")],
        replicas=[replica(0, "1"), replica(1, "0", lag_versions=0, version=17), replica(2, "1")],
        migrations=[migration(0, 0, "1", is_from_replica=True, **done)],
    )  # fmt: skip
    spark.cluster(driver.session()).save(folder / "look.json")
    return ["--cluster", str(folder / "look.json")]


def _fleet(folder: Path, opened: ExitStack) -> list[str]:
    """In the middle of a recovery: three of four executors were lost, and one came."""
    walk = Walk(folder / "trades", 3)
    walk.now_s = time.time() - 60
    while len(walk.fleet.folder.checkpoints()) < 3 or walk.rows < 60:
        walk.feed()
        walk.look()
        for _ in range(5):
            walk.engine.step()
    walk.fail()
    walk.now_s = time.time() - 30
    walk.come()
    walk.look()
    for _ in range(8):
        walk.feed()
    opened.enter_context(leases_of(walk.folder / "fleet").hold("driver", holder="spark-driver-1"))
    return [str(walk.folder / "fleet")]


MAKERS = {
    "report-checkpoint": _checkpoint,
    "report-queue": _queue,
    "report-cluster": _cluster,
    "report-fleet": _fleet,
}


def main() -> None:
    """Write one picture of the upper part of each page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with browser(folder) as tab, ExitStack() as opened:
            for picture, make in MAKERS.items():
                page = folder / f"{picture}.html"
                result = CliRunner().invoke(app, ["report", *make(folder, opened), "-o", str(page)])
                assert result.exit_code == 0, result.output
                tab.open(page, WIDTH, HEIGHT)
                tab.picture(IMAGES / f"{picture}.png", whole=False)


if __name__ == "__main__":
    main()
