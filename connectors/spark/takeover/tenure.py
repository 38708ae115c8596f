"""A driver's lease on its query's checkpoint, and the fence around that checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from cec_store.connectors.spark.setup.session import has_source_of_jar
from cec_store.errors import SparkUnavailable
from cec_store.standby.leases import KeepAlive, Lease, leases_of
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import StorageOptions

LEASE = "driver"
_ELSEWHERE = "active standby with "
"""Beginning of a holder's name whose query has another checkpoint, whose path follows."""
FENCE_KEY = "spark.sql.streaming.checkpointFileManagerClass"
FENCE = "org.apache.spark.sql.cecstore.standby.FencedFileManager"
_log = logging.getLogger(__name__)


def check_session(session: Any) -> None:
    """See that this session can be fenced, and fences what it writes from here on.

    Raises:
        SparkUnavailable: it is a client of Spark Connect, or its JVM has no jar of ours.
        ValueError: another class writes its checkpoints.
    """
    if not hasattr(session, "_jsparkSession"):
        what = "a client of Spark Connect has no driver of its own: call this in the server's"
        raise SparkUnavailable(f"{what} process")
    known = session._jvm.org.apache.spark.util.Utils.classIsLoadable
    if not (has_source_of_jar(session) and known(FENCE)):
        raise SparkUnavailable(
            f"this session's JVM does not know {FENCE}: start it by spark.configure(builder), or "
            "give spark-submit what `cec-store spark conf` prints"
        )
    other = session.conf.get(FENCE_KEY, FENCE)
    if other != FENCE:
        raise ValueError(f"{FENCE_KEY}={other}: with a standby it has to be {FENCE}; leave it out")
    session.conf.set(FENCE_KEY, FENCE)


def is_up(session: Any) -> Callable[[], bool]:
    """Asks the JVM: one that was stopped does not answer, and one that has ended cannot."""
    context = session._jsc.sc()
    return lambda: not context.isStopped()


def gone_on_with(holder: str) -> str | None:
    """Return the checkpoint with which this holder's query goes on; ``None``: with this one."""
    return holder.removeprefix(_ELSEWHERE) if holder.startswith(_ELSEWHERE) else None


def enter(
    session: Any,
    checkpoint: AnyPath,
    storage_options: StorageOptions | None,
    keep_alive: KeepAlive | None,
    after: int | None,
    own: str = "",
    spark_name: str = "",
) -> Lease:
    """Hold the lease, and shut out whoever held it: no commit of theirs succeeds from here on.

    ``own`` is the checkpoint of an active standby, where the query goes on: the queue has batches
    from there, so that nobody may go on from this one any more. ``spark_name`` is what Spark calls
    the checkpoint, where that is not as it was given.

    Raises:
        LeaseHeld: as :meth:`Leases.hold`.
        Fenced: somebody else has taken it since, whose files were left alone.
        ValueError: the query has gone on with another checkpoint.
    """
    leases = leases_of(checkpoint, storage_options)
    watch = leases.watch(LEASE)
    last = watch.look().holder
    watch.close()
    elsewhere = gone_on_with(last)
    if elsewhere not in (None, own):
        raise ValueError(
            f"{leases.path}: this query has gone on with the checkpoint {elsewhere}, and its queue "
            "has batches from there: start it with that one, or as a standby that follows it"
        )
    lease = leases.hold(
        LEASE,
        holder=_ELSEWHERE + own if own else None,
        keep_alive=keep_alive,
        after=after,
        is_alive=is_up(session),
    )
    try:
        # This process may have been stopped since, and the next holder's files are not its own.
        lease.check()
        conf = session._jsparkSession.sessionState().newHadoopConf()
        tenures = session._jvm.org.apache.spark.sql.cecstore.standby.Tenures
        tenures.enter(spark_name or leases.path, LEASE, lease.number, conf)
    except BaseException:
        # The query is at work nowhere, though nobody has asked for that.
        lease.abandon()
        raise
    if after is not None:
        _log.warning("%s: taken over from %s, tenure %d", leases.path, last, lease.number)
    return lease
