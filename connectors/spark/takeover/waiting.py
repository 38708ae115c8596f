"""Readiness of a driver that waits, for `cec-store standby list` and `wait_until_warm`."""

from __future__ import annotations

import logging
import math
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import current_process
from threading import Thread

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.takeover.tenure import LEASE
from cec_store.errors import CecError
from cec_store.standby.leases import KeepAlive, Lease, Leases, Sign
from cec_store.standby.nodes.notes import NodeNote, NodeState, encode_note, node_lease, node_of
from cec_store.storage.waiting import start_uninterrupted

_HOST_MAX = 40
_log = logging.getLogger(__name__)


class WaitingDriver:
    """Holds a lease of its own while it waits, whose signs of life say if it is warm.

    Positions are numbers of batches: that after the one whose state it has read, and that after the
    last committed one. A driver whose lease cannot be held waits all the same. The lease is deleted
    with the end of the waiting; those that killed drivers have left are deleted meanwhile.
    """

    def __init__(self, leases: Leases, rule: KeepAlive) -> None:
        """``rule`` says how often the lease gives signs of life."""
        self._leases = leases
        self._rule = rule
        self._lease: Lease | None = None
        self._warm_at: int | None = None
        self.note = NodeNote()
        """State and position, which the next sign of life tells."""

    def has_read(self, batch: int | None) -> None:
        """Note that it is warm, with the state of this batch; ``None``: there is none yet."""
        position = 0 if batch is None else batch + 1
        end = max(position, self.note.end or 0)
        self.note = NodeNote(NodeState.READY, position, end)

    def follows(self, own: Sequence[int], theirs: Sequence[int]) -> None:
        """Note the committed batches of a query that runs along with another, and of that one.

        It is warm once it has come as far as the other one was at the first call.
        """
        if not theirs:
            return
        position = own[-1] + 1 if own else 0
        end = max(position, theirs[-1] + 1)
        if self._warm_at is None:
            self._warm_at = end
        is_ready = self.note.state is NodeState.READY or position >= self._warm_at
        self.note = NodeNote(NodeState.READY if is_ready else NodeState.WARMING, position, end)

    def sees(self, committed: Sequence[int]) -> None:
        """Note how far the query is, by its committed batches."""
        if committed:
            self.note = replace(self.note, end=committed[-1] + 1)

    def __enter__(self) -> WaitingDriver:
        own = node_lease(LEASE, _own_name())
        try:
            self._lease = self._leases.hold(
                own,
                keep_alive=self._rule,
                note=lambda: encode_note(self.note),
            )
        except CecError as error:
            _log.warning("nobody can see that this standby waits: %s", error)
        # Silence is told by waiting for it.
        arguments = (self._leases, own)
        name = f"cec-leases-before-{own}"
        start_uninterrupted([Thread(target=_delete_left, args=arguments, name=name, daemon=True)])
        return self

    def __exit__(self, *_: object) -> None:
        if self._lease is not None:
            with suppress(CecError):
                self._lease.release()
                objects = self._leases.objects(self._lease.name)
                if not objects.is_over(self._lease.number):
                    objects.delete(objects.names())


def _delete_left(leases: Leases, own: str) -> None:
    """Delete the leases of other drivers that waited and are released or silent."""
    try:
        for name in leases.names():
            pair = node_of(name)
            if pair is None or pair[0] != LEASE or name == own:
                continue
            objects = leases.objects(name)
            before = objects.names()  # not what a new holder of the name makes meanwhile
            seen = leases.sight(name, locks=False, longest_s=math.inf)
            if seen.sign in (Sign.RELEASED, Sign.SILENT):
                objects.delete(before)
    except (CecError, OSError, ValueError) as error:
        _log.info("leases of drivers that no longer wait are left: %s", error)


def committed_if_readable(checkpoint: Checkpoint) -> list[int]:
    """Return the committed batches; nothing where they cannot be read now.

    For what is told alone: a standby waits on where its checkpoint cannot be read for a while.
    """
    try:
        return checkpoint.committed_batches()
    except (CecError, OSError) as error:
        _log.warning("how far the query is cannot be read: %s", error)
        return []


def _own_name() -> str:
    """Return host and process, in letters that the name of a lease may have."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", platform.node()).strip("-")[:_HOST_MAX] or "host"
    return f"{host}-{current_process().pid}"
