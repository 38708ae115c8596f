"""Spark's UnsafeRows as Arrow columns: many rows at a time, no loop over them.

A row is a null bit for each field (in words of 8 bytes), a word for each field, and what does not
fit into a word behind them; its word then says where, as ``offset << 32 | size`` from the row's
beginning. An array is the number of its elements, their null bits, and elements of their own
width, else words as in a row. A map is the size of its array of keys, that array, and one of the
values. (Spark: ``UnsafeRow``, ``UnsafeArrayData``, ``UnsafeMapData`` and their writers.)

A range of bytes is looked at only after it has been found to lie inside the one it is part of, so
no row can make a reader look at another's bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.connectors.spark.checkpoint.row_places import Heap, Places, Ranges, ranges_at
from cec_store.format.arrow_values import check_column
from cec_store.format.columns import Bools, Ints, rows_by_chunk

ROWS_AT_A_TIME = 1 << 17
"""Few enough that the places of their fields stay in the processor's cache."""
_ENCODING_VERSION = 0
_WIDE_DECIMAL_BYTES = 16
_COMPACT_DIGITS_MAX = 18


class BadRow(ValueError):
    """Bytes that are no row of the schema."""


def decode_rows(
    encoded: pa.ChunkedArray,
    kind: pa.StructType,
    prefix_fields: int = 0,
    chosen: Ints | None = None,
) -> pa.ChunkedArray:
    """Rows as a state store keeps them: a version byte each, and then the row.

    With ``chosen``, ascending numbers of rows, only these are looked at.
    With ``prefix_fields`` a row is cut in two behind so many fields, for scans by prefix: the size
    of the first part (an int), and the parts. A null stays one.

    Raises:
        BadRow: bytes that are no row of the schema.
    """
    if chosen is None:
        parts = (
            rows.slice(first, ROWS_AT_A_TIME)
            for rows in encoded.chunks
            for first in range(0, len(rows), ROWS_AT_A_TIME)
        )
    else:
        parts = (
            _taken(rows, numbers[first : first + ROWS_AT_A_TIME])
            for rows, numbers in zip(encoded.chunks, rows_by_chunk(encoded, chosen), strict=True)
            for first in range(0, len(numbers), ROWS_AT_A_TIME)
        )
    chunks = [_decode(part, kind, prefix_fields) for part in parts]
    decoded = pa.chunked_array(chunks, type=kind)
    try:
        for chunk in decoded.chunks:
            check_column(chunk)  # numbers are within their types
    except pa.ArrowInvalid as error:
        raise BadRow(str(error)) from None
    return decoded


def _taken(encoded: pa.BinaryArray, rows: Ints) -> pa.BinaryArray:
    """Return these rows. Those of one length are cut out, twice as fast as Arrow takes them."""
    if len(rows) == len(encoded):
        return encoded
    _, ends, data = encoded.buffers()
    places = np.frombuffer(ends, "<i4", len(encoded) + 1, encoded.offset * 4)
    size = int(places[1] - places[0])
    if encoded.null_count or not size or (places[1:] - places[:-1] != size).any():
        return encoded.take(pa.array(rows))
    every = np.ndarray((len(encoded), size), np.uint8, data, int(places[0]))
    taken = pa.py_buffer(every.take(rows, axis=0))
    ends = pa.py_buffer(np.arange(len(rows) + 1, dtype=np.int32) * np.int32(size))
    return pa.Array.from_buffers(encoded.type, len(rows), [None, ends, taken])


def _decode(encoded: pa.BinaryArray, kind: pa.StructType, prefix_fields: int) -> pa.StructArray:
    if not len(encoded):
        return pa.array([], kind)
    if encoded.null_count:
        is_valid = encoded.is_valid().to_numpy(zero_copy_only=False)
        return _spread(_decode(encoded.drop_null(), kind, prefix_fields), is_valid)
    _, ends, data = encoded.buffers()
    places = np.frombuffer(ends, "<i4", len(encoded) + 1, encoded.offset * 4)
    heap = Heap(data, np.frombuffer(data, np.uint8))
    rows = ranges_at(places)
    if not prefix_fields:
        return structs_at(heap, kind, unversioned(heap, rows))
    _require(rows.sizes >= 4, "too short for a key in two parts")
    sizes = heap.read(rows.start, "<i4").astype(np.int64)
    middle = rows.start + 4 + sizes
    _require(middle <= rows.end, "a first part longer than its key")
    fields = list(kind)
    parts = [
        (Ranges(rows.start + 4, sizes), fields[:prefix_fields]),
        (Ranges(middle, rows.end - middle), fields[prefix_fields:]),
    ]
    columns: list[pa.Array] = []
    for part, of in parts:
        columns += structs_at(heap, pa.struct(of), unversioned(heap, part)).flatten()
    return pa.Array.from_buffers(kind, len(encoded), [None], children=columns)


