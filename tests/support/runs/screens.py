"""Makes the pictures of reports in docs/images: `PYTHONPATH=tests python -m support.runs.screens`.

The places are made, and so always the same; the cluster is a driver's double. Needs a Chromium.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from typer.testing import CliRunner

from cec_store.cli import app
from cec_store.connectors import spark
from cec_store.opening import open_queue
from support.paths import DOCS
from support.places import damaged_queues
from support.places.reported_places import grown
from support.processes.chromium import browser
from support.spark.driver_double import DriverDouble, executor, migration, partition, replica

IMAGES = DOCS / "images"
WIDTH, HEIGHT = 1280, 900
NAMES = ("report-checkpoint", "report-queue", "report-cluster")


def _checkpoint(folder: Path) -> list[str]:
    grown(folder / "totals", batches=60, keys=40).close()
    return [str(folder / "totals")]


def _queue(folder: Path) -> list[str]:
    damaged_queues.make_operator_queue(folder / "averages", 3_000)
    with open_queue(folder / "averages") as queue:
        queue.consumer("hourly").close()
    return [str(folder / "averages")]


def _cluster(folder: Path) -> list[str]:
    done = {"state": "done", "located_ms": 2_500, "done_ms": 3_000, "version": 17}
    driver = DriverDouble(
        executors=[executor("0"), executor("1"), executor("2", state="draining")],
        assignments=[partition(0, "0"), partition(1, "1"), partition(2, "2")],
        replicas=[replica(0, "1"), replica(1, "0", lag_versions=0, version=17), replica(2, "1")],
        migrations=[migration(0, 0, "1", is_from_replica=True, **done)],
    )  # fmt: skip
    spark.cluster(driver.session()).save(folder / "look.json")
    return ["--cluster", str(folder / "look.json")]


def main() -> None:
    """Write one picture of the upper part of each page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with browser(folder) as tab:
            for picture, make in zip(NAMES, (_checkpoint, _queue, _cluster), strict=True):
                page = folder / f"{picture}.html"
                result = CliRunner().invoke(app, ["report", *make(folder), "-o", str(page)])
                assert result.exit_code == 0, result.output
                tab.open(page, WIDTH, HEIGHT)
                tab.picture(IMAGES / f"{picture}.png", whole=False)


if __name__ == "__main__":
    main()
