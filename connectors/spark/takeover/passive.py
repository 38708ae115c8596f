"""A passive standby: a session that is up and warm, and starts the query once its driver is silent.

Scheme of the paper's passive standby, with Spark's checkpoint as what the primary ships: state logs
and the log of batches. A takeover shuts the old driver out before anything of it is read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.setup.settings import PROVIDER, PROVIDER_KEY
from cec_store.connectors.spark.takeover.tenure import LEASE, check_session, enter
from cec_store.connectors.spark.takeover.waiting import WaitingDriver, committed_if_readable
from cec_store.connectors.spark.takeover.warming import read_state, run_small_queries
from cec_store.errors import LeaseHeld
from cec_store.standby.leases import KeepAlive, Lease, Sign, Watch, leases_of
from cec_store.storage.names import LEASES_FOLDER
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.by_url import name_of
from cec_store.storage.stores.folders import StorageOptions
from cec_store.storage.waiting import start_uninterrupted

STANDBY_OF = "CEC_STORE_STANDBY_OF"
"""A variable that `cec-store standby` sets: the checkpoint of which this process is the standby."""
_STATE_AGE_S = 30.0
_LOOK_S = 1.0
_NOTED_EVERY_S = 10.0
_log = logging.getLogger(__name__)
_Started = TypeVar("_Started")


@dataclass(frozen=True)
class Takeover(Generic[_Started]):
    """Result of a standby that took over: the started query, its lease, and the moment."""

    started: _Started
    """Object that ``start`` returned."""
    lease: Lease
    """Kept by this process from here on; release it when the query has ended as planned."""
    silent_at_s: float
    """Time at which the takeover was decided, in seconds by ``time.monotonic()``."""


def check_checkpoint(checkpoint: AnyPath, storage_options: StorageOptions | None) -> Checkpoint:
    """The checkpoint, if a standby can take its query over.

    Raises:
        NotACheckpoint: there is none.
        ValueError: its state is in a store of another provider.
    """
    query_checkpoint = Checkpoint(checkpoint, storage_options)
    batches = query_checkpoint.logged_batches()
    if batches:
        provider = query_checkpoint.offsets(batches[-1]).conf.get(PROVIDER_KEY, PROVIDER)
        if provider != PROVIDER:
            raise ValueError(
                f"{query_checkpoint.path}: this query's state is kept by {provider}; a standby "
                f"follows that of {PROVIDER}: start it with spark.configure(builder) and a new "
                "checkpoint"
            )
    return query_checkpoint


def require_lease(checkpoint: Checkpoint, watch: Watch) -> None:
    """Raises ``ValueError`` where nobody has ever kept one, so that no failure could be told."""
    if watch.look().sign is Sign.NEVER:
        raise ValueError(
            f"{checkpoint.path}: no driver keeps a lease of this checkpoint, so that nobody could "
            "tell when it fails: call spark.keep_alive(session, checkpoint) before its query starts"
        )


def keep_alive(
    session: Any,
    checkpoint: AnyPath,
    *,
    storage_options: StorageOptions | None,
    rule: KeepAlive,
    variables: Mapping[str, str],
) -> Lease:
    """Take the lease, as :func:`cec_store.connectors.spark.keep_alive` documents."""
    check_session(session)
    told = variables.get(STANDBY_OF)
    path = name_of(checkpoint)
    if told is not None and name_of(told) == path:
        return _await_turn(session, checkpoint, storage_options, rule)[0]
    return enter(session, checkpoint, storage_options, rule, None)


def standby(
    session: Any,
    checkpoint: AnyPath,
    start: Callable[[], _Started],
    *,
    storage_options: StorageOptions | None,
    rule: KeepAlive,
    on_warm: Callable[[], object],
) -> Takeover[_Started]:
    """Wait and take over, as :func:`cec_store.connectors.spark.standby` documents."""
    check_session(session)
    lease, silent_at_s = _await_turn(session, checkpoint, storage_options, rule, on_warm)
    try:
        return Takeover(start(), lease, silent_at_s)
    except BaseException:
        lease.release()
        raise


def _await_turn(
    session: Any,
    checkpoint: AnyPath,
    storage_options: StorageOptions | None,
    rule: KeepAlive,
    on_warm: Callable[[], object] = lambda: None,
) -> tuple[Lease, float]:
    """The lease, once nobody else keeps it; and when that was."""
    query_checkpoint = check_checkpoint(checkpoint, storage_options)
    leases = leases_of(checkpoint, storage_options)
    watch = leases.watch(LEASE)
    require_lease(query_checkpoint, watch)
    with WaitingDriver(leases, rule) as waiting:
        run_small_queries(session, f"{leases.path}/{LEASES_FOLDER}/.warming")
        _read(session, query_checkpoint, waiting)
        _log.info("%s: standing by, warm", query_checkpoint.path)
        on_warm()
        while True:
            tenure = _warm_until_silent(session, query_checkpoint, watch, waiting)
            silent_at_s = time.monotonic()
            try:
                return enter(session, checkpoint, storage_options, rule, tenure), silent_at_s
            except LeaseHeld as error:
                _log.warning("another standby was quicker: %s", error)


def _read(
    session: Any,
    checkpoint: Checkpoint,
    waiting: WaitingDriver,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Read the state of the last committed batch, and note which one that was."""
    committed = read_state(session, checkpoint, checkpoint.path, goes_on)
    if committed is not None:
        waiting.has_read(committed[-1] if committed else None)


def _warm_until_silent(
    session: Any, checkpoint: Checkpoint, watch: Watch, waiting: WaitingDriver
) -> int:
    """Return the number of the tenure that is over.

    State is read in a thread of its own, because that may take longer than the primary may be
    silent.

    Raises:
        Exception: of Spark, where its session has failed.
    """
    end: SimpleQueue[None] = SimpleQueue()
    failures: list[Exception] = []

    def keep_warm() -> None:
        try:
            _keep_warm(session, checkpoint, waiting, end)
        except Exception as error:
            failures.append(error)

    start_uninterrupted([Thread(target=keep_warm, name="cec-standby-warming", daemon=True)])
    try:
        while not failures:
            seen = watch.wait(timeout_s=_LOOK_S)
            if seen.sign in (Sign.SILENT, Sign.RELEASED):
                return seen.tenure
        raise failures[0]
    finally:
        end.put(None)


def _keep_warm(
    session: Any, checkpoint: Checkpoint, waiting: WaitingDriver, end: SimpleQueue[None]
) -> None:
    """Read the state again and again, and note how far the query is, until there is an end."""
    read_s = time.monotonic()
    while True:
        with suppress(Empty):
            end.get(timeout=_NOTED_EVERY_S)
            return
        if time.monotonic() - read_s >= _STATE_AGE_S:
            _read(session, checkpoint, waiting, end.empty)
            read_s = time.monotonic()
        else:
            waiting.sees(committed_if_readable(checkpoint))
