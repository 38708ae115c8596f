"""Rows of one column family of a `transformWithState`, decoded by the schemas that Spark noted.

This is the one place that knows how a family's bytes are read: which encoding, which parts a key
has, and which form a value was written in. `read_state` and the inspectors ask it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cec_store.connectors.spark.checkpoint.avro_rows import AvroRows, number_of_schema
from cec_store.connectors.spark.checkpoint.ordered_fields import (
    bytes_type,
    ordered_columns,
    split_keys,
)
from cec_store.connectors.spark.checkpoint.row_places import Heap, Ranges
from cec_store.connectors.spark.checkpoint.unsafe_rows import BadRow, binaries_at, decode_rows
from cec_store.connectors.spark.checkpoint.variables import Variable
from cec_store.format.columns import Ints

_LENGTH_BYTES = 4


class FamilyRows:
    """Decodes keys and values of one column family, in either encoding."""

    def __init__(self, variable: Variable) -> None:
        self.variable = variable
        self._readers: dict[int, AvroRows] = {}
        """Readers of values as they were written, by the number of their form."""
        self._newest: AvroRows | None = None

    def keys(self, stored: pa.ChunkedArray) -> pa.ChunkedArray:
        """Decode keys as structs, whatever parts they are encoded in.

        Raises:
            BadRow: bytes that are no key of the schema.
            SchemaMismatch: a type that is not supported.
            SparkUnavailable: rows in Avro, and the package fastavro is missing.
        """
        variable = self.variable
        fields = list(variable.key)
        if variable.ordered:
            return self._in_order(stored, fields)
        if variable.forms is None:
            return decode_rows(stored, variable.key, variable.prefix_fields)
        keys = stored.to_pylist()
        count = variable.prefix_fields
        if not count:
            return self._struct(fields, self._avro_part(keys, fields))
        firsts, seconds = split_keys(keys)
        prefix = AvroRows(pa.struct(fields[:count]), {}, variable.path).decode_prefixes(firsts)
        return self._struct(fields, prefix.flatten() + self._avro_part(seconds, fields[count:]))

    def values(self, stored: pa.ChunkedArray) -> pa.ChunkedArray:
        """Decode values as structs of the newest form, null where there is none; raises as keys."""
        if self.variable.forms is None:
            return decode_rows(stored, self.variable.value)
        if self._newest is None:
            self._newest = AvroRows(self.variable.value, self.variable.forms, self.variable.path)
        return pa.chunked_array([self._newest.decode(stored.to_pylist())], self.variable.value)

    def values_as_written(self, stored: pa.Array) -> list[tuple[Ints, pa.StructArray]]:
        """Decode values in the forms that they were written in.

        Returns the rows of each form and their values; rows without a value are in none. Raises as
        :meth:`keys`.
        """
        rows = np.flatnonzero(stored.is_valid().to_numpy(zero_copy_only=False))
        values = stored.drop_null()
        if self.variable.forms is None:
            chunked = decode_rows(pa.chunked_array([values]), self.variable.value)
            return [(rows, chunked.combine_chunks())] if len(rows) else []
        encoded = values.to_pylist()
        numbers = np.array([number_of_schema(value) for value in encoded], np.int64)
        decoded = []
        for number in np.unique(numbers).tolist():
            here = np.flatnonzero(numbers == number)
            part = self._reader(number).decode(encoded[row] for row in here.tolist())
            decoded.append((rows[here], part))
        return decoded

    def _reader(self, number: int) -> AvroRows:
        if number not in self._readers:
            forms = self.variable.forms or {}
            known = {number: forms[number]} if number in forms else {}
            kind = forms.get(number, self.variable.value)
            self._readers[number] = AvroRows(kind, known, self.variable.path)
        return self._readers[number]

    def _avro_part(self, keys: list[bytes], fields: list[pa.Field]) -> list[pa.Array]:
        part = AvroRows(pa.struct(fields), {}, self.variable.path).decode_keys(keys)
        return part.flatten()  # type: ignore[no-any-return]

    def _in_order(self, stored: pa.ChunkedArray, fields: list[pa.Field]) -> pa.ChunkedArray:
        path, in_avro = self.variable.path, self.variable.forms is not None
        ordered = [fields[number] for number in self.variable.ordered]
        others = [n for n in range(len(fields)) if n not in self.variable.ordered]
        firsts, seconds = split_keys(stored.to_pylist())
        kind = bytes_type(ordered, in_avro=in_avro)
        if in_avro:
            part = AvroRows(kind, {}, path).decode_prefixes(firsts)
        else:
            part = decode_rows(pa.chunked_array([firsts], pa.binary()), kind).combine_chunks()
        columns = dict(
            zip(
                self.variable.ordered,
                ordered_columns(part, ordered, path, in_avro=in_avro),
                strict=True,
            )
        )
        if others:
            columns |= zip(others, self._others(seconds, [fields[n] for n in others]), strict=True)
        elif any(seconds):
            raise BadRow("bytes behind a key of which all fields are in order")
        return self._struct(fields, [columns[number] for number in range(len(fields))])

    def _others(self, keys: list[bytes], fields: list[pa.Field]) -> list[pa.Array]:
        if self.variable.forms is not None:
            return self._avro_part(keys, fields)
        chunked = decode_rows(pa.chunked_array([keys], pa.binary()), pa.struct(fields))
        return chunked.combine_chunks().flatten()  # type: ignore[no-any-return]

    def _struct(self, fields: list[pa.Field], columns: list[pa.Array]) -> pa.ChunkedArray:
        kind = self.variable.key
        return pa.chunked_array([pa.StructArray.from_arrays(columns, fields=fields)], kind)


def elements_of(lists: pa.Array) -> tuple[Ints, pa.BinaryArray]:
    """Cut lists, or parts of them, into the values that Spark put together (docs/format.md §9).

    Returns the number of the list that each value is of, ascending, and the values as they are
    encoded.

    Raises:
        BadRow: a list that ends within a value.
    """
    _, ends, data = lists.buffers()
    if not len(lists) or data is None:
        return np.empty(0, np.int64), pa.array([], pa.binary())
    places = np.frombuffer(ends, "<i4", len(lists) + 1, lists.offset * 4).astype(np.int64)
    heap = Heap(data, np.frombuffer(data, np.uint8))
    number = np.arange(len(lists))
    at, end = places[:-1], places[1:]
    rounds: list[tuple[Ints, Ints, Ints]] = []
    while True:  # one value of each list in each round
        left = at < end
        number, at, end = number[left], at[left], end[left]
        if not len(number):
            break
        if (at + _LENGTH_BYTES > end).any():
            raise BadRow("a list that ends within the length of a value")
        sizes = heap.read(at, "<u4").astype(np.int64)
        if (at + _LENGTH_BYTES + sizes > end).any():
            raise BadRow("a value that is longer than its list")
        rounds.append((number, at + _LENGTH_BYTES, sizes))
        at = at + _LENGTH_BYTES + sizes + 1
    if not rounds:
        return np.empty(0, np.int64), pa.array([], pa.binary())
    numbers, starts, sizes = (np.concatenate(arrays) for arrays in zip(*rounds, strict=True))
    order = np.argsort(numbers, kind="stable")
    parts = Ranges(starts[order], sizes[order])
    return numbers[order], binaries_at(heap, pa.binary(), parts)
