"""Rows of a store with variables as plain values, each by the schema of its own variable.

::

    a name            key {family: 0, name}                  value {number}
    a list            key {variable, key}                    value [elements], or {chunks} of a head
    a list's chunk    key {variable, key, chunk}             value {said_bytes, list_element}
    any other row     key {variable, key}                    value: its columns

Elements and values have the columns that they were written with. What Spark keeps beside variables
has the name that Spark gives it, which begins with ``$``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.connectors.spark.checkpoint.family_rows import elements_of
from cec_store.connectors.spark.checkpoint.state_rows import VariablesDecoder
from cec_store.connectors.spark.checkpoint.unsafe_rows import BadRow
from cec_store.errors import SchemaMismatch
from cec_store.format.columns import Ints, flags_of
from cec_store.inspector.decoding.plain_values import rows_of
from cec_store.state_logs import families

_END = 2**31 - 1


class FamilyCells:
    """Cells of the rows of one column family, by its name."""

    def __init__(self, decoder: VariablesDecoder, family: str) -> None:
        """Raises :class:`SchemaMismatch` where no schema file has the family."""
        self._is_of_chunks = family.startswith(families.CHUNKS_OF)
        self.variable = family.removeprefix(families.CHUNKS_OF)
        """Name of the variable."""
        self._rows = decoder.rows_of(self.variable)
        self._is_list = self._is_of_chunks or self._rows.variable.is_list

    def keys(self, stored: pa.Array) -> pa.StructArray:
        """Decode keys; columns are those of the table above.

        Raises:
            SchemaMismatch: bytes that are not of the schema, or a type that is not supported.
            SparkUnavailable: rows in Avro, and the package fastavro is missing.
        """
        try:
            return self._keys(stored)
        except BadRow as error:
            raise self._mismatch(error) from None

    def values(self, stored: pa.Array) -> list[Any]:
        """Decode values, None where a row has none; raises as :meth:`keys`."""
        cells: list[Any] = [None] * len(stored)
        try:
            if self._is_list:
                self._fill_lists(cells, stored)
            else:
                _fill(cells, self._rows.values_as_written(stored))
        except BadRow as error:
            raise self._mismatch(error) from None
        return cells

    def check(self, keys: pa.Array, values: pa.Array) -> None:
        """Decode keys and values, and keep neither; raises as :meth:`keys`."""
        try:
            self._keys(keys)
            present = values.drop_null()
            if self._is_list:
                _, _, pieces = self._parts(present)
                _, present = elements_of(pieces)
            self._rows.values_as_written(present)
        except BadRow as error:
            raise self._mismatch(error) from None

    def _mismatch(self, error: BadRow) -> SchemaMismatch:
        path = self._rows.variable.path
        return SchemaMismatch(f"{error}: these rows are not of the schema in {path}")

    def _keys(self, stored: pa.Array) -> pa.StructArray:
        columns = {}
        if self._is_of_chunks:
            if pc.any(pc.less(pc.binary_length(stored), families.CHUNK_NUMBER_BYTES)).as_py():
                raise BadRow("a key of a list's chunk without the number of the chunk")
            tails = pc.binary_slice(stored, -families.CHUNK_NUMBER_BYTES).to_pylist()
            numbers = np.frombuffer(b"".join(tails), ">u4").astype(np.int64)
            columns = {"chunk": pa.array(numbers)}
            stored = pc.binary_slice(stored, 0, -families.CHUNK_NUMBER_BYTES)
        key = self._rows.keys(pa.chunked_array([stored])).combine_chunks()
        variable = pa.array([self.variable] * len(stored), pa.string())
        columns = {"variable": variable, "key": key, **columns}
        return pa.StructArray.from_arrays([*columns.values()], [*columns])

    def _parts(self, values: pa.Array) -> tuple[Ints, Ints, pa.Array]:
        """Return which of a list's records are heads, the number that stands in each record, and
        the elements of each as they are encoded: none of a head.
        """
        if self._is_of_chunks:
            if pc.any(pc.less(pc.binary_length(values), families.SAID_BYTES)).as_py():
                raise BadRow("a chunk of a list is shorter than what each begins with")
            told = pc.binary_slice(values, 0, families.SAID_BYTES).to_pylist()
            lengths = np.frombuffer(b"".join(told), "<u4").astype(np.int64)
            elements = pc.binary_slice(values, families.SAID_BYTES, _END)
            return np.empty(0, np.int64), lengths, elements
        is_head = families.is_head(values)
        heads = np.flatnonzero(flags_of(is_head))
        counts = np.zeros(len(values), np.int64)
        counts[heads] = families.chunk_counts(values.filter(is_head))
        return heads, counts, pc.if_else(is_head, pa.scalar(b"", pa.binary()), values)

    def _fill_lists(self, cells: list[Any], stored: pa.Array) -> None:
        rows = np.flatnonzero(flags_of(stored.is_valid())).tolist()
        heads, numbers, pieces = self._parts(stored.drop_null())
        of_list, elements = elements_of(pieces)
        plain: list[Any] = [None] * len(elements)
        _fill(plain, self._rows.values_as_written(elements))
        lists: list[list[Any]] = [[] for _ in rows]
        for number, element in zip(of_list.tolist(), plain, strict=True):
            lists[number].append(element)
        for number, row in enumerate(rows):
            cells[row] = lists[number]
            if self._is_of_chunks:
                cells[row] = {"said_bytes": int(numbers[number]), "list_element": lists[number]}
        for head in heads.tolist():
            cells[rows[head]] = {"chunks": int(numbers[head])}


def name_keys(stored: pa.Array) -> pa.StructArray:
    """Decode the keys of the family that names the others."""
    names = [families.text_of(name) for name in stored.to_pylist()]
    number = pa.array([families.NAMES] * len(names), pa.uint16())
    return pa.StructArray.from_arrays([number, pa.array(names, pa.string())], ["family", "name"])


def name_values(stored: pa.Array) -> list[Any]:
    """Decode the values of that family: a number each, None where a name is given up."""
    return [
        None if value is None else {"number": int.from_bytes(value, "little")}
        for value in stored.to_pylist()
    ]


def _fill(cells: list[Any], groups: list[tuple[Ints, pa.StructArray]]) -> None:
    for rows, values in groups:
        for row, cell in zip(rows.tolist(), rows_of(values), strict=True):
            cells[row] = cell
