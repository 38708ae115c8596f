"""Keys and values of a checkpoint's state as bytes, whatever provider keeps it, by Spark jobs."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.checkpoint.parsing import damaged
from cec_store.connectors.spark.moving.state_job import (
    asked,
    check_all_noted,
    job_errors,
    moving_of,
    reading,
)
from cec_store.state_logs.state_log import STORED


class StoredRows:
    """The state that one batch has left."""

    def __init__(self, session: Any, checkpoint: Checkpoint, batch: int) -> None:
        """
        Raises:
            OutOfRange: the batch is not kept.
            MoveRefused: its state is kept in a way that is not known.
            CorruptLog: what Spark wrote is damaged.
            SparkUnavailable: the session has no jar of ours, or no driver of its own.
        """
        self._session = session
        self._checkpoint = checkpoint
        self._moving = moving_of(session)
        self._request = json.dumps(reading(checkpoint, batch))
        answer = asked(
            checkpoint.path, lambda: self._moving.stores(session._jsparkSession, self._request)
        )
        check_all_noted(checkpoint, (store["operator"] for store in answer["stores"]))
        self._partitions = {
            (store["operator"], store["store"]): store["partitions"] for store in answer["stores"]
        }

    def table(self, operator: int, store: str, partition: int) -> pa.Table:
        """One partition of one store: ``family`` (1: the operator's own), ``key`` and ``value``.

        All of it is in the driver's memory. A list has a row for each of its values.

        Raises:
            CorruptLog: Spark has noted no such store, or cannot read it; says why.
            SparkUnavailable: the job failed by itself.
        """
        from pyspark.sql import DataFrame

        if (operator, store) not in self._partitions:
            path = self._checkpoint.operator_folder(operator).path
            raise damaged(path, 0, f"Spark has noted no store {store!r} of this operator")
        if partition >= self._partitions[operator, store]:
            return STORED.empty_table()  # all rows have one key, and stand in another
        words = (self._session._jsparkSession, self._request, operator, store, partition)
        folder = self._checkpoint.operator_folder(operator).folder(str(partition))
        with job_errors(folder.path, f"Spark cannot read the store {store}"):
            rows = DataFrame(self._moving.rows(*words), self._session).toArrow()
        return rows.cast(STORED)
