"""A `transformWithState` to be killed: its processor, and the same computed without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

COLUMNS = ("k", "is_timer", "n", "total", "items", "seen")
KEYS = 61
LOOKS = 8
"""A list is read as often: whenever so many more values are in it."""
FIRES_AFTER = 2
"""A timer of batch b is for a second after it, and the watermark is there two batches later."""


class Counts(StatefulProcessor):
    """The same number four times: in a value, a list, a map, and by the timers that fire."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._sums = handle.getValueState("sums", "n LONG, total LONG")
        self._items = handle.getListState("items", "value LONG")
        self._parts = handle.getMapState("parts", "part LONG", "n LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        n, total = self._sums.get() if self._sums.exists() else (0, 0)
        latest = 0
        for row in rows:
            n, total = n + 1, total + row.value
            latest = max(latest, row.ms)
            self._items.appendValue((row.value,))
            part = (row.value % 3,)
            seen = self._parts.getValue(part) if self._parts.containsKey(part) else (0,)
            self._parts.updateValue(part, (seen[0] + 1,))
        self._sums.update((n, total))
        self._handle.registerTimer(latest + 1000)
        yield self._said(key, 0, n, total)

    def _said(self, key: Any, is_timer: int, n: int, total: int) -> Row:
        items = -1
        if n % LOOKS == 0:
            values = [value for (value,) in self._items.get()]
            items = len(values) if sum(values) == total else -2
        seen = sum(each[0] for _, each in self._parts.iterator())
        return Row(k=key[0], is_timer=is_timer, n=n, total=total, items=items, seen=seen)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        n, total = self._sums.get()
        yield self._said(key, 1, n, total)

    def close(self) -> None:
        pass


def transformed(rows: Any) -> Any:
    """Of the rows of a source with `timestamp` and `value`."""
    from pyspark.sql import functions as f

    keyed = rows.withWatermark("timestamp", "0 seconds").select(
        "timestamp",
        f.unix_millis("timestamp").alias("ms"),
        "value",
        f.expr(f"value * 7919 % {KEYS}").alias("k"),
    )
    schema = ", ".join(f"{name} LONG" for name in COLUMNS)
    return keyed.groupBy("k").transformWithState(Counts(), schema, "Update", "EventTime")


def compute(rows: int, batches: int) -> pa.Table:
    """The rows of so many batches, with the batches that bring them."""
    n = np.zeros(KEYS, np.int64)
    total = np.zeros(KEYS, np.int64)
    came: list[np.ndarray] = []
    tables = []
    for batch in range(batches):
        values = np.arange(batch * rows, (batch + 1) * rows)
        keys = values * 7919 % KEYS
        np.add.at(n, keys, 1)
        np.add.at(total, keys, values)
        came.append(np.unique(keys))
        fire = came[batch - FIRES_AFTER] if batch >= FIRES_AFTER else came[0][:0]
        for is_timer, k in enumerate((came[batch], fire)):
            items = np.where(n[k] % LOOKS == 0, n[k], -1)
            when = np.full(len(k), batch)
            values_of = (k, np.full(len(k), is_timer), n[k], total[k], items, n[k])
            columns = dict(zip(COLUMNS, values_of, strict=True))
            tables.append(pa.table({**columns, "first": when, "last": when}))
    return pa.concat_tables(tables)
