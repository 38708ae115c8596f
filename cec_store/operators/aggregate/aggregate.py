"""Windowed aggregates: the operator by which the paper explains eventual checkpoints (II, III).

Results leave in the order (row that closed the window, end of a time window, row that opened
it), which a window's state says by itself: the order outlives a recovery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cec_store.format.columns import Ints, flags_of, values_of
from cec_store.format.schema import RecordKind
from cec_store.operators.aggregate.accumulators import Accumulators
from cec_store.operators.aggregate.count_slots import CountSlots
from cec_store.operators.aggregate.slots import NO_SLOTS, Closed, Rows
from cec_store.operators.aggregate.time_slots import TimeSlots
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.operators.contract import Effects, InputBatch, Step
from cec_store.operators.inputs.merge import interleave
from cec_store.operators.keys.encoder import KeyEncoder, key_type, valid_of

ENTRIES_MAX = 1 << 20
"""Rows times open windows a row that are worked on at once."""


class Aggregate:
    """One output row for each window of each group, when the window closes.

    ``aggregates`` maps an output column to ``("count",)`` or to one of avg, count, max, min, sum
    with an input column: ``{"delay": ("avg", "dep_delay")}``. Nulls are ignored as in SQL.
    ``event_time`` names the column that time windows go by (a timestamp, a date, or integers
    that are microseconds since the epoch); left out, it is the row's timestamp.

    A window's key is its group; a time window's is also ``_window``, its start in microseconds,
    and so, where count windows overlap, is its ordinal. A time-windowed operator remembers its
    watermark as one more window, whose key is null.

    Raises ``ValueError`` for columns or functions that do not fit.
    """

    output_kind = RecordKind.RESULT

    def __init__(
        self,
        *,
        group_by: Sequence[str],
        aggregates: Mapping[str, Sequence[str]],
        window: CountWindow | TimeWindow,
        input_schema: pa.Schema,
        event_time: str | None = None,
        inputs: int = 1,
    ) -> None:
        self.inputs = inputs
        self._group_by = list(group_by)
        self._window = window
        self._event_time = event_time
        groups = [pa.field(name, key_type(_field(input_schema, name).type)) for name in group_by]
        if event_time is not None:
            _check_event_time(window, _field(input_schema, event_time))
        accumulators = Accumulators(aggregates, input_schema)
        is_timed = isinstance(window, TimeWindow)
        self._has_number = is_timed or window.lanes > 1
        number = [pa.field("_window", pa.int64())] if self._has_number else []
        self.key_schema = pa.schema([*groups, *number])
        state = [pa.field("rows", pa.int64()), pa.field("opened", pa.int64())]
        state += [pa.field("watermark", pa.int64())] if is_timed else []
        self._state_fields = [*state, *accumulators.state_fields]
        self.state_schema = pa.schema(self._state_fields)
        extra = [] if not self._has_number else [pa.field("window", pa.int64())]
        if is_timed:
            time = pa.timestamp("us", "UTC")
            extra = [pa.field("window_start", time), pa.field("window_end", time)]
        self.output_schema = pa.schema([*groups, *extra, *accumulators.output_fields])
        if len(set(self.output_schema.names)) < len(self.output_schema):
            raise ValueError(f"two output columns of one name in {self.output_schema.names}")
        self._accumulators = accumulators
        self._slots: CountSlots | TimeSlots
        if isinstance(window, TimeWindow):
            self._slots = TimeSlots(window, KeyEncoder(self.key_schema), accumulators)
        else:
            self._slots = CountSlots(window, KeyEncoder(pa.schema(groups)), accumulators)

    @property
    def open_windows(self) -> int:
        return self._slots.open_count

    @property
    def late_rows(self) -> int:
        """Rows that came too late for at least one of their windows, since this was made."""
        return self._slots.late_rows if isinstance(self._slots, TimeSlots) else 0

    @property
    def untimed_rows(self) -> int:
        """Rows without an event time, which belong to no window, since this was made."""
        return self._slots.untimed_rows if isinstance(self._slots, TimeSlots) else 0

    def apply(self, step: Step) -> Effects:
        slots = self._slots
        before_us = slots.watermark_us if isinstance(slots, TimeSlots) else None
        slots.restored = None
        slots.fresh = []
        done: list[Closed] = []
        for offset, part in self._parts(step):
            closed = slots.take(part)
            done.append(replace(closed, causes=closed.causes + offset))
        closed = done[0] if len(done) == 1 else _joined(done, self._accumulators)
        keys = self._keys(closed.slots, closed.numbers)
        effects = Effects(
            rows=self._output(keys, closed),
            keys=keys,
            causes=closed.causes,
            closed=closed.slots[closed.opened < int(step.positions[:1].sum())],
            opened=self._still_open(slots.fresh),
        )
        if isinstance(slots, TimeSlots) and before_us not in (None, slots.watermark_us):
            effects = replace(effects, renewed=np.zeros(1, np.int64))  # the watermark's slot
        slots.trim()
        return effects

    def snapshot(self, slots: Ints) -> tuple[pa.StructArray, pa.StructArray]:
        held = self._slots
        windows, is_mark = slots, None
        if isinstance(held, TimeSlots):
            is_mark = np.equal(slots, 0)  # the watermark's slot
            windows = slots[~is_mark]
        columns = [pa.array(held.rows[windows]), pa.array(held.opened[windows])]
        if isinstance(held, TimeSlots):
            columns.append(pa.nulls(len(windows), pa.int64()))
        columns += self._accumulators.states([values[windows] for values in held.arrays])
        keys = self._keys(windows)
        states = pa.StructArray.from_arrays(columns, fields=self._state_fields)
        if isinstance(held, TimeSlots) and is_mark is not None and is_mark.any():
            # The watermark stands after the windows, and is taken from there to its place.
            mark = {"watermark": held.watermark_us}
            states = pa.concat_arrays([states, pa.array([mark], states.type)])
            place = np.where(is_mark, len(windows), np.cumsum(~is_mark) - 1)
            keys = keys.take(pa.array(place, mask=is_mark))
            states = states.take(pa.array(place))
        return keys, states

    def restore(self, keys: pa.StructArray, states: pa.StructArray, positions: Ints) -> Ints:
        held = self._slots
        slots = np.zeros(len(keys), np.int64)
        is_mark = flags_of(keys.is_null())
        if isinstance(held, TimeSlots) and is_mark.any():
            held.watermark_us = states.field("watermark")[int(np.flatnonzero(is_mark)[0])].as_py()
            held.rows[0] = 1
        windows = np.flatnonzero(~is_mark)
        keys, states = keys.take(pa.array(windows)), states.take(pa.array(windows))
        columns = [keys.field(place) for place in range(len(self.key_schema))]
        numbers = np.zeros(len(windows), np.int64)
        if self._has_number:
            numbers = np.array(values_of(columns[-1], "i8"))
        codes = held.keys.encode(columns[: len(held.keys.schema)])
        slots[windows] = held.slots(codes, numbers)
        rows, opened = (values_of(states.field(name), "i8") for name in ("rows", "opened"))
        first = len(self.state_schema) - len(self._accumulators.state_fields)
        accumulated = [states.field(place) for place in range(first, len(self.state_schema))]
        arrays = self._accumulators.from_states(accumulated)
        held.fill(slots[windows], rows, opened, numbers, arrays)
        held.open_count = len(slots)
        held.restored = np.zeros((len(held.rows), self.inputs), np.int64)
        held.restored[slots] = positions
        return slots

    def preload_start(self) -> None:
        """Nothing: the state is all there is."""

    def preload(self, source: int, batch: InputBatch) -> None:
        raise AssertionError("an aggregate asks for no input before its positions")

    def catch_up(self, step: Step) -> None:
        for _, part in self._parts(step):
            self._slots.catch_up(part)

    def _parts(self, step: Step) -> Iterator[tuple[int, Rows]]:
        """The step's rows with the place of the first, so few that their windows fit in memory."""
        batch = interleave(step)
        times_us, has_time = step.timestamps_us, None
        if self._event_time is not None:
            column = batch.column(self._event_time)
            times_us, has_time = _times_us(column), valid_of(column)
        if self.inputs == 1:
            sums = after = step.positions[:, 0]
        else:
            sums = step.positions.sum(axis=1)
            after = step.positions[np.arange(step.rows), step.source]
        groups = [batch.column(name) for name in self._group_by]
        rows = Rows(batch, groups, sums, times_us, has_time, (step.source, after))
        row_count = max(1, ENTRIES_MAX // self._window.lanes)
        if step.rows <= row_count:
            yield 0, rows
            return
        for start in range(0, step.rows, row_count):
            yield start, rows.part(start, min(start + row_count, step.rows))

    def _keys(self, slots: Ints, numbers: Ints | None = None) -> pa.StructArray:
        """Keys of these slots' windows; of windows that have closed, with their ``numbers``."""
        keys = self._slots.keys.keys(self._slots.codes(slots))
        if len(keys.type) == len(self.key_schema):
            return keys
        if numbers is None:
            numbers = self._slots.numbers[slots]
        columns = [keys.field(place) for place in range(len(keys.type))]
        return pa.StructArray.from_arrays(
            [*columns, pa.array(numbers)], fields=list(self.key_schema)
        )

    def _output(self, keys: pa.StructArray, closed: Closed) -> pa.RecordBatch:
        columns = [keys.field(place) for place in range(len(self._group_by))]
        if isinstance(self._window, TimeWindow):
            time = pa.timestamp("us", "UTC")
            columns.append(pa.array(closed.numbers).cast(time))
            columns.append(pa.array(closed.numbers + self._window.size_us).cast(time))
        elif self._has_number:
            columns.append(pa.array(closed.numbers))
        columns += self._accumulators.results(closed.arrays, closed.rows)
        return pa.record_batch(columns, schema=self.output_schema)

    def _still_open(self, fresh: list[Ints]) -> Ints:
        """Slots of the windows that opened in this step and have not closed in it."""
        slots = fresh[0] if len(fresh) == 1 else np.unique(np.concatenate([NO_SLOTS, *fresh]))
        return slots[self._slots.rows[slots] > 0]


def _joined(done: list[Closed], accumulators: Accumulators) -> Closed:
    """What closed in the parts of a step, one after the other."""
    arrays = [
        np.concatenate([closed.arrays[place] for closed in done])
        for place in range(len(accumulators.state_fields))
    ]
    return Closed(
        slots=np.concatenate([closed.slots for closed in done]),
        causes=np.concatenate([closed.causes for closed in done]),
        rows=np.concatenate([closed.rows for closed in done]),
        opened=np.concatenate([closed.opened for closed in done]),
        numbers=np.concatenate([closed.numbers for closed in done]),
        arrays=arrays,
    )


def _field(schema: pa.Schema, name: str) -> pa.Field:
    if schema.get_field_index(name) < 0:
        raise ValueError(f"no column {name!r} in the input; there are {', '.join(schema.names)}")
    return schema.field(name)


_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


def _check_event_time(window: CountWindow | TimeWindow, field: pa.Field) -> None:
    if isinstance(window, CountWindow):
        raise ValueError("count windows go by no event time")
    is_time = pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)
    if not is_time and not pa.types.is_integer(field.type):
        raise ValueError(f"event time {field.name!r} is no timestamp but {field.type}")


def _times_us(column: pa.Array) -> Ints:
    """A column of times as microseconds since the epoch; under a null anything."""
    data_type = column.type
    sign = "u" if pa.types.is_unsigned_integer(data_type) else "i"
    values = values_of(column, f"{sign}{data_type.bit_width // 8}").astype(np.int64, copy=False)
    if pa.types.is_date32(data_type):
        return values * (86_400 * _US["s"])
    if pa.types.is_date64(data_type):
        return values * _US["ms"]
    if pa.types.is_timestamp(data_type):
        # Rounded down, as windows are: a nanosecond before an edge is before it.
        return values // 1_000 if data_type.unit == "ns" else values * _US[data_type.unit]
    return values
