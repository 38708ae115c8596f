"""The verb `cec-store report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.inspector.measuring.kept_rates import known_rates
from cec_store.terminal.exit_status import DAMAGED, wrong_use
from cec_store.terminal.report_writing import (
    make_cluster_report,
    make_fleet_report,
    make_report,
    write_report,
)
from cec_store.terminal.screens import Screen
from cec_store.terminal.wording import size
from cec_store.verbs.arguments import (
    AsJson,
    AtPoint,
    AtVersion,
    Cores,
    PlacePath,
    StorageOptions,
    local_path,
    place_of,
    storage_options_of,
    wanted_at,
)


def report_verb(
    path: PlacePath,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", parser=local_path, metavar="FILE", help="Where the page goes."
        ),
    ] = Path("report.html"),
    at: AtPoint = None,
    version: AtVersion = None,
    top: Annotated[
        int, typer.Option(min=1, max=100, help="How many windows and logs to look at closely.")
    ] = 10,
    with_verify: Annotated[
        bool,
        typer.Option(
            "--verify/--no-verify",
            help="Check every byte, as `cec-store verify` does, or only what a restart needs.",
        ),
    ] = True,
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster",
            help="PATH is a look at a cluster, as spark.cluster(session).save(PATH) writes it.",
        ),
    ] = False,
    recovery_time: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="SECONDS", help="What a restart may take."),
    ] = None,
    cores: Cores = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Write one page about a place: is it sound, what will a restart cost, and why.

    Of a fleet's folder: who runs, who waits for what, and until when. With --cluster it is about
    state on Spark's executors: who owns what, who could take over, and what moved.
    """
    screen = Screen(has_bars=not as_json)
    fleet = None if cluster else _fleet_at(path, storage_options)
    of_places = at is not None or version is not None or not with_verify
    of_places |= bool(cluster and storage_options)  # a look at a cluster is a file of this disk
    if (cluster or fleet) and (of_places or recovery_time is not None or cores is not None):
        what = "with --cluster" if cluster else "of a fleet"
        raise typer.BadParameter(f"{what} there are only -o, --force and --json")
    place = None if cluster or fleet else place_of(path, storage_options)
    chosen_at = place and wanted_at(place, at, version)
    if not as_json and output.exists() and not force:
        raise FileExistsError(f"{output}: is there already; --force replaces it")
    if fleet:
        document = make_fleet_report(fleet)
    elif place is None:
        with wrong_use():
            document = make_cluster_report(local_path(path))
    else:
        document = make_report(
            screen, place, at=chosen_at, top=top, with_verify=with_verify, rates=known_rates(),
            cores=cores or pa.cpu_count(), recovery_time_s=recovery_time,
        )  # fmt: skip
    if as_json:
        screen.document(document)
    else:
        written = write_report(document, output, force)
        screen.line(f"{output}: {size(written)}")
        screen.line(document["summary"])
    if not document.get("sound", True):
        raise typer.Exit(DAMAGED)


def _fleet_at(path: str, given: StorageOptions) -> FleetFolder | None:
    """The fleet whose folder it is; whatever else is there is a place."""
    try:
        folder = FleetFolder(path, storage_options_of(given))
    except ValueError:
        return None
    return folder if folder.is_there() else None
