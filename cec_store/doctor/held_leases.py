"""Leases of a place: who holds each, and whether they are alive."""

from __future__ import annotations

from collections.abc import Iterator

from cec_store.connectors.spark.takeover.tenure import gone_on_with
from cec_store.doctor.diagnoses import Diagnosis, fault, note, of_error, sound
from cec_store.errors import CecError
from cec_store.standby.lease_format import check_lease_name
from cec_store.standby.leases import Leases, Sighting, Sign, leases_of
from cec_store.standby.nodes.notes import node_of
from cec_store.storage.paths import is_url
from cec_store.storage.stores.folders import StorageOptions

_LONGEST_S = 5.0
"""Seconds for which a holder is looked at that gives no sign of life."""
_AGAIN = "start the query again, or a standby of it; it takes the lease over"


def lease_lines(path: str, options: StorageOptions | None) -> Iterator[Diagnosis]:
    """Yield a line for each lease of a place, looking for its signs of life; nothing is written."""
    leases = leases_of(path, options if is_url(path) else None)
    try:
        names = leases.names()
    except CecError as error:
        yield of_error(error, path)
        return
    for name in names:
        yield _line(leases, name)
    if names and path.startswith(("s3:", "s3a:")):
        what = "in S3 a rename is a copy and a delete, so that a fence misses one under way"
        yield note("lease", what, "end the old driver before its standby takes over")


def sighting_of(leases: Leases, name: str) -> Sighting:
    """Return what can be seen of a holder within a few seconds; nothing is written.

    Raises:
        StorageError: the place cannot be read.
    """
    return leases.sight(name, locks=False, longest_s=_LONGEST_S)


def _line(leases: Leases, name: str) -> Diagnosis:
    try:
        check_lease_name(name)
        seen = sighting_of(leases, name)
    except ValueError:
        what = f"leases/{name}: no name of a lease"
        return note("lease", what, "move the folder away")
    except CecError as error:
        return of_error(error, leases.path)
    return sighting_line(name, seen)


def sighting_line(name: str, seen: Sighting) -> Diagnosis:
    """Return the line about a lease of which this was seen."""
    checkpoint = gone_on_with(seen.holder)
    if checkpoint is not None:
        what = f"{name}: the query has gone on with the checkpoint {checkpoint}"
        return fault("lease", what, f"start it with {checkpoint}, or as a standby of that one")
    who = f"{name}: {seen.holder}, tenure {seen.tenure}"
    if seen.is_alive:
        return sound("lease", f"{who}, is alive")
    if seen.sign is Sign.RELEASED:
        return sound("lease", f"{who}, has let go of it")
    if seen.sign is Sign.NEVER:
        return sound("lease", f"{name}: nobody has held it")
    what = f"{who}, gives no sign of life: it did not end as planned"
    if node_of(name) is not None:
        return note("lease", what, f"start that node again, or delete leases/{name} if it is gone")
    return fault("lease", what, _AGAIN)
