"""Filter, map, union, random filter: operators that remember nothing, so their N is always 0.

To the recovery protocol they are operators with no windows (CEC paper, III).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.format.arrow_values import as_stored, stored_schema
from cec_store.format.columns import Ints, flags_of
from cec_store.format.records import empty_batch
from cec_store.format.schema import RecordKind
from cec_store.operators.contract import Effects, Operator, Step
from cec_store.operators.taxonomy import Chance, NetworkType, chance_of_order

Formula: TypeAlias = Callable[[pa.RecordBatch], Any] | pc.Expression
"""A ``pyarrow.compute`` expression, or a function from a batch to one value a row.

It must depend on the row alone: a function that looks at other rows of the batch would make the
output depend on where the input was cut into steps.
"""


class _Stateless(Operator):
    """Base of operators without windows."""

    output_kind = RecordKind.DATA
    operator_type = NetworkType.REPEATABLE
    key_schema: pa.Schema | None = None
    state_schema: pa.Schema | None = None
    open_windows = 0
    can_be_followed = True

    def __init__(self, output_schema: pa.Schema, inputs: int = 1) -> None:
        self.output_schema = stored_schema(output_schema)
        self.inputs = inputs

    def snapshot(self, slots: Ints) -> tuple[pa.StructArray, pa.StructArray]:
        if len(slots):
            raise ValueError("an operator without windows has no footprints")
        return pa.array([], pa.struct([])), pa.array([], pa.struct([]))

    def restore(self, keys: pa.StructArray, states: pa.StructArray, positions: Ints) -> Ints:
        if len(keys):
            raise ValueError("an operator without windows cannot restore one")
        return np.empty(0, np.int64)

    def let_go(self, keys: pa.StructArray) -> Ints:
        return np.empty(0, np.int64)

    def find(self, keys: pa.StructArray, upto: Ints) -> Ints:
        return np.full(len(keys), -1, np.int64)

    def catch_up(self, step: Step) -> None:
        """Nothing: there is no state."""


class Filter(_Stateless):
    """The rows for which the predicate is true; neither false nor null.

    Examples:
        >>> import pyarrow.compute as pc
        >>> [row["price"] for row in output_of(Filter(pc.field("price") > 10, bids.schema))]
        [20, 30]
    """

    def __init__(self, predicate: Formula, input_schema: pa.Schema) -> None:
        super().__init__(input_schema)
        self._predicate = {"keep": predicate}
        mask = _evaluate(self._predicate, empty_batch(stored_schema(input_schema)))[0]
        if not pa.types.is_boolean(mask.type):
            raise ValueError(f"a filter needs a predicate, not values of type {mask.type}")

    def apply(self, step: Step) -> Effects:
        batch = step.in_order()
        mask = _evaluate(self._predicate, batch)[0].fill_null(False)
        kept = np.flatnonzero(flags_of(mask))
        return Effects(rows=batch.filter(mask), keys=None, causes=kept)


class Map(_Stateless):
    """One output row for each input row, with a column for each formula.

    Examples:
        >>> import pyarrow.compute as pc
        >>> twice = Map({"twice": pc.field("price") + pc.field("price")}, bids.schema)
        >>> output_of(twice)[:2]
        [{'twice': 20}, {'twice': 14}]
    """

    def __init__(self, columns: Mapping[str, Formula], input_schema: pa.Schema) -> None:
        self._columns = dict(columns)
        values = _evaluate(self._columns, empty_batch(stored_schema(input_schema)))
        names_and_types = zip(columns, values, strict=True)
        super().__init__(
            pa.schema([pa.field(name, type_source.type) for name, type_source in names_and_types])
        )

    def apply(self, step: Step) -> Effects:
        values = [as_stored(column) for column in _evaluate(self._columns, step.in_order())]
        rows = pa.record_batch(values, schema=self.output_schema)
        return Effects(rows=rows, keys=None, causes=np.arange(step.rows))


class Union(_Stateless):
    """All rows of all inputs, which share a schema, in the order of their timestamps.

    Or ``by_arrival``: as they come, as the paper's union does (3.2). Nothing waits for anything
    then, and the order is written down, as it is with an ``idle_timeout_us``: the others wait no
    longer than that for an input without rows.

    Examples:
        >>> Union(bids.schema, inputs=3).inputs
        3
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        inputs: int,
        *,
        by_arrival: bool = False,
        idle_timeout_us: int | None = None,
    ) -> None:
        if inputs < 1:
            raise ValueError(f"a union needs an input, not {inputs}")
        super().__init__(input_schema, inputs)
        self.idle_timeout_us = idle_timeout_us
        self.chances = chance_of_order(by_arrival, idle_timeout_us)
        if self.chances:
            self.operator_type = NetworkType.ARBITRARY

    def apply(self, step: Step) -> Effects:
        return Effects(rows=step.in_order(), keys=None, causes=np.arange(step.rows))


class RandomFilter(_Stateless):
    """Each row with a probability, whatever is in it.

    The draws follow from the step's seed alone, by Philox, whose numbers are the same in every
    version of NumPy. So a step's determinant is its seed: eight bytes, and not a bit for each row.

    Examples:
        >>> output_of(RandomFilter(1.0, bids.schema)) == bids.to_pylist()
        True
    """

    operator_type = NetworkType.ARBITRARY
    chances = Chance.RANDOM

    def __init__(self, share: float, input_schema: pa.Schema) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"a random filter keeps a share between 0 and 1, not {share}")
        super().__init__(input_schema)
        self._below = round(share * 2**64)

    def apply(self, step: Step) -> Effects:
        assert step.choices.seed is not None
        draws = np.random.Philox(key=step.choices.seed).random_raw(step.rows)
        # The largest share is beyond what 64 bits hold.
        is_kept = draws < self._below if self._below < 2**64 else np.ones(step.rows, np.bool_)
        kept = np.flatnonzero(is_kept)
        return Effects(rows=step.in_order().take(pa.array(kept)), keys=None, causes=kept)


def _evaluate(formulas: Mapping[str, Formula], batch: pa.RecordBatch) -> list[pa.Array]:
    """One value a row of each formula. ``ValueError`` where a function returns another number."""
    names = [name for name, formula in formulas.items() if isinstance(formula, pc.Expression)]
    values: dict[str, pa.Array] = {}
    if names:
        # Imported here: only expressions need it, and it imports pandas, which takes long.
        from pyarrow import acero

        source = acero.TableSourceNodeOptions(pa.Table.from_batches([batch]))
        project = acero.ProjectNodeOptions([formulas[name] for name in names], names)
        plan = [acero.Declaration("table_source", source), acero.Declaration("project", project)]
        # One thread keeps the rows in their order.
        table = acero.Declaration.from_sequence(plan).to_table(use_threads=False)
        values = {name: _one_array(table.column(name)) for name in names}
    for name, formula in formulas.items():
        if name not in values:
            values[name] = _one_array(formula(batch))
        if len(values[name]) != batch.num_rows:
            raise ValueError(f"{name}: {len(values[name])} values for {batch.num_rows} rows")
    return [values[name] for name in formulas]


def _one_array(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return values if isinstance(values, pa.Array) else pa.array(values)
