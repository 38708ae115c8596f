"""Checkups: all lines about this machine, or about a place of any kind. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.connectors.spark.setup.environment import VARIABLES, Variables
from cec_store.connectors.spark.takeover.passive import STANDBY_OF
from cec_store.doctor.checkpoints import kept_settings, state_lines
from cec_store.doctor.diagnoses import Checkup, Diagnosis, in_order, note, of_error
from cec_store.doctor.fleets import fleet_lines
from cec_store.doctor.folders import folder_lines
from cec_store.doctor.held_leases import lease_lines
from cec_store.doctor.machine import machine_lines
from cec_store.doctor.programs import programs
from cec_store.doctor.queues import queue_lines
from cec_store.doctor.session_rules import session_lines
from cec_store.doctor.spark_session import SparkSession, session_here
from cec_store.errors import CecError, NotAQueue
from cec_store.inspector.places.places import Place, place_at
from cec_store.storage.stores.folders import AnyFolder, StorageOptions, folder_at, local_of


def machine_checkup(given: Mapping[str, str], variables: Variables = VARIABLES) -> Checkup:
    """Look at this machine; ``given``: settings that a program sets on its session's builder."""
    session = session_here(variables, given)
    lines = [
        *programs(variables),
        *session_lines(session, variables.get(STANDBY_OF)),
        *machine_lines(variables),
    ]
    return Checkup("machine", None, in_order(lines), session.shown(variables))


def place_checkup(
    path: str,
    options: StorageOptions | None,
    given: Mapping[str, str],
    variables: Variables = VARIABLES,
) -> Checkup:
    """Look at the place at a path or URL.

    Raises:
        NotAQueue: there is nothing at the path.
        ValueError: no such path or URL, or options for local files.
    """
    session = session_here(variables, given)
    about_folder: list[Diagnosis] = []
    try:
        folder = folder_at(path, options)
        local = local_of(folder)
        if local is not None and local.exists():
            about_folder += folder_lines(local, path)
    except CecError as error:
        return Checkup("folder", path, (of_error(error, path),))
    if (options or {}).get("single_writer"):
        what = "single_writer: of two writers at one moment the second replaces what the first made"
        about_folder.append(note("stores", what, "let one process write, ever; docs/stores.md"))
    fleet = _fleet_at(path, options)
    if fleet is not None:
        of_place = fleet.options_of
        lines = fleet_lines(fleet, lambda place: _lines_at(place, of_place(place), session))
        return Checkup("fleet", fleet.path, in_order([*about_folder, *lines]))
    try:
        place = place_at(folder)
    except NotAQueue as error:
        if not about_folder:
            raise
        what = str(error).removeprefix(f"{folder.path}: ")
        about_folder.append(note("state", what, "give the path of a place, where one is meant"))
        return Checkup("folder", folder.path, in_order(about_folder))
    except CecError as error:
        about_folder.append(of_error(error, folder.path))
        return Checkup("folder", folder.path, in_order(about_folder))
    lines = _place_lines(place, path, options, session)
    kept = () if place.checkpoint is None else kept_settings(place.checkpoint)
    return Checkup(place.kind.value, place.path, in_order([*about_folder, *lines]), kept)


def _fleet_at(path: str, options: StorageOptions | None) -> FleetFolder | None:
    with suppress(ValueError, CecError):
        folder = FleetFolder(path, options)
        return folder if folder.is_there() else None
    return None


def _lines_at(
    path: str, options: StorageOptions | None, session: SparkSession
) -> Iterator[Diagnosis]:
    """Yield the lines about one of a fleet's places, which may not be there yet."""
    try:
        folder: AnyFolder = folder_at(path, options)
        if not folder.exists():
            yield note("state", "nothing is there yet")
            return
        place = place_at(folder)
    except CecError as error:
        yield of_error(error, path)
        return
    yield from _place_lines(place, path, options, session)


def _place_lines(
    place: Place, path: str, options: StorageOptions | None, session: SparkSession
) -> Iterator[Diagnosis]:
    if place.has_versions:
        yield from state_lines(place, session)
    else:
        yield from queue_lines(place)
    yield from lease_lines(path, options)
