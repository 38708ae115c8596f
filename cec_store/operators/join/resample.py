"""Resample: values of one stream at the moments of another (Aurora, VLDB Journal 2003).

A join of which each left row comes to one row of output, once no right row can come near it any
more; so it remembers what a join does, and rereads its input as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cec_store.format.arrow_values import stored_schema
from cec_store.format.columns import Ints
from cec_store.format.records import empty_batch
from cec_store.operators.aggregate.accumulators import Accumulators
from cec_store.operators.contract import Effects, Step
from cec_store.operators.join.join import WindowJoin
from cec_store.operators.join.waiting import pairs_in_reach
from cec_store.operators.taxonomy import NetworkType


class Resample(WindowJoin):
    """Puts out, for each left row, aggregates over the right rows with its key that are near it.

    Near is at most ``within_us`` earlier or later, and come before the watermark, the largest
    timestamp so far, is beyond that; then the row leaves, in the order (row that moved the
    watermark, left row). Left rows for which that is so already when they come are late, and are
    passed over, as are those with a null in the key. ``aggregates`` as of :class:`Aggregate`, of
    the right input's columns.

    Raises ``ValueError`` as :class:`Aggregate` and :class:`WindowJoin` do.

    Examples:
        >>> mean = {"mean": ("avg", "price")}
        >>> near = Resample(
        ...     bids.schema, bids.schema, on=["item"], within_us=5, aggregates=mean
        ... )
        >>> near.output_schema.names
        ['item', 'price', 'at', 'mean']
    """

    operator_type = NetworkType.CONVERGENT

    def __init__(
        self,
        left_schema: pa.Schema,
        right_schema: pa.Schema,
        *,
        on: Sequence[str],
        within_us: int,
        aggregates: Mapping[str, Sequence[str]],
    ) -> None:
        left_schema, right_schema = stored_schema(left_schema), stored_schema(right_schema)
        super().__init__(left_schema, right_schema, on=on, within_us=within_us)
        # The earliest row that a left one may still ask for.
        self._kept_us = (within_us, 2 * within_us)
        self._accumulators = Accumulators(aggregates, right_schema)
        self.output_schema = pa.schema([*left_schema, *self._accumulators.output_fields])
        names = self.output_schema.names
        if len(set(names)) < len(names):
            raise ValueError(f"two output columns of one name in {names}")
        self.late_rows = 0
        """Left rows that came too late, since this was made."""

    def apply(self, step: Step) -> Effects:
        if not step.rows:
            return Effects(rows=self._nothing(), keys=None, causes=np.empty(0, np.int64))
        before_us = self._watermark_us
        held = [len(waiting.codes) for waiting in self._waiting]
        marks_us = self._mark(step.timestamps_us)
        codes = self._take(step, None)
        # Of rows that were there before the step the place in it is -1.
        order = [
            np.append(np.full(count, -1), np.flatnonzero(step.source == side)[codes[side] >= 0])
            for side, count in enumerate(held)
        ]
        done, causes = self._complete(order[0], marks_us)
        effects = Effects(rows=self._resampled(done, causes, order[1]), keys=None, causes=causes)
        self._forget()
        window = np.zeros(1, np.int64)
        if before_us is None:
            return replace(effects, opened=window)
        return replace(effects, renewed=window[: int(marks_us[-1] > before_us)])

    def _complete(self, came: Ints, marks_us: Ints) -> tuple[Ints, Ints]:
        """Left rows that nothing can come near to any more, and the rows that made it so."""
        latest_us = self._waiting[0].timestamps_us + self._within_us
        causes = np.searchsorted(marks_us, latest_us, side="right")
        is_late = causes <= came
        self.late_rows += int(is_late.sum())
        done = np.flatnonzero((causes < len(marks_us)) & ~is_late)
        done = done[np.argsort(causes[done], kind="stable")]
        return done, causes[done]

    def _resampled(self, done: Ints, causes: Ints, came: Ints) -> pa.RecordBatch:
        left, right = self._waiting
        times_us = left.timestamps_us[done]
        row, near = pairs_in_reach(
            left.codes[done],
            times_us - self._within_us,
            times_us + self._within_us,
            right.codes,
            right.timestamps_us,
        )
        is_in_time = came[near] < causes[row]
        row, near = row[is_in_time], near[is_in_time]
        in_order = np.lexsort((near, row))
        row, near = row[in_order], near[in_order]
        arrays = self._accumulators.empty(len(done))
        self._accumulators.fold(arrays, row, np.arange(len(row)), right.rows(right.place[near]))
        results = self._accumulators.results(arrays, np.bincount(row, minlength=len(done)))
        columns = left.rows(left.place[done]).columns
        return pa.record_batch([*columns, *results], schema=self.output_schema)

    def _nothing(self) -> pa.RecordBatch:
        return empty_batch(self.output_schema)