@dataclass(frozen=True)
class _Slots:
    """The words of one column: where each stands, and the row or array that it counts from."""

    at: Places
    of: Ranges
    there: Bools | None
    """True for each word that is not null; ``None`` where no word is null."""


def _require(holds: Any, what: str) -> None:
    if not np.all(holds):
        raise BadRow(what)


def unversioned(heap: Heap, rows: Ranges) -> Ranges:
    """Rows without the version byte that a state store puts before each."""
    _require(rows.sizes >= 1, "nothing where a row should be")
    versions = heap.read(rows.start, "u1")
    _require(versions == _ENCODING_VERSION, "a row in an encoding that is not known")
    return Ranges(rows.start + 1, rows.sizes - 1)


def structs_at(heap: Heap, kind: pa.StructType, rows: Ranges) -> pa.StructArray:
    """The rows at these places; raises :class:`BadRow`."""
    bit_words = -(-kind.num_fields // 64)
    _require(rows.sizes >= 8 * (bit_words + kind.num_fields), "too short for its fields")
    columns = []
    for number in range(kind.num_fields):
        if number % 64 == 0:
            nulls = heap.read(rows.start + number // 8, "<i8")
        at = rows.start + 8 * (bit_words + number)
        slots = _Slots(at, rows, _there(nulls, number % 64))
        columns.append(_column(heap, kind.field(number).type, slots))
    return pa.Array.from_buffers(kind, len(rows.start), [None], children=columns)


def _there(nulls: Ints, bit: int | Ints) -> Bools | None:
    if not nulls.any():
        return None
    is_valid: Bools = (nulls >> bit) & 1 == 0
    return None if is_valid.all() else is_valid


def _elements(heap: Heap, kind: pa.DataType, arrays: Ranges) -> tuple[Ints, pa.Array]:
    """Return the offset of each array among all elements, and one column of these elements.

    Raises:
        BadRow: an array is longer than its bytes, or all have more than 2^31 elements.
    """
    _require(arrays.sizes >= 8, "too short for an array")
    counts = heap.read(arrays.start, "<i8")
    width = np.dtype(_in_a_word(kind) or "<i8").itemsize
    # Every element takes space, so that counts are bounded and cannot overflow below.
    _require((counts >= 0) & (counts <= arrays.sizes), "an array of an impossible length")
    heads = 8 + (counts + 63) // 64 * 8
    _require(heads + counts * width <= arrays.sizes, "an array longer than its bytes")
    offsets = np.concatenate([[0], np.cumsum(counts)])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise BadRow("more than 2^31 elements in the arrays of one batch of rows")
    array = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(offsets[-1]) - offsets[array]
    of = arrays.take(array)
    nulls = heap.read(of.start + 8 + number // 64 * 8, "<i8")
    at = of.start + heads[array] + number * width
    return offsets, _column(heap, kind, _Slots(at, of, _there(nulls, number % 64)))


def _lists(heap: Heap, kind: pa.ListType, arrays: Ranges) -> pa.ListArray:
    offsets, values = _elements(heap, kind.value_type, arrays)
    ends = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(kind, len(arrays.start), [None, ends], children=[values])


def _maps(heap: Heap, kind: pa.MapType, maps: Ranges) -> pa.MapArray:
    _require(maps.sizes >= 8, "too short for a map")
    key_bytes = heap.read(maps.start, "<i8")
    _require((key_bytes >= 0) & (key_bytes <= maps.sizes - 8), "a map longer than its bytes")
    middle = maps.start + 8 + key_bytes
    offsets, keys = _elements(heap, kind.key_type, Ranges(maps.start + 8, key_bytes))
    ends, items = _elements(heap, kind.item_type, Ranges(middle, maps.end - middle))
    _require(offsets == ends, "a map with more keys than values, or fewer")
    _require(keys.is_valid().to_numpy(zero_copy_only=False), "a map with a null for a key")
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind)


def binaries_at(heap: Heap, kind: pa.DataType, parts: Ranges) -> pa.Array:
    """The bytes or texts at these places, which stand in order; raises :class:`BadRow`."""
    # Rows follow one another, and so do the elements of an array: all parts and all that lies
    # between them are one column over the bytes as they are, of which Arrow takes every other.
    _require(parts.start[1:] >= parts.end[:-1], "elements that are not in order")
    count = len(parts.start)
    if not count:
        return pa.array([], kind)
    ends = np.stack([parts.start[:], parts.end], axis=1).reshape(-1).astype(np.int32)
    every = pa.Array.from_buffers(kind, 2 * count - 1, [None, pa.py_buffer(ends), heap.buffer])
    return every.take(pa.array(np.arange(0, 2 * count, 2)))


def _wide_decimals(heap: Heap, kind: pa.DataType, parts: Ranges) -> pa.Array:
    """Return decimals of up to 16 bytes, the most significant first, as many as each needs."""
    sizes = parts.sizes
    _require((sizes >= 1) & (sizes <= _WIDE_DECIMAL_BYTES), "a decimal of an impossible size")
    number = np.zeros((len(sizes), _WIDE_DECIMAL_BYTES), np.uint8)
    for byte in range(_WIDE_DECIMAL_BYTES):  # from the least significant on
        has_byte = sizes > byte
        if byte:
            number[:, byte] = (number[:, byte - 1].view(np.int8) >> 7).view(np.uint8)
        number[has_byte, byte] = heap.read(parts.end[has_byte] - 1 - byte, "u1")
    return pa.Array.from_buffers(kind, len(sizes), [None, pa.py_buffer(number)])


_PARTS: dict[int, Callable[[Heap, Any, Ranges], pa.Array]] = {
    pa.lib.Type_STRUCT: structs_at,
    pa.lib.Type_LIST: _lists,
    pa.lib.Type_MAP: _maps,
    pa.lib.Type_BINARY: binaries_at,
    pa.lib.Type_STRING: binaries_at,
    pa.lib.Type_DECIMAL128: _wide_decimals,
}


def _column(heap: Heap, kind: pa.DataType, slots: _Slots) -> pa.Array:
    if pa.types.is_null(kind):
        return pa.nulls(len(slots.at))
    dtype = _in_a_word(kind)
    if dtype is not None:
        return _numbers(kind, heap.read(slots.at, dtype), slots.there)
    at, of = slots.at, slots.of
    if slots.there is not None:
        at, of = at[slots.there], of.take(slots.there)
    words = heap.read(at, "<i8")
    start, sizes = of.start + (words >> 32), words & 0xFFFFFFFF
    _require((words >= 0) & (start + sizes <= of.end), "a field that points beyond its row")
    column = _PARTS[kind.id](heap, kind, Ranges(start, sizes))
    return column if slots.there is None else _spread(column, slots.there)


def _numbers(kind: pa.DataType, values: NDArray[Any], is_valid: Bools | None) -> pa.Array:
    """A column of values that stand in their words; anything may stand for a null."""
    count = len(values)
    if pa.types.is_boolean(kind):
        values = np.packbits(values != 0, bitorder="little")
    elif pa.types.is_decimal(kind):
        values = np.stack([values, values >> 63], axis=1)
    elif pa.types.is_interval(kind):
        months = np.zeros((count, 4), "<i4")  # then days, and nanoseconds in two words
        months[:, 0] = values
        values = months
    valid = None
    if is_valid is not None:
        valid = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    return pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(values)])


def _in_a_word(kind: pa.DataType) -> str | None:
    """Return NumPy's type of a value that stands in its word; ``None`` if it stands elsewhere."""
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return "u1"
    if pa.types.is_interval(kind):  # months alone
        return "<i4"
    if pa.types.is_decimal(kind):
        return "<i8" if kind.precision <= _COMPACT_DIGITS_MAX else None
    if pa.types.is_floating(kind):
        return f"<f{kind.bit_width // 8}"
    return f"<i{kind.bit_width // 8}" if pa.types.is_primitive(kind) else None


def _spread(column: pa.Array, is_valid: Bools) -> pa.Array:
    """Return ``column`` with a null wherever ``is_valid`` is False."""
    places = np.cumsum(is_valid) - 1
    return column.take(pa.array(places, mask=~is_valid))
