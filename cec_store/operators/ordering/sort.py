"""BSort: a sort with a bounded buffer (Aurora, VLDB Journal 2003; availability paper, Figure 3)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.format.arrow_values import stored_schema
from cec_store.format.columns import Ints, values_of
from cec_store.format.records import empty_batch
from cec_store.format.schema import RecordKind
from cec_store.operators.contract import NO_SLOTS, Effects, Operator, Step
from cec_store.operators.inputs.merge import INPUTS_MAX
from cec_store.operators.keys.words import grown
from cec_store.operators.ordering.bubble import pass_through
from cec_store.operators.taxonomy import NetworkType, chance_of_order


class BSort(Operator):
    """Rows by a column, as far as a buffer of ``slack`` rows can put them in order.

    Once so many rows wait, each row that comes sends the least of them all on: what is less by
    ``slack`` places or fewer out of order leaves in order. Of equal rows the first goes first, and
    nulls are greater than anything.

    Each row that waits is a window of its own, under its position; its state is the row, which does
    not change, so its OPEN is all that a recovery needs.

    Raises ``ValueError`` for a slack below 1 and a column that has no order.

    Examples:
        >>> [row["price"] for row in output_of(BSort("price", 2, bids.schema))]
        [7, 10]
    """

    output_kind = RecordKind.RESULT
    operator_type = NetworkType.CONVERGENT
    key_schema: pa.Schema | None = pa.schema([pa.field("_window", pa.int64())])
    """The scalar position after the row: the sum of the next unread offsets."""

    def __init__(
        self,
        by: str,
        slack: int,
        input_schema: pa.Schema,
        *,
        inputs: int = 1,
        by_arrival: bool = False,
        idle_timeout_us: int | None = None,
    ) -> None:
        if slack < 1:
            raise ValueError(f"a buffer of {slack} rows sorts nothing")
        if not 1 <= inputs <= INPUTS_MAX:
            raise ValueError(f"{inputs} inputs, and 1 to {INPUTS_MAX} can be sorted")
        input_schema = stored_schema(input_schema)
        if input_schema.get_field_index(by) < 0:
            raise ValueError(f"no column {by!r} in the input; there are {input_schema.names}")
        data_type = input_schema.field(by).type
        if not _has_order(data_type):
            raise ValueError(f"column {by!r} is {data_type}, which has no order")
        self.inputs = inputs
        self.output_schema = input_schema
        self.state_schema = input_schema
        self._by = by
        self._slack = slack
        self._rows = empty_batch(input_schema)
        """Rows that wait, in the order of their coming; the two below are theirs."""
        self._sums: Ints = NO_SLOTS
        self._slots: Ints = NO_SLOTS
        self._place: Ints = np.zeros(1, np.int64)
        """Place of each slot's row among those that wait."""
        self.idle_timeout_us = idle_timeout_us
        self.chances = chance_of_order(by_arrival, idle_timeout_us)
        if self.chances:
            self.operator_type = NetworkType.ARBITRARY

    @property
    def open_windows(self) -> int:
        return len(self._sums)

    def apply(self, step: Step) -> Effects:
        before = self.open_windows
        rows = pa.concat_batches([self._rows, step.in_order()])
        sums = np.concatenate([self._sums, step.positions.sum(axis=1)])
        filling = min(max(0, self._slack - before), step.rows)
        first = before + filling
        ranks = _ranks(rows.column(self._by))
        out, kept = pass_through(ranks[:first], ranks[first:])
        of_rank = np.empty(len(ranks), np.int64)
        of_rank[ranks] = np.arange(len(ranks))
        leaving, staying = of_rank[out], np.sort(of_rank[kept])
        closed = self._slots[leaving[leaving < before]]
        kept_slots = self._slots[staying[staying < before]]
        opened = _free_slots(kept_slots, len(staying) - len(kept_slots))
        self._wait(
            rows.take(pa.array(staying)), sums[staying], np.concatenate([kept_slots, opened])
        )
        return Effects(
            rows=rows.take(pa.array(leaving)),
            keys=_keys(sums[leaving]),
            causes=np.arange(filling, step.rows),
            closed=closed,
            opened=opened,
        )

    def snapshot(self, slots: Ints) -> tuple[pa.StructArray, pa.StructArray]:
        place = self._place[slots]
        rows = self._rows.take(pa.array(place))
        states = pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
        return _keys(self._sums[place]), states

    def restore(self, keys: pa.StructArray, states: pa.StructArray, positions: Ints) -> Ints:
        sums = np.array(values_of(keys.field(0), "i8"))
        order = np.argsort(sums)
        rows = pa.RecordBatch.from_arrays(states.flatten(), schema=self.output_schema)
        slots = np.empty(len(sums), np.int64)
        slots[order] = np.arange(len(sums))
        self._wait(rows.take(pa.array(order)), sums[order], np.arange(len(sums)))
        return slots

    def catch_up(self, step: Step) -> None:
        """Nothing: a row that waits does not change, and which rows do was restored."""

    def _wait(self, rows: pa.RecordBatch, sums: Ints, slots: Ints) -> None:
        self._rows, self._sums, self._slots = rows, sums, slots
        size = int(slots.max(initial=0)) + 1
        if size > len(self._place):
            self._place = grown(self._place, size)
        self._place[slots] = np.arange(len(slots))


def _keys(sums: Ints) -> pa.StructArray:
    assert BSort.key_schema is not None
    return pa.StructArray.from_arrays([pa.array(sums)], fields=list(BSort.key_schema))


def _has_order(data_type: pa.DataType) -> bool:
    """Return True if this release of pyarrow sorts values of this type, and they can differ."""
    if pa.types.is_nested(data_type) or pa.types.is_null(data_type):
        return False
    if pa.types.is_dictionary(data_type):  # none that is empty is refused, whatever its values
        return _has_order(data_type.value_type)
    try:
        pc.sort_indices(pa.nulls(0, data_type))
    except pa.ArrowNotImplementedError:
        return False
    return True


def _ranks(column: pa.Array) -> Ints:
    """Return each value's place among all; of equal ones the first has the lower."""
    order = np.asarray(pc.sort_indices(column))  # stable, and nulls stand last
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _free_slots(taken: Ints, count: int) -> Ints:
    """The least numbers that are not taken."""
    is_free = np.ones(len(taken) + count, np.bool_)
    is_free[taken[taken < len(is_free)]] = False
    free: Ints = np.flatnonzero(is_free)[:count]
    return free
