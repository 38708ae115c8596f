"""Sessions: a key's rows that lie within a gap of one another, until a watermark has passed them.

The rows that are not late decide alone which sessions there are: two of a key are in one session if
steps of the gap or less lead from one to the other. So rows are not taken one by one: a batch and
the open sessions near it are sorted by time, and cut where the gap is exceeded. A row that is not
late is never within the gap of a session that has closed.

Where one stretch holds several sessions, the one that opened first goes on. A key is the group and
the time of the row that opened the session: no other row of the group opens one at that time, since
such a row belongs to it, or is late.

**Recovery.** Each footprint says what the watermark was at its position, so that input from the
oldest footprint on is told late or not as it was the first time. Rows that belong to no restored
session form *provisional* ones: such a session closes, or it goes into a restored one, as it did
the first time. None of them is open when the log's end is reached.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import Ints, flags_of, values_of
from cec_store.operators.aggregate.accumulators import Accumulators
from cec_store.operators.aggregate.session_chains import SessionChains, Stretches, stretches_of
from cec_store.operators.aggregate.slots import ClosedWindows, InputRows
from cec_store.operators.aggregate.watermark_slots import TIME, WatermarkSlots, WindowEnds
from cec_store.operators.aggregate.windows import SessionWindow
from cec_store.operators.contract import NO_SLOTS
from cec_store.operators.keys.encoder import KeyEncoder
from cec_store.operators.keys.words import grown

_MIN, _MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class _Taken:
    """Rows that are not late, in order."""

    at: Ints
    """Place of each in the step."""
    times_us: Ints
    groups: Ints
    """Code of each one's group."""


