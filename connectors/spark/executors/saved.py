"""A look at a cluster as a file, for people who have no session: what `cec-store report` reads."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cec_store.connectors.spark.executors.events import Event, events_of
from cec_store.connectors.spark.executors.snapshot import Snapshot, parsed
from cec_store.errors import UnsupportedVersion
from cec_store.storage.paths import AnyPath
from cec_store.storage.system_errors import os_errors_of
from cec_store.storage.trees import new_file

FORMAT = "cec-store cluster"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class SavedCluster:
    """Contents of a file that holds a cluster at one moment."""

    taken_us: int
    """Time at which it was looked at, microseconds since 1970."""
    application: str
    application_id: str
    names: Mapping[str, str]
    """Names of the queries that ran, by their run ids."""
    snapshot: Snapshot
    events: tuple[Event, ...]
    """Events until then, the oldest first."""


def save(
    path: AnyPath,
    status: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    application: str,
    application_id: str,
) -> None:
    """Write it, whole or not at all, in place of what was there.

    Args:
        status: what the driver's side says, as `snapshot.parsed` takes it.
        events: what has happened, as `events_of` takes it.
    """
    document = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "taken_us": time.time_ns() // 1000,
        "application": application,
        "application_id": application_id,
        "queries": dict(names),
        "status": dict(status),
        "events": list(events),
    }
    with new_file(path, replace=True) as file:
        file.write(json.dumps(document, indent=1).encode())


def read_saved(path: Path) -> SavedCluster:
    """Read a file that `save` has written.

    Raises:
        FileNotFoundError: there is no file.
        ValueError: it is none of these files, or not whole.
        UnsupportedVersion: a newer release has written it.
    """
    advice = "spark.cluster(session).save(path) writes such a file"
    with os_errors_of(str(path), reading=True):
        data = path.read_bytes()
    try:
        document = json.loads(data)
    except ValueError as error:
        raise ValueError(f"{path} is no look at a cluster: {error}; {advice}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{path} is no look at a cluster; {advice}")
    if document.get("version") != FORMAT_VERSION:
        raise UnsupportedVersion(
            f"{path}: version {document.get('version')!r} of a look at a cluster, and this release "
            f"reads {FORMAT_VERSION}: a newer cec-store reads it"
        )
    try:
        return SavedCluster(
            int(document["taken_us"]),
            str(document["application"]),
            str(document["application_id"]),
            {str(run): str(name) for run, name in document["queries"].items()},
            parsed(document["status"]),
            events_of(document["events"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path}: not whole: {error!r}; {advice}") from None
