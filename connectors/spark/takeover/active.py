"""An active standby: a second application that runs the same query on the same batches.

The paper's active standby. Both applications write each batch under one name, the query's id and
the batch's number, so that the queue takes it once. The standby has its batches from the primary's
log of offsets, by the source's option ``followCheckpoint``; once the primary is silent it is
fenced, and the standby cuts its own.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from threading import Thread
from typing import Any

from cec_store.connectors.spark.checkpoint.fork import fork_as
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.takeover.passive import check_checkpoint, require_lease
from cec_store.connectors.spark.takeover.tenure import LEASE, check_session, enter
from cec_store.connectors.spark.takeover.waiting import WaitingDriver, committed_if_readable
from cec_store.errors import CecError
from cec_store.standby.leases import KeepAlive, Lease, Sign, Watch, leases_of
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.by_url import name_of
from cec_store.storage.stores.folders import StorageOptions, folder_at
from cec_store.storage.waiting import Bells, start_uninterrupted

_LOOK_S = 1.0
_NOTED_EVERY_S = 2.0
_log = logging.getLogger(__name__)


class Follower:
    """Watches a primary, in a thread of its own, and takes over. Made by ``spark.follow``."""

    def __init__(
        self,
        session: Any,
        primary: AnyPath,
        storage_options: StorageOptions | None,
        rule: KeepAlive,
        own: Lease,
        checkpoint: str,
    ) -> None:
        self.lease = own
        """Lease on this query's own checkpoint: others may follow it in their turn."""
        self.failure: Exception | None = None
        """Why it can take over no more."""
        self._session = session
        self._primary = primary
        self._options = storage_options
        self._rule = rule
        self._checkpoint = checkpoint
        self._ended = Bells()
        self._of_primary: Lease | None = None
        start_uninterrupted([Thread(target=self._run, name="cec-follower", daemon=True)])

    @property
    def has_taken_over(self) -> bool:
        return self._of_primary is not None

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait, for at most ``timeout_s``, until it has taken over or failed; return True if it has
        taken over."""
        self._ended.wait_for(lambda: self.has_taken_over or self.failure is not None, timeout_s)
        return self.has_taken_over

    def _run(self) -> None:
        watch = leases_of(self._primary, self._options).watch(LEASE)
        try:
            tenure = self._await_end(watch)
            self._of_primary = enter(
                self._session, self._primary, self._options, self._rule, tenure, self._checkpoint
            )
        except Exception as error:  # told by `failure`; the query waits on, and may be stopped
            self.failure = error
            _log.error("%s: this standby cannot take over: %s", self._primary, error)
        finally:
            watch.close()
            self._ended.ring()

    def _await_end(self, watch: Watch) -> int:
        """Return the tenure of the primary once it is over; meanwhile note how far this one is."""
        noted_s: float | None = None
        with WaitingDriver(leases_of(self._primary, self._options), self._rule) as waiting:
            while (seen := watch.wait(timeout_s=_LOOK_S)).sign not in (Sign.SILENT, Sign.RELEASED):
                now_s = time.monotonic()
                if noted_s is None or now_s - noted_s >= _NOTED_EVERY_S:
                    noted_s = now_s
                    waiting.follows(*map(self._committed, (self._checkpoint, self._primary)))
        return seen.tenure

    def _committed(self, checkpoint: AnyPath) -> list[int]:
        with suppress(CecError):
            return committed_if_readable(Checkpoint(checkpoint, self._options))
        return []

    def release(self) -> None:
        """Let go of what it holds, where the query has ended as planned."""
        for lease in (self._of_primary, self.lease):
            if lease is not None:
                lease.release()


def follow(
    session: Any,
    primary: AnyPath,
    checkpoint: AnyPath,
    *,
    storage_options: StorageOptions | None,
    rule: KeepAlive,
) -> Follower:
    """Follow the primary, as :func:`cec_store.connectors.spark.follow` documents."""
    check_session(session)
    theirs = check_checkpoint(primary, storage_options)
    require_lease(theirs, leases_of(primary, storage_options).watch(LEASE))
    _copy(theirs, primary, checkpoint, storage_options)
    own = enter(session, checkpoint, storage_options, rule, None)
    path = name_of(checkpoint)
    return Follower(session, primary, storage_options, rule, own, path)


def _copy(
    theirs: Checkpoint, primary: AnyPath, checkpoint: AnyPath, options: StorageOptions | None
) -> None:
    """Have a copy of the primary's checkpoint, under the query's own name."""
    try:
        own = Checkpoint(folder_at(checkpoint, options))
    except CecError:
        committed = theirs.committed_batches()
        if not committed:
            raise ValueError(
                f"{theirs.path}: no batch is committed yet, and a standby begins with a copy of "
                "one: try again once there is"
            ) from None
        fork_as(theirs.query_id, primary, checkpoint, None, committed[-1], False, options, 1)
        return
    if own.query_id != theirs.query_id:
        raise ValueError(
            f"{own.path}: is the checkpoint of another query; name a place where nothing is yet"
        )
