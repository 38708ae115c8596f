"""Readiness of standbys: wait until one is warm."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cec_store.errors import StandbyRefused
from cec_store.standby.leases import leases_of
from cec_store.standby.nodes.election import Member
from cec_store.standby.nodes.members import Members
from cec_store.standby.nodes.notes import NodeState
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import StorageOptions


def wait_until_warm(
    place: AnyPath,
    node: str | None = None,
    *,
    lease: str = "primary",
    lag_max: int | None = None,
    timeout_s: float = 60.0,
    storage_options: StorageOptions | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Return True once a standby is warm, and False if none is within ``timeout_s`` seconds.

    A node is warm once it has read all of the log that was there when it began to follow, and
    lacks at most ``lag_max`` records now (``None``: any number). A primary is warm. A node counts
    once it has given a sign of life during this call, so that a note left by a killed one does not.
    Nothing is written.

    Args:
        place: The queue or checkpoint whose nodes these are.
        node: Name of the node; ``None``: any standby.
        lease: Name of the lease that the nodes compete for.
        lag_max: Records of the log that it may lack.
        timeout_s: Seconds to wait at most.
        storage_options: Of the fsspec file system, where the place is a URL.
        clock: Seconds that only grow.
        sleep: Waits so many seconds.

    Raises:
        StandbyRefused: the node has said that it cannot take over.
        StorageError: the place cannot be read.

    Examples:
        >>> wait_until_warm("averages", "b", timeout_s=0)
        False
    """
    leases = leases_of(place, storage_options)
    leases.objects(lease)  # refuses what is no name
    members = Members(leases, lease, locks=False, clock=clock)
    end_s = clock() + timeout_s
    try:
        while True:
            seen = members.look()
            if _is_warm([m for m in seen if m.name in members.heard], node, lag_max):
                return True
            if clock() >= end_s:
                return False
            sleep(min(members.pause_s, max(0.0, end_s - clock())))
    finally:
        members.close()


def _is_warm(members: Sequence[Member], node: str | None, lag_max: int | None) -> bool:
    for member in members:
        note = member.note
        if node is not None and member.name == node and note.state is NodeState.REFUSED:
            raise StandbyRefused(f"node {node!r} cannot take over: {note.reason}")
        is_asked = note.state is NodeState.READY if node is None else member.name == node
        is_warm = note.state in (NodeState.READY, NodeState.PRIMARY)
        is_near = lag_max is None or (note.lag is not None and note.lag <= lag_max)
        if is_asked and is_warm and is_near:
            return True
    return False
