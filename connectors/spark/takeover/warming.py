"""Warming of a waiting session: it runs small queries and reads the state it may get.

The first batch of a fresh session mostly waits for the JVM: classes are loaded, code is compiled.
Small queries through the same source, provider and sink do that while nobody waits for it; and
reading the state of the query, on the executors that will have it, brings its logs into their
caches and compiles what loads them.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Any

from cec_store.connectors.spark.checkpoint.layout import JOIN_SIDES, Checkpoint
from cec_store.errors import CecError

_ROWS = 1000
_BATCHES = 3
_BATCH_S_MAX = 60.0
_log = logging.getLogger(__name__)


def run_small_queries(session: Any, place: str) -> None:
    """Write a queue and read it again, with an aggregate between, in a folder that is deleted.

    Its path is ``place`` and a random ending.
    """
    folder = f"{place}-{secrets.token_hex(8)}"
    try:
        rows = session.range(0, _ROWS * _BATCHES, 1, 1).toDF("value")
        rows.write.format("cec").mode("append").save(f"{folder}/rows")
        again = session.readStream.format("cec").option("startingOffsets", "earliest")
        # One partition, so that each batch has so many rows.
        again = again.option("maxOffsetsPerTrigger", _ROWS).load(f"{folder}/rows")
        _run(again.writeStream.format("cec"), f"{folder}/copied")
        counted = again.groupBy((again["value"] % 100).alias("k")).count()
        _run(counted.writeStream.format("cec").outputMode("update"), f"{folder}/counts")
    finally:
        path = session._jvm.org.apache.hadoop.fs.Path(folder)
        conf = session._jsparkSession.sessionState().newHadoopConf()
        path.getFileSystem(conf).delete(path, True)


def _run(writer: Any, path: str) -> None:
    """Run to the end of the input: a query that is stopped in a batch leaves errors in logs."""
    writer = writer.option("checkpointLocation", f"{path}-checkpoint").trigger(availableNow=True)
    query = writer.queryName(f"cec-standby-{secrets.token_hex(4)}").start(path)
    try:
        query.awaitTermination(_BATCHES * _BATCH_S_MAX)
    finally:
        query.stop()


def read_state(
    session: Any,
    checkpoint: Checkpoint,
    path: str,
    goes_on: Callable[[], bool] = lambda: True,
) -> list[int] | None:
    """Read all state of the last committed batch, where there is one.

    Returns the committed batches when it began; ``None`` where the checkpoint cannot be listed, or
    where ``goes_on``, which is asked before each store, says no. The primary goes on meanwhile and
    may delete what is read: then it is left to the next time.
    """
    try:
        committed = checkpoint.committed_batches()
        if not committed:
            return committed
        stores = sorted({(folder.operator, folder.store) for folder in checkpoint.state_folders()})
    except (CecError, OSError) as error:
        _log.warning("%s: the state cannot be read now: %s", path, error)
        return None
    for operator, store in stores:
        if not goes_on():
            return None
        reader = session.read.format("statestore").option("operatorId", operator)
        side = next((side for side, name in JOIN_SIDES.items() if name == store), None)
        if side is not None:
            reader = reader.option("joinSide", side)
        elif store.endswith("-keyToNumValues"):  # the join side above reads it as well
            continue
        elif store != "default":
            reader = reader.option("storeName", store)
        try:
            reader.load(path).write.format("noop").mode("overwrite").save()
        except Exception as error:  # whatever Spark may raise: it is read to be warm, no more
            _log.warning("%s: state of operator %d is not warm: %s", path, operator, error)
    return committed
