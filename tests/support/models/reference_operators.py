"""Operators as one would first write them: rows as dicts, state as dicts and lists, one by one.

What they do is the definition of right for the vectorised ones. Also here: how tests make
inputs, cut them into batches, and drive an operator.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.contract import InputBatch, Operator, Step
from cec_store.operators.inputs.merge import merge


@dataclass
class Row:
    source: int
    offset: int
    timestamp_us: int
    values: dict[str, Any]
    positions: tuple[int, ...] = ()
    """Next unread offset of each input once this row is taken."""

    @property
    def sum(self) -> int:
        return sum(self.positions)


def in_order(inputs: list[list[Row]], starts: list[int]) -> list[Row]:
    """The rows from ``starts`` on in the order in which operators take them."""
    queues = [
        [row for row in rows if row.offset >= start]
        for rows, start in zip(inputs, starts, strict=True)
    ]
    positions = list(starts)
    ordered = []
    while any(queues):
        heads = [(queue[0].timestamp_us, j) for j, queue in enumerate(queues) if queue]
        row = queues[min(heads)[1]].pop(0)
        positions[row.source] = row.offset + 1
        row.positions = tuple(positions)
        ordered.append(row)
    return ordered


# Aggregates ----------------------------------------------------------------------------------


@dataclass
class Window:
    opened: int
    rows: list[Row] = field(default_factory=list)


def positive_zero(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def group_value(value: Any) -> Any:
    """What a value is as a key: NaN is one value, and -0.0 is 0.0."""
    return "NaN" if value != value else positive_zero(value)


class ReferenceAggregate:
    def __init__(self, group_by, aggregates, window, event_time_us=None):
        self.group_by = group_by
        self.aggregates = aggregates
        self.window = window
        self.event_time_us = event_time_us
        """Function from a row to its time in microseconds; left out, the row's timestamp."""
        self.windows: dict[tuple, Window] = {}
        self.seen: dict[tuple, int] = {}
        self.watermark: int | None = None
        self.late_rows = 0

    def take(self, row: Row) -> list[dict]:
        group = tuple(group_value(row.values[name]) for name in self.group_by)
        if isinstance(self.window, CountWindow):
            return self._take_counted(row, group)
        return self._take_timed(row, group)

    def _take_counted(self, row, group):
        nth = self.seen.get(group, 0)
        self.seen[group] = nth + 1
        if nth % self.window.advance == 0:
            self.windows[group, nth // self.window.advance] = Window(row.sum)
        results = []
        for (other, ordinal), window in list(self.windows.items()):
            if other != group:
                continue
            window.rows.append(row)
            if len(window.rows) == self.window.size:
                extra = {}
                if self.window.advance < self.window.size:
                    extra = {"window": ordinal}
                results.append(self._result(window, extra))
                del self.windows[group, ordinal]
        return results

    def _take_timed(self, row, group):
        time_us = row.timestamp_us if self.event_time_us is None else self.event_time_us(row)
        if time_us is None:
            return []
        if self.watermark is None or self.watermark < time_us:
            self.watermark = time_us
        size, advance = self.window.size_us, self.window.advance_us
        is_late = False
        for number in range((time_us - size) // advance + 1, time_us // advance + 1):
            start = number * advance
            if start + size <= self.watermark:
                is_late = True
            else:
                self.windows.setdefault((group, start), Window(row.sum)).rows.append(row)
        self.late_rows += is_late
        due = [
            (start + size, window.opened, group, start)
            for (group, start), window in self.windows.items()
            if start + size <= self.watermark
        ]
        results = []
        for end, _, other, start in sorted(due, key=lambda each: each[:2]):
            window = self.windows.pop((other, start))
            results.append(self._result(window, {"window_start": start, "window_end": end}))
        return results

    def _result(self, window, extra):
        first = {name: positive_zero(window.rows[0].values[name]) for name in self.group_by}
        results = {
            name: self._aggregate(window.rows, function, *column)
            for name, (function, *column) in self.aggregates.items()
        }
        return {**first, **extra, **results}

    @staticmethod
    def _aggregate(rows, function, column=None):
        if column is None:
            return len(rows)
        values = [row.values[column] for row in rows if row.values[column] is not None]
        if function == "count":
            return len(values)
        if not values:
            return None
        if function in ("min", "max"):
            if any(value != value for value in values):
                return float("nan")
            return min(values) if function == "min" else max(values)
        total = 0
        for value in values:
            total += value
        return total if function == "sum" else total / len(values)

    def state(self) -> dict:
        """Every open window by its key, and the watermark by ``None``."""
        parts = {}
        for function, *column in self.aggregates.values():
            if column:
                parts[f"count({column[0]})"] = ("count", column[0])
                if function != "count":
                    function = "sum" if function == "avg" else function
                    parts[f"{function}({column[0]})"] = (function, column[0])
        has_number = not isinstance(self.window, CountWindow) or self.window.lanes > 1
        states = {}
        for (group, number), window in self.windows.items():
            state = {"rows": len(window.rows), "opened": window.opened}
            state |= {name: self._aggregate(window.rows, *part) for name, part in parts.items()}
            if not group and isinstance(self.window, CountWindow):
                group = (True,)  # windows of no group have a key all the same
            states[(*group, number) if has_number else group] = state
        if self.watermark is not None:
            states[None] = {"watermark": self.watermark}
        return states


class ReferenceJoin:
    def __init__(self, on, within_us):
        self.on = on
        self.within_us = within_us
        self.rows: tuple[list[Row], list[Row]] = ([], [])
        self.watermark: int | None = None
        self.positions = (0, 0)

    def take(self, row: Row) -> list[dict]:
        if self.watermark is None or self.watermark < row.timestamp_us:
            self.watermark = row.timestamp_us
        self.positions = row.positions
        pairs = []
        key = [row.values[name] for name in self.on]
        for other in self.rows[1 - row.source]:
            is_match = None not in key and key == [other.values[name] for name in self.on]
            is_near = abs(other.timestamp_us - row.timestamp_us) <= self.within_us
            if is_match and is_near and other.timestamp_us >= self.watermark - self.within_us:
                pairs.append((row, other) if row.source == 0 else (other, row))
        self.rows[row.source].append(row)
        return [self._pair(left, right) for left, right in pairs]

    def _pair(self, left, right):
        pair = {name: left.values[name] for name in self.on}
        for row, other, suffix in ((left, right, "_left"), (right, left, "_right")):
            for name, value in row.values.items():
                if name not in self.on:
                    pair[name + suffix if name in other.values else name] = value
        return pair

    def state(self) -> dict:
        if self.watermark is None:
            return {}
        lows = []
        for side in (0, 1):
            waiting = [
                row.offset
                for row in self.rows[side]
                if row.timestamp_us >= self.watermark - self.within_us
                and all(row.values[name] is not None for name in self.on)
            ]
            lows.append(min(waiting, default=self.positions[side]))
        return {None: {"low_left": lows[0], "low_right": lows[1], "watermark": self.watermark}}


# Driving an operator -------------------------------------------------------------------------


def make_rows(source: int, schema: pa.Schema, columns: dict[str, list], timestamps_us, offsets):
    """Rows from columns; the values are what Arrow makes of them."""
    batch = pa.record_batch(columns, schema=schema)
    values = batch.to_pylist()
    return [
        Row(source, int(offset), int(time), each)
        for offset, time, each in zip(offsets, timestamps_us, values, strict=True)
    ]


def make_batches(rows: list[Row], schema: pa.Schema, rng: random.Random) -> Iterator[InputBatch]:
    """The rows cut into batches at random, some of them empty."""
    columns = [pa.array([row.values[f.name] for row in rows], f.type) for f in schema]
    whole = pa.record_batch(columns, schema=schema)
    offsets = np.array([row.offset for row in rows], np.int64)
    timestamps_us = np.array([row.timestamp_us for row in rows], np.int64)
    at = 0
    while at < len(rows) or rng.random() < 0.2:
        # Slices: buffers that do not start at their first byte.
        part = slice(at, at + rng.choice([0, 1, 2, 5, 30]))
        yield InputBatch(
            whole.slice(part.start, part.stop - part.start), offsets[part], timestamps_us[part]
        )
        at = part.stop


def make_steps(
    inputs: list[list[Row]],
    schemas: list[pa.Schema],
    rng: random.Random,
    start: tuple[int, ...],
    stop: tuple[int, ...] | None = None,
) -> list[Step]:
    """Steps over the rows whose offsets are in ``[start, stop)``, cut at random."""
    parts = [
        [row for row in rows if start[j] <= row.offset and (stop is None or row.offset < stop[j])]
        for j, rows in enumerate(inputs)
    ]
    sources = [make_batches(rows, schema, rng) for rows, schema in zip(parts, schemas, strict=True)]
    return list(merge(sources, np.array(start), schemas, rng.choice([1, 3, 17, 1000])))


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def plain(value: Any) -> Any:
    """A value in which equal means equal to the last bit; a null field is no field."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return (value - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return type(value)(plain(each) for each in value)
    return value


class Driven:
    """An operator, its open slots, and all it has put out."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.open: set[int] = set()
        self.opened: list[int] = []
        """Slots that opened in the last step."""
        self.output: list[dict] = []
        self.causes: list[tuple[int, ...]] = []
        """Positions after the row that caused each output row."""

    def apply(self, step: Step) -> None:
        effects = self.operator.apply(step)
        closed, opened = effects.closed.tolist(), effects.opened.tolist()
        self.opened = opened
        assert len(set(closed)) == len(closed)
        assert len(set(opened)) == len(opened)
        assert self.open.issuperset(closed)
        self.open.difference_update(closed)
        assert self.open.isdisjoint(opened)
        self.open.update(opened)
        assert len(self.open) == self.operator.open_windows
        assert effects.rows.schema.equals(self.operator.output_schema)
        effects.rows.validate(full=True)
        assert (np.diff(effects.causes) >= 0).all()
        assert len(effects.causes) == effects.rows.num_rows
        if effects.keys is not None:
            assert len(effects.keys) == effects.rows.num_rows
            assert effects.keys.type == pa.struct(list(self.operator.key_schema))
        self.output += plain(effects.rows.to_pylist())
        self.causes += [tuple(step.positions[cause].tolist()) for cause in effects.causes]

    def require_equal(
        self,
        reference: Any,
        inputs: list[list[Row]],
        schemas: list[pa.Schema],
        rng: random.Random,
        shown: Callable[[dict], dict] = lambda state: state,
    ) -> None:
        """Take all input in random steps, and the reference a row at a time.

        The state is equal after each step, as ``shown``, and in the end so is all output.
        """
        start = (0,) * len(inputs)
        rows = iter(in_order(inputs, list(start)))
        expected, causes = [], []
        for step in make_steps(inputs, schemas, rng, start):
            self.apply(step)
            for _ in range(step.rows):
                row = next(rows)
                results = reference.take(row)
                expected += plain(results)
                causes += [row.positions] * len(results)
            assert shown(self.state()) == plain(reference.state())
        assert next(rows, None) is None
        assert self.output == expected
        assert self.causes == causes

    def snapshot(self, slots: list[int]) -> tuple[pa.StructArray, pa.StructArray]:
        keys, states = self.operator.snapshot(np.array(slots, np.int64))
        keys.validate(full=True)
        states.validate(full=True)
        assert keys.type == pa.struct(list(self.operator.key_schema))
        assert states.type == pa.struct(list(self.operator.state_schema))
        return keys, states

    def state(self) -> dict:
        """Every open window by its key, as the references' ``state``."""
        keys, states = self.snapshot(sorted(self.open))
        by_key = {
            None if key is None else tuple(map(group_value, key.values())): state
            for key, state in zip(keys.to_pylist(), states.to_pylist(), strict=True)
        }
        assert len(by_key) == len(self.open)
        return plain(by_key)