class SessionSlots(WatermarkSlots):
    """Open sessions; the time in a key is that of the row that opened the session."""

    depends_on_cuts = True
    output_fields = (pa.field("session_start", TIME), pa.field("session_end", TIME))
    own_fields = (
        pa.field("first_us", pa.int64()),
        pa.field("last_us", pa.int64()),
        pa.field("watermark", pa.int64()),
    )

    def __init__(
        self, window: SessionWindow, groups: list[pa.Field], accumulators: Accumulators
    ) -> None:
        super().__init__(groups, accumulators)
        self._window = window
        self._groups = KeyEncoder(pa.schema(groups)) if groups else None
        self._spans: Ints = np.zeros((1, 2), np.int64)
        """Times of the first and the last row of each slot's session, in microseconds."""
        self._group_of: Ints = np.zeros(1, np.int64)
        self._chains = SessionChains()
        self._ends = WindowEnds()
        self._pushed: Ints = np.zeros(1, np.int64)
        """The one end of each slot's session in ``_ends`` that counts."""
        self._merged: list[tuple[Ints, Ints]] = []
        self._marks: Ints = np.zeros(1, np.int64)
        """Watermark of each slot's footprint, while catching up."""
        self._is_provisional = np.zeros(1, np.bool_)
        self._is_settled = True
        """False after windows were restored or let go, until chains and watermark fit them."""
        self._caught_up_to: int | None = None
        """Scalar position after the last row that was taken again."""

    # -- taking rows ------------------------------------------------------------------------------

    def begin_step(self) -> None:
        if self.restored is not None:
            self._drop(self._provisional())
            self._is_settled = False
            self._settle()
        super().begin_step()
        self._merged = []

    def merged(self) -> tuple[Ints, Ints]:
        parts = [(NO_SLOTS, NO_SLOTS), *self._merged]
        merged, into = zip(*parts, strict=True)
        return np.concatenate(merged), np.concatenate(into)

    def close(self, slots: Ints, causes: Ints) -> ClosedWindows:
        spans = self._spans[slots]
        return replace(super().close(slots, causes), spans=spans)

    def take(self, rows: InputRows) -> ClosedWindows:
        timed, times_us = self._timed(rows)
        if not len(timed):
            return self.close(NO_SLOTS, NO_SLOTS)
        marks_us = self._marks_of(times_us)
        self._raise_watermark(int(marks_us[-1]))
        is_taken = times_us >= marks_us
        if self.restored is None:
            self.late_rows += len(timed) - int(np.count_nonzero(is_taken))
        at = timed[is_taken]
        taken = _Taken(at, times_us[is_taken], self._codes_of_groups(rows, at))
        due = self._due()
        groups, group_of_row = np.unique(
            np.concatenate([taken.groups, self._group_of[due]]), return_inverse=True
        )
        reach_us = np.full(len(groups), _MAX)
        nearest_us = _less(taken.times_us, self._window.gap_us)
        np.minimum.at(reach_us, group_of_row[: len(at)], nearest_us)
        reach_us[group_of_row[len(at) :]] = _MIN
        slots, of_group, rest = self._chains.near(groups, reach_us, self._spans[:, 1])
        stretches = stretches_of(
            taken.times_us, group_of_row[: len(at)], self._spans[slots], of_group,
            self._window.gap_us,
        )  # fmt: skip
        self._unite(rows, taken, slots, groups[stretches.groups], stretches)
        self._ends_again(due)
        is_due = self._is_over(stretches.spans)
        stay = ~is_due
        self._chains.link(groups, stretches.groups[stay], stretches.slots[stay], rest)
        return self._closed(stretches.slots[is_due], timed, marks_us)

    def _unite(
        self, rows: InputRows, taken: _Taken, slots: Ints, groups: Ints, stretches: Stretches
    ) -> None:
        """Let each stretch be one session, and take its rows; fills ``stretches.slots``."""
        goes_on = self._merge(slots, stretches)
        new = np.flatnonzero(goes_on < 0)
        first = stretches.first_rows[new]
        at = taken.at[first]
        key = self.keys.words([column.take(pa.array(at)) for column in rows.groups])
        opened = self.keys.encode_words(key.with_word(taken.times_us[first])) + 1
        self.reserve(self.slot_bound)
        goes_on[new] = opened
        times_us = taken.times_us[first]
        self.fill(opened, 0, rows.sums[at], times_us, self.accumulators.empty(len(new)))
        self._group_of[opened] = groups[new]
        self._spans[goes_on] = stretches.spans
        self._push(opened)
        if self.restored is None:
            self.fresh.append(opened)
            self.open_count += len(opened)
        else:
            self._is_provisional[opened] = True
        stretches.slots[:] = goes_on
        targets, at = goes_on[stretches.of_rows], taken.at
        if self.restored is not None:
            is_new = self._is_new_to(targets, at, rows)
            targets, at = targets[is_new], at[is_new]
        np.add.at(self.rows, targets, 1)
        self.accumulators.fold(self.arrays, targets, at, rows.batch)

    def _merge(self, slots: Ints, stretches: Stretches) -> Ints:
        """The slot of the session that goes on in each stretch, −1 for none; it has the others."""
        goes_on = np.full(stretches.count, -1, np.int64)
        stretch = stretches.of_sessions
        # Of several the one that opened first: a restored one before all that are provisional.
        order = np.lexsort((self.opened[slots], self._is_provisional[slots]))[::-1]
        goes_on[stretch[order]] = slots[order]
        is_merged = goes_on[stretch] != slots
        if not is_merged.any():
            return goes_on
        merged, into = slots[is_merged], goes_on[stretch[is_merged]]
        kept = ~self._is_in(merged, into)
        self.accumulators.merge(self.arrays, into[kept], merged[kept])
        np.add.at(self.rows, into[kept], self.rows[merged[kept]])
        self.rows[merged] = 0
        if self.restored is None:
            self.open_count -= len(merged)
            self._merged.append((merged, into))
        self._is_provisional[merged] = False
        return goes_on

    def _closed(self, slots: Ints, timed: Ints, marks_us: Ints) -> ClosedWindows:
        """Close these sessions, each at the first row with a time that the watermark is beyond."""
        if self.restored is not None:
            self._drop(slots)
            return self.close(NO_SLOTS, NO_SLOTS)
        ends_us = _plus(self._spans[slots, 1], self._window.gap_us)
        causes = timed[np.searchsorted(marks_us, ends_us, side="right")]
        order = np.lexsort((self.opened[slots], ends_us, causes))
        return self.close(slots[order], causes[order])

    def _marks_of(self, times_us: Ints) -> Ints:
        """The watermark at each row."""
        marks_us = _less(np.maximum.accumulate(times_us), self._window.watermark_delay_us)
        if self.watermark_us is not None:
            marks_us = np.maximum(marks_us, self.watermark_us)
        return marks_us

    def _codes_of_groups(self, rows: InputRows, at: Ints) -> Ints:
        if self._groups is None:
            return np.zeros(len(at), np.int64)
        columns = rows.groups
        if len(at) < len(rows.times_us):
            columns = [column.take(pa.array(at)) for column in columns]
        codes = self._groups.encode(columns)
        self._chains.reserve_groups(self._groups.bound)
        return codes

    def _is_over(self, spans: Ints) -> NDArray[np.bool_]:
        """Return True for each session of these times that the watermark is beyond."""
        assert self.watermark_us is not None
        ends_us = _plus(spans[:, 1], self._window.gap_us)
        is_over: NDArray[np.bool_] = ends_us < self.watermark_us
        return is_over

    def _due(self) -> Ints:
        """Slots of sessions that were to end before the watermark when they opened, or later."""
        assert self.watermark_us is not None
        if self.watermark_us == _MIN:
            return NO_SLOTS
        ends_us, slots = self._ends.pop_entries(self.watermark_us - 1)
        return np.unique(slots[(self.rows[slots] > 0) & (self._pushed[slots] == ends_us)])

    def _ends_again(self, due: Ints) -> None:
        """Note the ends of those that go on, as rows have come since they were noted."""
        going = due[self.rows[due] > 0]
        self._push(going[~self._is_over(self._spans[going])])

    def _push(self, slots: Ints) -> None:
        ends_us = _plus(self._spans[slots, 1], self._window.gap_us)
        self._pushed[slots] = ends_us
        self._ends.push(ends_us, slots)

    # -- state ------------------------------------------------------------------------------------

    def output_columns(self, closed: ClosedWindows) -> list[pa.Array]:
        assert closed.spans is not None
        return [pa.array(np.ascontiguousarray(times)).cast(TIME) for times in closed.spans.T]

    def own_columns(self, slots: Ints) -> list[pa.Array]:
        first_us, last_us = self._spans[slots].T
        marks = pa.nulls(len(slots), pa.int64())
        if len(slots):
            marks = pa.array(np.full(len(slots), self.watermark_us, np.int64))
        return [
            pa.array(np.ascontiguousarray(first_us)), pa.array(np.ascontiguousarray(last_us)), marks
        ]  # fmt: skip

    def snapshot(self, slots: Ints) -> tuple[pa.StructArray, pa.StructArray]:
        self._settle()
        return super().snapshot(slots)

    def restore(self, keys: pa.StructArray, states: pa.StructArray) -> Ints:
        self._drop(self._found(keys, provisional=True))
        before = self.watermark_us
        slots = super().restore(keys, states)
        is_window = ~flags_of(keys.is_null())
        windows = slots[is_window]
        for place, name in enumerate(("first_us", "last_us")):
            column = states.field(name).fill_null(0)
            self._spans[windows, place] = values_of(column, "i8")[is_window]
        self._marks[slots] = values_of(states.field("watermark"), "i8")
        # Told by the oldest footprint, and not by its own, once all have been restored.
        self.watermark_us = before
        self._is_settled = False
        return slots

    def find(self, keys: pa.StructArray) -> Ints:
        return self._found(keys, provisional=False)

    def let_go(self, slots: Ints) -> None:
        self._is_settled = False
        super().let_go(slots)

    def trim(self) -> None:
        super().trim()
        self._trim_groups()

    def _trim_groups(self) -> None:
        """Forget the groups without a session where that pays."""
        if self._groups is None or not self._is_settled:
            return
        if not self._groups.wants_trim(self.open_count - self.own_slots):
            return
        # Provisional sessions are not in the count of open ones, and have groups as well.
        live = self._chains.live_groups(self._groups.bound)
        if self._groups.wants_trim(len(live)):
            self._groups.trim(live)

    def reserve(self, size: int) -> None:
        super().reserve(size)
        more = len(self.rows)
        if more > len(self._group_of):
            spans = np.zeros((more, 2), np.int64)
            spans[: len(self._spans)] = self._spans
            self._spans = spans
            for name in ("_group_of", "_pushed", "_marks", "_is_provisional"):
                setattr(self, name, grown(getattr(self, name), more)[:more])
            self._chains.reserve_slots(more)

    # -- recovery ---------------------------------------------------------------------------------

    def catch_up(self, rows: InputRows) -> None:
        if self.restored is None:
            return
        self._settle()
        self.take(rows)
        if len(rows.sums):
            self._caught_up_to = int(rows.sums[-1])
        self._trim_groups()

    def _settle(self) -> None:
        """Fit watermark, chains and ends to the sessions that there are now."""
        if self._is_settled:
            return
        self._is_settled = True
        restored = np.flatnonzero((self.rows > 0) & ~self._is_provisional)
        if self.restored is not None and len(restored):
            positions = self.restored[restored].sum(axis=1)
            oldest = int(positions.argmin())
            upto = self._caught_up_to
            if upto is None or positions[oldest] > upto:
                # Input is taken again from there on, and what came before it is in footprints.
                self.watermark_us = int(self._marks[restored[oldest]])
                self._drop(self._provisional())
        slots = np.flatnonzero(self.rows[1 : self.slot_bound]) + 1
        self._chains.clear()
        if self._groups is not None:
            keys = self.keys.keys(self.codes(slots))
            columns = [keys.field(place) for place in range(len(self._groups.schema))]
            self._group_of[slots] = self._groups.encode(columns)
            self._chains.reserve_groups(self._groups.bound)
        self._absorb(slots)

    def _absorb(self, slots: Ints) -> None:
        """Link the sessions of these slots; provisional ones within restored ones are part of
        them.
        """
        groups, of_group = np.unique(self._group_of[slots], return_inverse=True)
        stretches = stretches_of(
            NO_SLOTS, NO_SLOTS, self._spans[slots], of_group, self._window.gap_us
        )
        goes_on = self._merge(slots, stretches)
        self._spans[goes_on] = stretches.spans
        self._chains.link(groups, stretches.groups, goes_on, np.zeros(len(groups), np.int64))
        self._ends = WindowEnds()
        self._push(goes_on)

    def _is_in(self, merged: Ints, into: Ints) -> NDArray[np.bool_]:
        """Return True for each provisional session that a restored one has in its footprint."""
        is_in = np.zeros(len(merged), np.bool_)
        if self.restored is None:
            return is_in
        (rows,) = np.nonzero(self._is_provisional[merged] & ~self._is_provisional[into])
        is_in[rows] = self.opened[merged[rows]] <= self.restored[into[rows]].sum(axis=1)
        return is_in

    def _is_new_to(self, targets: Ints, at: Ints, rows: InputRows) -> NDArray[np.bool_]:
        """Return True for each row that its session's footprint does not have."""
        assert self.restored is not None
        is_new = np.ones(len(at), np.bool_)
        (known,) = np.nonzero(~self._is_provisional[targets])
        source, after = (values[at[known]] for values in rows.taken)
        is_new[known] = after > self.restored[targets[known], source]
        return is_new

    def _found(self, keys: pa.StructArray, provisional: bool) -> Ints:
        slots = super().find(keys)
        is_other = (slots < 0) | (self._is_provisional[slots] != provisional)
        return slots[~is_other] if provisional else np.where(is_other, -1, slots)

    def _provisional(self) -> Ints:
        return np.flatnonzero(self._is_provisional)

    def _drop(self, slots: Ints) -> None:
        """Forget provisional sessions, which count as no open windows."""
        self.rows[slots] = 0
        self._is_provisional[slots] = False


def _less(times_us: Ints, by_us: int) -> Ints:
    """Times earlier by so many microseconds; at least the least int64."""
    earlier: Ints = np.where(times_us < _MIN + by_us, _MIN, times_us - by_us)
    return earlier


def _plus(times_us: Ints, by_us: int) -> Ints:
    """Times later by so many microseconds; at most the largest int64."""
    later: Ints = np.where(times_us > _MAX - by_us, _MAX, times_us + by_us)
    return later
