"""Readiness of a driver that waits, for `cec-store standby list` and `wait_until_warm`."""

from __future__ import annotations

import logging
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import current_process

from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.errors import CecError
from cec_store.standby.leases import KeepAlive, Lease, Leases
from cec_store.standby.nodes.notes import NodeNote, NodeState, encode_note, node_lease

_HOST_MAX = 40
_log = logging.getLogger(__name__)


class WaitingDriver:
    """Holds a lease of its own while it waits, whose signs of life say if it is warm.

    Positions are numbers of batches: that after the one whose state it has read, and that after the
    last committed one. A driver whose lease cannot be held waits all the same.
    """

    def __init__(self, leases: Leases, rule: KeepAlive) -> None:
        """``rule`` says how often the lease gives signs of life."""
        self._leases = leases
        self._rule = rule
        self._lease: Lease | None = None
        self.note = NodeNote()
        """State and position, which the next sign of life tells."""

    def has_read(self, batch: int | None) -> None:
        """Note that it is warm, with the state of this batch; ``None``: there is none yet."""
        position = 0 if batch is None else batch + 1
        end = max(position, self.note.end or 0)
        self.note = NodeNote(NodeState.READY, position, end)

    def sees(self, last_committed: Sequence[int]) -> None:
        """Note how far the query is: its last committed batch, or nothing."""
        if last_committed:
            self.note = replace(self.note, end=last_committed[-1] + 1)

    def __enter__(self) -> WaitingDriver:
        try:
            self._lease = self._leases.hold(
                node_lease(LEASE, _own_name()),
                keep_alive=self._rule,
                note=lambda: encode_note(self.note),
            )
        except CecError as error:
            _log.warning("nobody can see that this standby waits: %s", error)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lease is not None:
            with suppress(CecError):
                self._lease.release()


def _own_name() -> str:
    """Return host and process, in letters that the name of a lease may have."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", platform.node()).strip("-")[:_HOST_MAX] or "host"
    return f"{host}-{current_process().pid}"
