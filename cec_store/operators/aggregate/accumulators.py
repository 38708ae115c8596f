"""Accumulators of windows: counts, sums and extremes, in one array each over all windows.

Floats are folded in strictly from the first row to the last (``ufunc.at`` goes through its
indexes one by one, where ``reduceat`` would sum pairwise), integers are summed exactly, and an
average is divided only at the end. A window's state does therefore not depend, bit for bit, on how
the input was cut into steps. Those of windows that are merged do not depend on the order of the
rows either: their sums of floats are :mod:`unordered_sums <.unordered_sums>`, and of extremes
that are equal, or NaN, one stands for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.errors import SchemaMismatch
from cec_store.format.columns import Ints, values_of
from cec_store.operators.aggregate import exact_sums, unordered_sums
from cec_store.operators.keys.encoder import fixed_column, valid_of

Arrays = list[NDArray[Any]]

FUNCTIONS = ("avg", "count", "max", "min", "sum")


@dataclass(frozen=True)
class _Part:
    """One accumulator: what is done to which column, and in which NumPy type."""

    function: str
    column: str
    data_type: pa.DataType
    dtype: str
    is_of_unsigned_64: bool = False
    is_unordered: bool = False
    """True where its windows may be merged."""
    adder: exact_sums.Adder = field(default_factory=exact_sums.Adder, compare=False)

    @property
    def name(self) -> str:
        return f"{self.function}({self.column})"

    @property
    def is_exact(self) -> bool:
        """Return True for a sum of integers, which is no NumPy integer."""
        return self.function == "sum" and self.dtype != "f8"

    @property
    def is_unordered_sum(self) -> bool:
        """Return True for a sum of floats in any order, which is no NumPy float."""
        return self.is_unordered and self.function == "sum" and self.dtype == "f8"

    def empty(self, count: int) -> NDArray[Any]:
        """The accumulator before the first value."""
        if self.is_exact:
            return np.zeros(count, exact_sums.EXACT)
        if self.is_unordered_sum:
            return np.zeros(count, unordered_sums.UNORDERED)
        if self.function in ("count", "sum"):
            return np.zeros(count, self.dtype)
        is_min = self.function == "min"
        if self.dtype == "f8":
            return np.full(count, np.inf if is_min else -np.inf)
        limits = np.iinfo(self.dtype)
        return np.full(count, limits.max if is_min else limits.min, self.dtype)

    def fold(self, into: NDArray[Any], at: Ints, values: NDArray[Any]) -> None:
        if self.function == "count" and len(into) <= 4 * len(at):
            into += np.bincount(at, minlength=len(into))
            return
        if self.function == "count":
            np.add.at(into, at, 1)
            return
        if self.is_exact:
            self.adder.add(into, at, values)
            return
        if self.is_unordered_sum:
            unordered_sums.add(into, at, values)
            return
        if self.is_unordered and self.dtype == "f8":
            values = values + 0.0  # -0.0 becomes 0.0
            values[np.isnan(values)] = np.nan
        fold = {"sum": np.add, "min": np.minimum, "max": np.maximum}[self.function]
        with np.errstate(invalid="ignore", over="ignore"):  # inf - inf is NaN, without a warning
            fold.at(into, at, values)

    def merge(self, into: NDArray[Any], at: Ints, others: NDArray[Any]) -> None:
        """Fold what ``others[i]`` has taken into window ``at[i]``."""
        if self.is_exact:
            self.adder.merge(into, at, others)
        elif self.is_unordered_sum:
            unordered_sums.merge(into, at, others)
        else:
            fold = {"count": np.add, "min": np.minimum, "max": np.maximum}[self.function]
            with np.errstate(invalid="ignore"):  # of a NaN
                fold.at(into, at, others)

    def from_column(self, column: pa.Array) -> NDArray[Any]:
        """The inverse of :meth:`column_of`."""
        if self.is_unordered_sum:
            values = unordered_sums.from_column(column)
        elif self.data_type == exact_sums.SUM_TYPE:
            words = values_of(column, "V16").view(np.int64).reshape(-1, 2)
            values = exact_sums.from_words([words[:, 0], words[:, 1]])
        elif self.is_exact:
            whole = values_of(column, "i8")
            values = exact_sums.from_words([whole, whole >> 63])
        else:
            values = np.array(_numbers(column, self.dtype))
        valid = valid_of(column)
        if valid is not None:
            values[~valid] = self.empty(1)
        return values

    @property
    def result_type(self) -> pa.DataType:
        """The type of what is put out: a sum of integers has 64 bits, with a sign or without."""
        if self.is_unordered_sum:
            return pa.float64()
        if not self.is_exact:
            return self.data_type
        return pa.uint64() if self.is_of_unsigned_64 else pa.int64()

    def result_of(self, values: NDArray[Any], valid: NDArray[np.bool_] | None) -> pa.Array:
        """Return the same as :meth:`column_of`, in the type of results.

        Raises :class:`SchemaMismatch` where a sum leaves it.
        """
        if self.is_unordered_sum:
            totals = unordered_sums.totals(values)
            return fixed_column(pa.float64(), [totals.view(np.int64)], valid)
        if not self.is_exact:
            return self.column_of(values, valid)
        first, second = exact_sums.to_words(values)
        above = 0 if self.is_of_unsigned_64 else first >> 63
        if (second != above).any():
            raise SchemaMismatch(
                f"the sum of column {self.column!r} leaves {self.result_type}; take its average, "
                "which is exact, or sum a column of float64, and write to a new queue"
            )
        return fixed_column(self.result_type, [first], valid)

    def column_of(self, values: NDArray[Any], valid: NDArray[np.bool_] | None) -> pa.Array:
        """Return Arrow values, extremes in the input column's type; null where not ``valid``."""
        if self.is_exact:
            words = exact_sums.to_words(values)
            return fixed_column(self.data_type, words[: self.data_type.bit_width // 64], valid)
        if self.is_unordered_sum:
            return fixed_column(self.data_type, unordered_sums.to_words(values), valid)
        if self.dtype == "f8":
            size = self.data_type.bit_width // 8
            values = values.astype(f"f{size}", copy=False).view(f"i{size}").astype(np.int64)
        return fixed_column(self.data_type, [values.view(np.int64)], valid)


class Accumulators:
    """The aggregates of one operator.

    Raises ``ValueError`` for an unknown function or column, and for a column of a type that the
    function does not take: sums and averages take integers and floats, extremes also times.
    Sums of integers are exact: uint64 of uint64, int64 of all others. An average of integers is the
    float64 nearest to the true one. A NaN makes a float extreme NaN.
    """

    def __init__(
        self,
        aggregates: Mapping[str, Sequence[str]],
        schema: pa.Schema,
        *,
        can_merge: bool = False,
    ) -> None:
        """Windows may be merged where ``can_merge``, and sums of floats are then in no order."""
        self._outputs: list[tuple[str, str, str | None]] = []
        parts: dict[str, _Part] = {}
        for name, (function, *columns) in aggregates.items():
            column = _checked_column(name, function, columns, schema)
            self._outputs.append((name, function, column))
            if column is None:
                continue
            needed = ["count"] if function == "count" else ["count", function]
            for function in needed:
                part = _part("sum" if function == "avg" else function, column, schema, can_merge)
                if part is None:
                    kind = schema.field(column).type
                    raise ValueError(
                        f"{name}: cannot take {function} of column {column!r} of type {kind}"
                    )
                parts.setdefault(part.name, part)
        self._parts = list(parts.values())
        self._place = {name: place for place, name in enumerate(parts)}
        self._columns = sorted({part.column for part in self._parts})
        self.state_fields = [pa.field(part.name, part.data_type) for part in self._parts]
        self.output_fields = [self._output_field(*output) for output in self._outputs]

    def empty(self, count: int) -> Arrays:
        """Accumulators of ``count`` windows that have taken nothing."""
        return [part.empty(count) for part in self._parts]

    def fold(self, into: Arrays, at: Ints, rows: Ints, batch: pa.RecordBatch) -> None:
        """Fold row ``rows[i]`` of ``batch`` into window ``at[i]``, for ``i`` from first to last."""
        for name in self._columns:
            column = batch.column(name)
            valid = valid_of(column)
            taken = None if valid is None else np.flatnonzero(valid[rows])
            windows = at if taken is None else at[taken]
            values: dict[str, NDArray[Any]] = {}
            for place, part in enumerate(self._parts):
                if part.column != name:
                    continue
                if part.function != "count" and part.dtype not in values:
                    whole = _numbers(column, part.dtype)
                    values[part.dtype] = whole[rows if taken is None else rows[taken]]
                part.fold(into[place], windows, values.get(part.dtype, windows))

    def merge(self, arrays: Arrays, into: Ints, merged: Ints) -> None:
        """Fold all that window ``merged[i]`` has taken into window ``into[i]``."""
        for part, values in zip(self._parts, arrays, strict=True):
            part.merge(values, into, values[merged])

    def states(self, arrays: Arrays) -> list[pa.Array]:
        """State columns; an accumulator that has taken no value is null."""
        return [
            part.column_of(
                values, None if part.function == "count" else self._some(arrays, part.column)
            )
            for part, values in zip(self._parts, arrays, strict=True)
        ]

    def from_states(self, states: Sequence[pa.Array]) -> Arrays:
        """The inverse of :meth:`states`."""
        pairs = zip(self._parts, states, strict=True)
        return [part.from_column(column) for part, column in pairs]

    def results(self, arrays: Arrays, row_counts: Ints) -> list[pa.Array]:
        """Output columns; an aggregate of nothing but a count is null."""
        columns = []
        for _, function, column in self._outputs:
            if column is None:
                columns.append(pa.array(row_counts))
                continue
            counts = arrays[self._place[f"count({column})"]]
            if function == "count":
                columns.append(pa.array(counts))
            elif function == "avg":
                average = self._average(f"sum({column})", arrays, np.maximum(counts, 1))
                valid = self._some(arrays, column)
                columns.append(fixed_column(pa.float64(), [average.view(np.int64)], valid))
            else:
                place = self._place[f"{function}({column})"]
                valid = self._some(arrays, column)
                columns.append(self._parts[place].result_of(arrays[place], valid))
        return columns

    def _average(self, name: str, arrays: Arrays, counts: Ints) -> NDArray[np.float64]:
        sums = arrays[self._place[name]]
        part = self._parts[self._place[name]]
        if part.is_exact:
            return exact_sums.averages(sums, counts)
        if part.is_unordered_sum:
            sums = unordered_sums.totals(sums)
        average: NDArray[np.float64] = sums / counts
        return average

    def _some(self, arrays: Arrays, column: str) -> NDArray[np.bool_] | None:
        """Return True for each window that has a value of this column; ``None`` if all have."""
        counts = arrays[self._place[f"count({column})"]]
        return None if counts.all() else counts > 0

    def _output_field(self, name: str, function: str, column: str | None) -> pa.Field:
        if function == "count":
            return pa.field(name, pa.int64())
        if function == "avg":
            return pa.field(name, pa.float64())
        return pa.field(name, self._parts[self._place[f"{function}({column})"]].result_type)


def _checked_column(
    name: str, function: str, columns: Sequence[str], schema: pa.Schema
) -> str | None:
    if function not in FUNCTIONS:
        raise ValueError(f"{name}: no aggregate {function!r}; there are {', '.join(FUNCTIONS)}")
    if len(columns) > 1 or (not columns and function != "count"):
        raise ValueError(f"{name}: {function} takes one column, not {list(columns)}")
    if not columns:
        return None
    if schema.get_field_index(columns[0]) < 0:
        raise ValueError(f"{name}: no column {columns[0]!r} in the input")
    return columns[0]


def _part(function: str, column: str, schema: pa.Schema, can_merge: bool) -> _Part | None:
    """``None`` where the function does not take a column of such a type."""
    data_type = schema.field(column).type
    if function == "count":
        return _Part(function, column, pa.int64(), "i8")
    is_integer, is_float = pa.types.is_integer(data_type), pa.types.is_floating(data_type)
    is_unsigned = pa.types.is_unsigned_integer(data_type)
    if function == "sum" and (is_integer or is_float):
        if is_float:
            state_type = unordered_sums.SUM_TYPE if can_merge else pa.float64()
            return _Part(function, column, state_type, "f8", is_unordered=can_merge)
        is_wide = data_type.bit_width == 64
        state_type = exact_sums.SUM_TYPE if is_wide else pa.int64()
        dtype = "u8" if is_unsigned else "i8"
        return _Part(function, column, state_type, dtype, is_wide and is_unsigned)
    is_time = pa.types.is_temporal(data_type) and not pa.types.is_interval(data_type)
    if function != "sum" and (is_integer or is_float or is_time):
        dtype = "f8" if is_float else "u8" if is_unsigned else "i8"
        return _Part(function, column, data_type, dtype, is_unordered=can_merge)
    return None


def _numbers(column: pa.Array, dtype: str) -> NDArray[Any]:
    """A column's values widened to ``dtype``; anything may stand for a null."""
    data_type = column.type
    kind = "f" if pa.types.is_floating(data_type) else "i"
    if pa.types.is_unsigned_integer(data_type):
        kind = "u"
    values = values_of(column, f"{kind}{data_type.bit_width // 8}")
    return values.astype(dtype, copy=False)
