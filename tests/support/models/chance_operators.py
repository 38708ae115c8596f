"""Operators that sort, resample, or depend on chance, as one would first write them: row by row.

They take what the log says of each step: its rows in the order in which they were taken, the clock
and the seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cec_store.format.schema import RecordKind
from cec_store.queues.output_queue import OutputQueue
from support.models.reference_operators import ReferenceAggregate, ReferenceJoin, Row, in_order


@dataclass
class LoggedStep:
    rows: list[Row]
    end: tuple[int, ...]
    clock_us: int | None
    seed: int | None


def logged_steps(queue: OutputQueue, inputs: list[list[Row]]) -> list[LoggedStep]:
    """What the log says was taken, from its first step on."""
    position, steps = [0] * len(inputs), []
    for end, choice in determinants_of(queue):
        parts = [
            [row for row in rows if low <= row.offset < high]
            for rows, low, high in zip(inputs, position, end, strict=True)
        ]
        rows = []
        if choice["arrivals"] is None:
            rows = in_order(parts, position)
            position = list(end)
        else:
            runs = choice["arrivals"]
            for source, count in zip(runs[::2], runs[1::2], strict=True):
                for _ in range(count):
                    row = parts[source].pop(0)
                    position[source] = row.offset + 1
                    row.positions = tuple(position)
                    rows.append(row)
            assert not any(parts)
            assert tuple(position) == end
        steps.append(LoggedStep(rows, end, choice["clock_us"], choice["seed"]))
    return steps


def determinants_of(queue: OutputQueue) -> list[tuple[tuple[int, ...], dict]]:
    """Position and choice of each determinant, decoded record by record."""
    chain, found = queue.chain(), []
    for frame in chain.frames():
        for record in chain.records(frame).to_pylist():
            if record["_kind"] == RecordKind.DETERMINANT:
                names = sorted(name for name in record if name.startswith("_input_"))
                found.append((tuple(record[name] for name in names), record["_determinant"]))
    return found


class ReferenceUnion:
    def take_step(self, step: LoggedStep) -> list[dict]:
        return [row.values for row in step.rows]

    def state(self) -> dict:
        return {}


class ReferenceRandomFilter(ReferenceUnion):
    def __init__(self, share: float) -> None:
        self.share = share

    def take_step(self, step):
        draws = np.random.Philox(key=step.seed).random_raw(len(step.rows)).tolist()
        return [row.values for row, draw in zip(step.rows, draws, strict=True)
                if draw / 2**64 < self.share]  # fmt: skip


class ReferenceTimedAggregate(ReferenceAggregate):
    """With a timeout, or none."""

    def __init__(self, group_by, aggregates, window, timeout_us=None):
        super().__init__(group_by, aggregates, window)
        self.timeout_us = timeout_us
        self.deadlines = {}

    def take_step(self, step):
        results = []
        due = [key for key in self.windows if self._deadline(key) <= (step.clock_us or 0)]
        for key in sorted(due, key=lambda key: (self._deadline(key), self.windows[key].opened)):
            extra = {}
            if self.goes_by_time:
                extra = {"window_start": key[1], "window_end": key[1] + self.window.size_us}
            results.append(self._result(self.windows.pop(key), extra))
            self.seen.pop(key[0], None)
        before = dict(self.windows)
        for row in step.rows:
            results += self.take(row)
        for key, window in self.windows.items():
            if before.get(key) is not window and self.timeout_us is not None:
                self.deadlines[key] = (step.clock_us + self.timeout_us, window)
        return results

    @property
    def goes_by_time(self):
        return hasattr(self.window, "size_us")

    def _deadline(self, key):
        deadline, window = self.deadlines.get(key, (math.inf, None))
        return deadline if window is self.windows.get(key) else math.inf

    def state(self):
        states = super().state()
        if self.timeout_us is not None:
            for key in self.windows:
                states[(*key[0], key[1]) if self.goes_by_time else key[0]]["deadline_us"] = (
                    self._deadline(key)
                )
        return states


class ReferenceTimedJoin(ReferenceJoin):
    """With a timeout, or none."""

    def __init__(self, on, within_us, timeout_us=None):
        super().__init__(on, within_us)
        self.timeout_us = timeout_us
        self.clocks = []

    def take_step(self, step):
        if self.timeout_us is not None:
            limit = step.clock_us - self.timeout_us
            self.clocks = [each for each in self.clocks if each[0] > limit]
            for rows in self.rows:
                rows[:] = [row for row in rows if row.clock_us > limit]
        pairs = []
        for row in step.rows:
            row.clock_us = step.clock_us
            pairs += self.take(row)
        if step.rows and self.timeout_us is not None:
            self.clocks = [each for each in self.clocks if each[0] != step.clock_us]
            self.clocks.append((step.clock_us, *step.end))
        return pairs

    def state(self):
        states = super().state()
        if states and self.timeout_us is not None:
            lows = (states[None]["low_left"], states[None]["low_right"])
            waiting = [step for step in self.clocks if step[1] > lows[0] or step[2] > lows[1]]
            states[None]["clocks"] = [number for step in waiting for number in step]
        return states


class ReferenceBSort:
    def __init__(self, by, slack):
        self.by, self.slack = by, slack
        self.rows: list[Row] = []

    def take(self, row):
        self.rows.append(row)
        if len(self.rows) <= self.slack:
            return []
        least = min(self.rows, key=self._order)
        self.rows.remove(least)
        return [least.values]

    def take_step(self, step):
        return [values for row in step.rows for values in self.take(row)]

    def _order(self, row):
        value = row.values[self.by]
        is_nan = isinstance(value, float) and math.isnan(value)
        rank = 2 if value is None else int(is_nan)
        return (rank, 0 if rank else value, row.sum)

    def state(self):
        return {(row.sum,): row.values for row in self.rows}


class ReferenceResample(ReferenceJoin):
    def __init__(self, on, within_us, aggregates):
        super().__init__(on, within_us)
        self.aggregates = aggregates
        self.waiting: list[Row] = []

    def take(self, row):
        if self.watermark is None or self.watermark < row.timestamp_us:
            self.watermark = row.timestamp_us
        self.positions = row.positions
        limit = self.watermark - self.within_us
        done = [each for each in self.waiting if each.timestamp_us < limit]
        self.waiting = [each for each in self.waiting if each.timestamp_us >= limit]
        results = [self._resampled(each) for each in done]
        is_whole = all(row.values[name] is not None for name in self.on)
        if row.source == 0 and is_whole and row.timestamp_us + self.within_us >= self.watermark:
            self.waiting.append(row)
        if row.source == 1 and is_whole:
            self.rows[1].append(row)
        return results

    def _resampled(self, left):
        near = [
            right
            for right in self.rows[1]
            if abs(right.timestamp_us - left.timestamp_us) <= self.within_us
            and all(right.values[name] == left.values[name] for name in self.on)
        ]
        said = {
            name: ReferenceAggregate._aggregate(near, function, *column)
            for name, (function, *column) in self.aggregates.items()
        }
        return {**left.values, **said}

    def state(self):
        if self.watermark is None:
            return {}
        right = [
            row.offset
            for row in self.rows[1]
            if row.timestamp_us >= self.watermark - 2 * self.within_us
        ]
        lows = [
            min((row.offset for row in self.waiting), default=self.positions[0]),
            min(right, default=self.positions[1]),
        ]
        return {None: {"low_left": lows[0], "low_right": lows[1], "watermark": self.watermark}}
