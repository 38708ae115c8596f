"""A step's effects as the records of one frame."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cec_store.format.columns import Ints
from cec_store.format.schema import KEY, STATE, TIMESTAMP_TYPE, RecordKind, RecordSchema
from cec_store.operators.contract import Effects, Operator, Step


class FrameBuilder:
    """Puts an operator's output and its windows' footprints on top of one another."""

    def __init__(self, operator: Operator, schema: RecordSchema) -> None:
        self._operator = operator
        self._schema = schema
        self._types = {column.name: column.type for column in schema.arrow}

    def records(self, step: Step, effects: Effects, checked: Ints | None) -> pa.RecordBatch:
        """Output rows, then OPEN, then CHECK, in the record schema."""
        opened = effects.opened if checked is not None else effects.opened[:0]
        footprints = np.concatenate([opened, checked]) if checked is not None else opened
        rows, more = effects.rows.num_rows, len(footprints)
        kinds = np.full(rows + more, self._operator.output_kind, np.uint8)
        kinds[rows : rows + len(opened)] = RecordKind.OPEN
        kinds[rows + len(opened) :] = RecordKind.CHECK
        arrays = [
            pa.array(kinds),
            _caused(step.timestamps_us, effects.causes, more).view(TIMESTAMP_TYPE),
            *(
                _caused(step.positions[:, i], effects.causes, more)
                for i in range(self._schema.inputs)
            ),
        ]
        keys, states = self._operator.snapshot(footprints) if more else (None, None)
        if KEY in self._types:
            arrays.append(self._column(KEY, effects.keys, keys, rows, more))
        if STATE in self._types:
            arrays.append(self._column(STATE, None, states, rows, more))
        arrays += [
            self._column(name, effects.rows.column(name), None, rows, more)
            for name in self._schema.data.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)

    def _column(self, name: str, above: pa.Array | None, below: pa.Array | None,
               rows: int, more: int) -> pa.Array:  # fmt: skip
        """One column of a frame: the output rows' part over the footprints', nulls for none."""
        kind = self._types[name]
        parts = []
        if rows:
            parts.append(pa.nulls(rows, kind) if above is None else above)
        if more:
            parts.append(pa.nulls(more, kind) if below is None else below)
        if not parts:
            return pa.nulls(0, kind)
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _caused(values: Ints, causes: Ints, more: int) -> pa.Array:
    """Of each output row its cause's value; of the footprints that of the step's last row."""
    stacked = np.empty(len(causes) + more, np.int64)
    stacked[: len(causes)] = values[causes]
    if more:
        stacked[len(causes) :] = values[-1]
    return pa.array(stacked)
