"""Windowed stream join (CEC paper, V): its state is its input, so it remembers where to reread.

A row waits until no row to come can match it: the watermark W is the largest timestamp so far,
in the merged order of both inputs, and a row below W − within is gone. A pair leaves at the
later of its two rows, if the earlier one is not gone then. Both depend on the merged order alone,
never on how it was cut into steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.format.arrow_values import stored_schema
from cec_store.format.columns import Ints
from cec_store.format.schema import RecordKind
from cec_store.operators.contract import Effects, InputBatch, Operator, Step
from cec_store.operators.join import arrival_clocks
from cec_store.operators.join.arrival_clocks import ArrivalClocks
from cec_store.operators.join.schemas import joined_schema, key_schema
from cec_store.operators.join.waiting import NONE, WaitingRows, pairs_in_reach
from cec_store.operators.keys.encoder import KeyEncoder, valid_of
from cec_store.operators.taxonomy import Chance, NetworkType, chance_of_order

_WITHIN_MAX_US = 2**61
_STATE = pa.schema([("low_left", pa.int64()), ("low_right", pa.int64()), ("watermark", pa.int64())])


class WindowJoin(Operator):
    """Pairs of a left and a right row with equal keys, at most ``within_us`` apart in time.

    Output: the ``on`` columns once, then the other columns of the left and of the right, with a
    suffix where both have the name. Rows leave in the order (later row, offset of the earlier
    one). A null in a key matches nothing. Timestamps beyond ±2**62 microseconds would
    wrap. With ``timeout_us`` a row that has waited for so long by the clock is given up;
    ``by_arrival`` takes the inputs as they come; with ``idle_timeout_us`` one without rows is
    waited for no longer than that.

    Raises ``ValueError`` for key columns that are missing or differ in type, and for two output
    columns of one name.

    Examples:
        >>> WindowJoin(bids.schema, bids.schema, on=["item"], within_us=5).output_schema.names
        ['item', 'price_left', 'at_left', 'price_right', 'at_right']
    """

    inputs = 2
    can_be_followed = True
    operator_type = NetworkType.REPEATABLE
    """Repeats itself, as in the paper, and out of order as well: inputs are merged by the
    largest timestamp so far of each, so a row's own input has raised the watermark before it,
    wherever one began."""
    output_kind = RecordKind.DATA
    key_schema: pa.Schema | None = pa.schema([pa.field("_window", pa.int64())])
    """There is one window, and its key is null."""
    state_schema: pa.Schema | None = _STATE
    """Lowest offset of each input that is still needed, and its largest timestamp so far."""

    def __init__(
        self,
        left_schema: pa.Schema,
        right_schema: pa.Schema,
        *,
        on: Sequence[str],
        within_us: int,
        suffixes: tuple[str, str] = ("_left", "_right"),
        timeout_us: int | None = None,
        by_arrival: bool = False,
        idle_timeout_us: int | None = None,
    ) -> None:
        if not 0 <= within_us <= _WITHIN_MAX_US:
            raise ValueError(f"within_us is {within_us}, not in 0 to {_WITHIN_MAX_US}")
        self._on = list(on)
        self._within_us = within_us
        self._kept_us = (within_us, within_us)
        """Microseconds below the watermark within which a row can still match, by input."""
        left_schema, right_schema = stored_schema(left_schema), stored_schema(right_schema)
        self._keys = KeyEncoder(key_schema(left_schema, right_schema, self._on))
        self.output_schema = joined_schema(left_schema, right_schema, self._on, suffixes)
        self._waiting = (WaitingRows.none(left_schema), WaitingRows.none(right_schema))
        self._watermark_us: int | None = None
        self._next_unread: Ints = np.zeros(2, np.int64)
        self._restored: Ints | None = None
        self._lows: Ints | None = None
        """Offsets of :meth:`_needed`, or of the restored footprint; ``None`` before the first."""
        self._clocks: ArrivalClocks | None = None
        self.idle_timeout_us = idle_timeout_us
        self.chances |= chance_of_order(by_arrival, idle_timeout_us)
        if timeout_us is not None:
            if timeout_us < 1:
                raise ValueError(f"a timeout of {timeout_us} microseconds lets no row wait")
            self.chances |= Chance.CLOCK
            self._clocks = ArrivalClocks(timeout_us)
            self.state_schema = pa.schema([*_STATE, *arrival_clocks.FIELDS])
        if self.chances:
            self.operator_type = NetworkType.ARBITRARY

    @property
    def open_windows(self) -> int:
        return 0 if self._watermark_us is None else 1

    def apply(self, step: Step) -> Effects:
        window = np.zeros(1, np.int64)
        is_given_up = self._give_up(step)
        if not step.rows:
            return replace(self._effects(NONE, NONE, NONE), renewed=window[: int(is_given_up)])
        before_us = self._watermark_us
        held = [len(waiting.codes) for waiting in self._waiting]
        marks_us = self._mark(step.timestamps_us)
        codes = self._take(step, None)
        matches = [self._match(step, side, held, codes, marks_us) for side in (0, 1)]
        causes, left, right, partners = (
            np.concatenate(parts) for parts in zip(*matches, strict=True)
        )
        order = np.lexsort((partners, causes))
        effects = self._effects(causes[order], left[order], right[order])
        self._forget()
        if before_us is None:
            return replace(effects, opened=window)
        is_renewed = is_given_up or bool(marks_us[-1] > before_us)
        return replace(effects, renewed=window[: int(is_renewed)])

    def snapshot(self, slots: Ints) -> tuple[pa.StructArray, pa.StructArray]:
        lows = self._needed()
        state: dict[str, Any] = {
            "low_left": lows[0], "low_right": lows[1], "watermark": self._watermark_us,
        }  # fmt: skip
        if self._clocks is not None:
            state |= self._clocks.state()
        assert self.key_schema is not None
        assert self.state_schema is not None
        keys = pa.array([None] * len(slots), pa.struct(list(self.key_schema)))
        return keys, pa.array([state] * len(slots), pa.struct(list(self.state_schema)))

    def restore(self, keys: pa.StructArray, states: pa.StructArray, positions: Ints) -> Ints:
        if len(keys) > 1:
            raise ValueError(f"a join has one window, not {len(keys)}")
        # One that is followed goes on with the input that it has: a newer footprint says no more.
        if len(keys) and self._watermark_us is None:
            state = states[0].as_py()
            self._watermark_us = state["watermark"]
            self._restored = np.array(positions[0])
            self._next_unread = np.array(positions[0])
            self._lows = np.array([state["low_left"], state["low_right"]])
            if self._clocks is not None:
                self._clocks.restore(state["clocks"])
        return np.zeros(len(keys), np.int64)

    def let_go(self, keys: pa.StructArray) -> Ints:
        return NONE  # its window never closes

    def find(self, keys: pa.StructArray, upto: Ints) -> Ints:
        return np.full(len(keys), self.open_windows - 1, np.int64)

    def preload_start(self) -> Ints | None:
        return self._lows

    def preload(self, source: int, batch: InputBatch) -> None:
        assert self._restored is not None
        assert self._watermark_us is not None
        codes = self._codes(batch.batch)
        codes[batch.offsets >= self._restored[source]] = -1
        waiting = self._waiting[source]
        waiting.append(batch.batch, codes, batch.timestamps_us, batch.offsets)
        waiting.drop_before(self._watermark_us - self._kept_us[source])

    def catch_up(self, step: Step) -> None:
        if self._restored is None:
            return
        self._give_up(step)
        if not step.rows:
            return
        # Rows below the footprint's position are in its watermark already.
        self._mark(step.timestamps_us)
        self._take(step, self._restored)
        self._forget()

    def _give_up(self, step: Step) -> bool:
        """Let go of rows that have waited too long before this step; whether there are any."""
        if self._clocks is None:
            return False
        assert step.choices.clock_us is not None
        ends = self._clocks.give_up(step.choices.clock_us)
        if step.rows:
            self._clocks.came(step.choices.clock_us, step.end)
        if ends is None:
            return False
        for waiting, end in zip(self._waiting, ends.tolist(), strict=True):
            waiting.drop_below(end)
        if self._watermark_us is not None:
            self._forget()
        return True

    def _mark(self, timestamps_us: Ints) -> Ints:
        """The watermark at each row, the row included."""
        first = timestamps_us[0] if self._watermark_us is None else self._watermark_us
        marks_us = np.maximum(np.maximum.accumulate(timestamps_us), first)
        self._watermark_us = int(marks_us[-1])
        return marks_us

    def _take(self, step: Step, start: Ints | None) -> list[Ints]:
        """Let the step's rows wait, from the offsets ``start`` on; the key codes of each input."""
        codes = []
        for side, waiting in enumerate(self._waiting):
            rows = np.flatnonzero(step.source == side)
            offsets = step.positions[rows, side] - 1
            codes.append(self._codes(step.batches[side]))
            if start is not None:
                codes[side][offsets < start[side]] = -1
            waiting.append(step.batches[side], codes[side], step.timestamps_us[rows], offsets)
        self._next_unread = np.maximum(self._next_unread, step.positions[-1])
        return codes

    def _codes(self, batch: pa.RecordBatch) -> Ints:
        """The code of each row's key, -1 where a part of it is null."""
        columns = [batch.column(name) for name in self._on]
        is_whole = np.ones(batch.num_rows, np.bool_)
        for valid in map(valid_of, columns):
            if valid is not None:
                is_whole &= valid
        codes = np.full(batch.num_rows, -1, np.int64)
        if is_whole.all():
            return self._keys.encode(columns)
        codes[is_whole] = self._keys.encode(
            [column.filter(pa.array(is_whole)) for column in columns]
        )
        return codes

    def _match(
        self, step: Step, side: int, held: list[int], codes: list[Ints], marks_us: Ints
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """Pairs whose later row is of this input.

        The later row's place in the step, the places of the left and of the right row, and the
        offset of the earlier row.
        """
        mine, other = self._waiting[side], self._waiting[1 - side]
        mine_at, other_at = (
            np.flatnonzero(step.source == origin)[codes[origin] >= 0] for origin in (side, 1 - side)
        )
        order = np.concatenate([np.full(held[1 - side], -1), other_at])
        new = slice(held[side], None)
        latest_us = mine.timestamps_us[new] + self._within_us
        earliest_us = marks_us[mine_at] - self._within_us
        later, earlier = pairs_in_reach(
            mine.codes[new], earliest_us, latest_us, other.codes, other.timestamps_us
        )
        came_before = order[earlier] < mine_at[later]
        later, earlier = later[came_before], earlier[came_before]
        places = [mine.place[new][later], other.place[earlier]]
        left, right = places if side == 0 else places[::-1]
        return mine_at[later], left, right, other.offsets[earlier]

    def _effects(self, causes: Ints, left: Ints, right: Ints) -> Effects:
        sides = [self._waiting[0].rows(left), self._waiting[1].rows(right)]
        keys = [sides[0].column(name) for name in self._on]
        rest = [
            side.column(place)
            for side in sides
            for place, name in enumerate(side.schema.names)
            if name not in self._on
        ]
        rows = pa.record_batch([*keys, *rest], schema=self.output_schema)
        return Effects(rows=rows, keys=None, causes=causes, closed=NONE, opened=NONE)

    def _forget(self) -> None:
        assert self._watermark_us is not None
        for waiting, kept_us in zip(self._waiting, self._kept_us, strict=True):
            waiting.drop_before(self._watermark_us - kept_us)
        if self._keys.wants_trim(sum(len(waiting.codes) for waiting in self._waiting)):
            codes = [waiting.codes for waiting in self._waiting]
            self._keys.trim(np.unique(np.concatenate(codes)))
        self._lows = np.array(self._needed())
        if self._clocks is not None:
            self._clocks.forget(self._lows)

    def _needed(self) -> list[int]:
        """Return for each input the lowest offset that can still match."""
        return [
            int(waiting.offsets[0]) if len(waiting.offsets) else int(unread)
            for waiting, unread in zip(self._waiting, self._next_unread, strict=True)
        ]
