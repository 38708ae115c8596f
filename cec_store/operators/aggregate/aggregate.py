"""Windowed aggregates: the operator by which the paper explains eventual checkpoints (II, III).

Results leave in the order (row that closed the window, end of a time window or session, row that
opened it). All three follow from a window's state, so the order is the same after a recovery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Union

import numpy as np
import pyarrow as pa

from cec_store.errors import SchemaMismatch
from cec_store.format.arrow_values import stored_schema
from cec_store.format.columns import Ints, values_of
from cec_store.format.schema import RecordKind
from cec_store.operators.aggregate.accumulators import Accumulators
from cec_store.operators.aggregate.count_slots import CountSlots
from cec_store.operators.aggregate.deadlines import DEADLINE, Deadlines
from cec_store.operators.aggregate.session_slots import SessionSlots
from cec_store.operators.aggregate.slots import ClosedWindows, InputRows, Slots
from cec_store.operators.aggregate.time_slots import TimeSlots
from cec_store.operators.aggregate.windows import CountWindow, SessionWindow, TimeWindow
from cec_store.operators.contract import Effects, Operator, Step
from cec_store.operators.keys.encoder import key_type, valid_of
from cec_store.operators.taxonomy import Chance, NetworkType, chance_of_order

GROUP_OF_ALL = pa.field("_all", pa.bool_())
"""Key column of windows that go by no group and do not start at a time: always true."""
Window = Union[CountWindow, TimeWindow, SessionWindow]  # noqa: UP007 - is evaluated
ENTRIES_MAX = 1 << 20
"""Rows times open windows a row that are worked on at once."""


class Aggregate(Operator):
    """One output row for each window of each group, when the window closes.

    ``group_by`` may be empty: the rows of all inputs are one group, and output has no group column.

    ``aggregates`` maps an output column to ``("count",)`` or to one of avg, count, max, min, sum
    with an input column: ``{"delay": ("avg", "dep_delay")}``. Nulls are ignored as in SQL.
    Sums of integers are exact: uint64 of uint64 and int64 of all others; one that leaves that is
    a :class:`SchemaMismatch`. An average of integers is the float64 nearest to the exact one.

    ``event_time`` names the column that time windows and sessions go by (a timestamp, a date, or
    integers that are microseconds since the epoch); left out, it is the row's timestamp.

    A window's key is its group; a time window's is also ``_window``, its start in microseconds,
    and so, where count windows overlap, is its ordinal. A session's is the time of the row that
    opened it. The key of count windows without a group has ``_all``, which is true. An operator
    over time windows or sessions remembers its watermark as one more window, whose key is null.

    A row joins the sessions within its gap into the one that opened first; the others leave no
    result. Sums of floats in sessions are exact before they are rounded, in any order of rows.

    With ``timeout_us`` a window that has been open for so long by the clock leaves its result as it
    is, before the next row is taken; rows that come for it later open it anew, for a second result.
    Sessions have no timeout. With ``by_arrival`` several inputs are taken as they come, and not by
    their timestamps; with ``idle_timeout_us`` one without rows is waited for no longer than that.

    Raises ``ValueError`` for columns or functions that do not fit.

    Examples:
        >>> Aggregate(group_by=["item"], aggregates={"mean": ("avg", "price")},
        ...           window=CountWindow(2), input_schema=bids.schema).output_schema.names
        ['item', 'mean']
    """

    output_kind = RecordKind.RESULT
    can_be_followed = True

    def __init__(
        self,
        *,
        group_by: Sequence[str],
        aggregates: Mapping[str, Sequence[str]],
        window: Window,
        input_schema: pa.Schema,
        event_time: str | None = None,
        inputs: int = 1,
        timeout_us: int | None = None,
        by_arrival: bool = False,
        idle_timeout_us: int | None = None,
    ) -> None:
        self.inputs = inputs
        self._group_by = list(group_by)
        self._window = window
        self._event_time = event_time
        input_schema = stored_schema(input_schema)
        groups = [pa.field(name, key_type(_field(input_schema, name).type)) for name in group_by]
        is_session = isinstance(window, SessionWindow)
        self._accumulators = Accumulators(aggregates, input_schema, can_merge=is_session)
        self._slots: Slots
        key_groups = groups or [GROUP_OF_ALL]
        if isinstance(window, TimeWindow):
            self._slots = TimeSlots(window, groups, self._accumulators)
            self.operator_type = NetworkType.CONVERGENT
        elif isinstance(window, SessionWindow):
            self._slots = SessionSlots(window, groups, self._accumulators)
            self.operator_type = NetworkType.DETERMINISTIC
            self.can_run_ahead = False
        else:
            self._slots = CountSlots(window, key_groups, self._accumulators)
            self.operator_type = NetworkType.DETERMINISTIC
        if event_time is not None:
            _check_event_time(self._slots, _field(input_schema, event_time))
        self.key_schema = self._slots.key_schema
        self.state_schema = self._slots.state_schema
        self._deadlines: Deadlines | None = None
        self.idle_timeout_us = idle_timeout_us
        self.chances |= chance_of_order(by_arrival, idle_timeout_us)
        if timeout_us is not None:
            _check_timeout(timeout_us, window)
            self.chances |= Chance.CLOCK
            self._deadlines = Deadlines(timeout_us)
            self._slots.closes_early = True
            self.state_schema = self.state_schema.append(DEADLINE)
        if self.chances:
            self.operator_type = NetworkType.ARBITRARY
        self.output_schema = pa.schema(
            [*groups, *self._slots.output_fields, *self._accumulators.output_fields]
        )
        if len(set(self.output_schema.names)) < len(self.output_schema):
            raise ValueError(f"two output columns of one name in {self.output_schema.names}")

    @property
    def open_windows(self) -> int:
        return self._slots.open_count

    @property
    def late_rows(self) -> int:
        """Rows that came too late for at least one of their windows, or for a session, since this
        was made.
        """
        return self._slots.late_rows

    @property
    def untimed_rows(self) -> int:
        """Rows without an event time, which belong to no window, since this was made."""
        return self._slots.untimed_rows

    def apply(self, step: Step) -> Effects:
        slots = self._slots
        slots.begin_step()
        done: list[ClosedWindows] = []
        if self._deadlines is not None:
            assert step.choices.clock_us is not None
            due = self._deadlines.take_due(slots, step.choices.clock_us)
            done.append(slots.close(due, np.full(len(due), -1)))
        for offset, part in self._parts(step):
            closed = slots.take(part)
            done.append(replace(closed, causes=closed.causes + offset))
        closed = done[0] if len(done) == 1 else _joined(done)
        keys = slots.keys_of(closed.slots, closed.numbers)
        first = _first_position(step)
        merged, into = slots.merged()
        # One that opened in this step has no record that has to be taken back.
        is_known = slots.opened[merged] < first
        merged, into = merged[is_known], np.unique(into[is_known])
        opened, grown = slots.still_open(), into[slots.rows[into] > 0]
        is_result_last = len(closed.causes) > 0 and closed.causes[-1] < step.rows - 1
        if slots.depends_on_cuts and is_result_last and not len(opened) + len(grown) + len(merged):
            grown = np.zeros(1, np.int64)  # the watermark's, so that the log ends at the step's end
        effects = Effects(
            rows=self._output(keys, closed),
            keys=keys,
            causes=closed.causes,
            closed=np.concatenate([closed.slots[closed.opened < first], merged]),
            opened=opened,
            merged=slots.keys_of(merged) if len(merged) else None,
            grown=grown,
            renewed=slots.renewed(),
        )
        if self._deadlines is not None:
            assert step.choices.clock_us is not None
            self._deadlines.opened(effects.opened, slots.own_slots, step.choices.clock_us)
        slots.trim()
        return effects

    def snapshot(self, slots: Ints) -> tuple[pa.StructArray, pa.StructArray]:
        keys, states = self._slots.snapshot(slots)
        if self._deadlines is not None:
            deadlines = self._deadlines.of(slots, self._slots.own_slots)
            states = pa.StructArray.from_arrays(
                [*states.flatten(), deadlines], fields=list(self.state_schema)
            )
        return keys, states

    def restore(self, keys: pa.StructArray, states: pa.StructArray, positions: Ints) -> Ints:
        slots = self._slots.restore(keys, states)
        if self._deadlines is not None:
            own_slots = self._slots.own_slots
            self._deadlines.restore(slots, own_slots, states.field(DEADLINE.name))
        self._slots.note_restored(slots, positions)
        return slots

    def let_go(self, keys: pa.StructArray) -> Ints:
        slots = self._slots.find(keys)
        slots = slots[slots >= 0]
        self._slots.let_go(slots)
        return slots

    def find(self, keys: pa.StructArray, upto: Ints) -> Ints:
        slots = self._slots.find(keys)
        return np.where(self._slots.opened[slots] <= upto, slots, -1)

    def catch_up(self, step: Step) -> None:
        for _, part in self._parts(step):
            self._slots.catch_up(part)

    def _parts(self, step: Step) -> Iterator[tuple[int, InputRows]]:
        """The step's rows with the place of the first, so few that their windows fit in memory."""
        batch = step.in_order()
        times_us, has_time = step.timestamps_us, None
        if self._event_time is not None:
            column = batch.column(self._event_time)
            times_us, has_time = _times_us(self._event_time, column), valid_of(column)
        if self.inputs == 1:
            sums = after = step.positions[:, 0]
        else:
            sums = step.positions.sum(axis=1)
            after = step.positions[np.arange(step.rows), step.source]
        groups = [batch.column(name) for name in self._group_by]
        if not groups and GROUP_OF_ALL.name in self.key_schema.names:
            groups = [pa.array(np.ones(step.rows, np.bool_))]
        rows = InputRows(batch, groups, sums, times_us, has_time, (step.source, after))
        row_count = max(1, ENTRIES_MAX // self._window.lanes)
        if step.rows <= row_count:
            yield 0, rows
            return
        for start in range(0, step.rows, row_count):
            yield start, rows.part(start, min(start + row_count, step.rows))

    def _output(self, keys: pa.StructArray, closed: ClosedWindows) -> pa.RecordBatch:
        columns = [keys.field(place) for place in range(len(self._group_by))]
        columns += self._slots.output_columns(closed)
        columns += self._accumulators.results(closed.arrays, closed.rows)
        return pa.record_batch(columns, schema=self.output_schema)


def _first_position(step: Step) -> int:
    """The scalar position after its first row; windows that opened earlier lie below."""
    if step.rows:
        return int(step.positions[0].sum())
    return 0 if step.begin is None else int(step.begin.sum()) + 1


def _joined(done: list[ClosedWindows]) -> ClosedWindows:
    """Windows that closed in the parts of a step, one part after the other."""
    columns = {
        name: np.concatenate([getattr(closed, name) for closed in done])
        for name in ("slots", "causes", "rows", "opened", "numbers")
    }
    arrays = [np.concatenate(parts) for parts in zip(*(c.arrays for c in done), strict=True)]
    spans = [closed.spans for closed in done if closed.spans is not None]
    return ClosedWindows(**columns, arrays=arrays, spans=np.concatenate(spans) if spans else None)


def _field(schema: pa.Schema, name: str) -> pa.Field:
    if schema.get_field_index(name) < 0:
        raise ValueError(f"no column {name!r} in the input; there are {', '.join(schema.names)}")
    return schema.field(name)


def _check_timeout(timeout_us: int, window: Window) -> None:
    if timeout_us < 1:
        raise ValueError(f"a timeout of {timeout_us} microseconds gives up what has just begun")
    if isinstance(window, SessionWindow):
        raise ValueError(
            "sessions have no timeout: one that the clock closed could no longer be told from the "
            "session that a later row of it opens"
        )
    if isinstance(window, CountWindow) and window.lanes > 1:
        raise ValueError(
            "count windows that overlap have no timeout: they begin by how many rows a key has "
            "had, not by when"
        )


_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


def _check_event_time(slots: Slots, field: pa.Field) -> None:
    if not slots.goes_by_time:
        raise ValueError("count windows go by no event time")
    is_time = pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)
    if not is_time and not pa.types.is_integer(field.type):
        raise ValueError(f"event time {field.name!r} is no timestamp but {field.type}")


def _times_us(name: str, column: pa.Array) -> Ints:
    """A column of times as microseconds since the epoch; under a null anything.

    Raises :class:`SchemaMismatch` where a time is outside int64.
    """
    data_type = column.type
    sign = "u" if pa.types.is_unsigned_integer(data_type) else "i"
    values = values_of(column, f"{sign}{data_type.bit_width // 8}")
    if pa.types.is_timestamp(data_type) and data_type.unit == "ns":
        # Rounded down, as windows are: a nanosecond before an edge is before it.
        return values // 1_000
    factor = 1
    if pa.types.is_date32(data_type):
        factor = 86_400 * _US["s"]
    elif pa.types.is_date64(data_type):
        factor = _US["ms"]
    elif pa.types.is_timestamp(data_type):
        factor = _US[data_type.unit]
    valid = valid_of(column)
    checked = values if valid is None else values[valid]
    largest = (2**63 - 1) // factor
    if len(checked) and (checked.max() > largest or checked.min() < -largest):
        raise SchemaMismatch(
            f"event time {name!r}: a time outside 64 bits of microseconds since 1970; mend the "
            "row, or make it null, which leaves it out of all windows"
        )
    return values.astype(np.int64, copy=False) * factor
