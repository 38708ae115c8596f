"""Sessions as one would first write them: all rows are kept, and taken one by one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from cec_store.operators.aggregate import unordered_sums
from cec_store.operators.aggregate.windows import SessionWindow
from support.models.reference_operators import (
    ReferenceAggregate,
    Row,
    Window,
    group_value,
    plain,
    positive_zero,
)


def exact_sum(values: list[float]) -> float:
    """The float nearest to the sum of floats, in any order of them."""
    if all(map(math.isfinite, values)):
        return float(sum(map(Fraction, values)))
    return sum(value for value in values if not math.isfinite(value)) + 0.0


@dataclass
class Session(Window):
    first_us: int = 0
    last_us: int = 0

    def add(self, other: Session) -> None:
        self.rows = sorted(self.rows + other.rows, key=lambda row: row.sum)
        self.first_us = min(self.first_us, other.first_us)
        self.last_us = max(self.last_us, other.last_us)


class ReferenceSessions(ReferenceAggregate):
    """``windows`` has the sessions by group and the time of the row that opened each."""

    def __init__(self, group_by, aggregates, window, event_time_us=None):
        super().__init__(group_by, aggregates, window, event_time_us)
        self.merges = 0
        """Sessions that have gone into another one."""

    def time_us(self, row: Row) -> int | None:
        return row.timestamp_us if self.event_time_us is None else self.event_time_us(row)

    def take(self, row: Row) -> list[dict]:
        group = tuple(group_value(row.values[name]) for name in self.group_by)
        time_us = self.time_us(row)
        if time_us is None:
            return []
        delayed = time_us - self.window.watermark_delay_us
        self.watermark = delayed if self.watermark is None else max(self.watermark, delayed)
        if time_us < self.watermark:
            self.late_rows += 1
        else:
            self._join(row, group, time_us)
        due = []
        for (other, number), window in self.windows.items():
            first, last = window.first_us, window.last_us
            if last + self.window.gap_us < self.watermark:
                due.append((last, window.opened, first, other, number))
        results = []
        for last, _, first, other, number in sorted(due, key=lambda each: each[:2]):
            window = self.windows.pop((other, number))
            results.append(self._result(window, {"session_start": first, "session_end": last}))
        return results

    def _join(self, row: Row, group: tuple, time_us: int) -> None:
        near = [
            number
            for (other, number), window in self.windows.items()
            if other == group
            and window.first_us - self.window.gap_us <= time_us
            and time_us <= window.last_us + self.window.gap_us
        ]
        near.sort(key=lambda number: self.windows[group, number].opened)
        session = Session(row.sum, [row], time_us, time_us)
        if not near:
            assert (group, time_us) not in self.windows
            self.windows[group, time_us] = session
            return
        kept = self.windows[group, near[0]]
        for number in near[1:]:
            kept.add(self.windows.pop((group, number)))
            self.merges += 1
        kept.add(session)

    def take_step(self, step: Any) -> list[dict]:
        """The results of a logged step, which has rows."""
        return [result for row in step.rows for result in self.take(row)]

    @staticmethod
    def _aggregate(rows: list[Row], function: str, column: str | None = None) -> Any:
        if function in ("sum", "avg") and column is not None:
            values = [row.values[column] for row in rows if row.values[column] is not None]
            if values and isinstance(values[0], float):
                total = exact_sum(values)
                return total if function == "sum" else total / len(values)
        result = ReferenceAggregate._aggregate(rows, function, column)
        return positive_zero(result)

    def state(self) -> dict:
        states = super().state()
        for (group, number), window in self.windows.items():
            states[(*group, number)] |= {
                "first_us": window.first_us,
                "last_us": window.last_us,
                "watermark": self.watermark,
            }
        return states


def with_totals(states: dict) -> dict:
    """States of an operator with numbers in place of the bytes of its sums of floats."""
    return {
        key: {name: _total(value) for name, value in state.items()} for key, state in states.items()
    }


def _total(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    column = pa.array([value], unordered_sums.SUM_TYPE)
    return plain(float(unordered_sums.totals(unordered_sums.from_column(column))[0]))


def reference_aggregate(group_by, aggregates, window) -> ReferenceAggregate:
    """The model of an aggregate over windows of any kind."""
    model = ReferenceSessions if isinstance(window, SessionWindow) else ReferenceAggregate
    return model(group_by, aggregates, window)
