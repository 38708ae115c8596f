"""The report of a place, looked at and written to a file."""

from __future__ import annotations

import time
from importlib.metadata import version as release_of
from pathlib import Path
from typing import Any

from cec_store.connectors.spark.executors.saved import read_saved
from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.inspector.places.places import Place
from cec_store.report.cluster_document import report_on_cluster
from cec_store.report.document import report_on
from cec_store.report.fleet_document import report_on_fleet
from cec_store.report.page import page_of
from cec_store.storage.trees import new_file
from cec_store.terminal.report_summaries import summary_of
from cec_store.terminal.screens import Screen


def make_report(
    screen: Screen, place: Place, *, recovery_time_s: float | None = None, **options: Any
) -> dict[str, Any]:
    """The document of a place, with a bar on a terminal; options are those of `report_on`.

    ``recovery_time_s`` is what a restart may take, as somebody has asked for; no log says it.
    """
    with screen.bar() as bar:
        task = bar.add_task("reading", total=len(place.logs))
        document = report_on(place, done=lambda count: bar.update(task, completed=count), **options)
    return _made({**document, "recovery_time_s": recovery_time_s})


def make_cluster_report(path: Path) -> dict[str, Any]:
    """The document of a cluster that was looked at, and saved to this file.

    Raises:
        FileNotFoundError, ValueError, UnsupportedVersion: as `read_saved`.
    """
    return _made(report_on_cluster(str(path), read_saved(path)))


def make_fleet_report(folder: FleetFolder) -> dict[str, Any]:
    """The document of a fleet, by its folder.

    Raises:
        NotAFleet, CorruptLog, UnsupportedVersion: as `report_on_fleet`.
    """
    return _made(report_on_fleet(folder))


def _made(document: dict[str, Any]) -> dict[str, Any]:
    return {
        **document,
        "summary": summary_of(document),
        "made_us": time.time_ns() // 1000,
        "release": release_of("cec-store"),
    }


def write_report(document: dict[str, Any], output: Path, overwrite: bool) -> int:
    """Write the page, whole or not at all; returns its size in bytes.

    Raises:
        FileExistsError: there is a file, which is not to be overwritten.
    """
    page = page_of(document).encode()
    with new_file(output, overwrite) as file:
        file.write(page)
    return len(page)
