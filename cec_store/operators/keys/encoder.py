"""Group-by columns of any type to dense codes and back.

A key is a tuple of 64-bit words: a value of up to eight bytes is one word, a wider one of fixed
width several, a string or binary the number it has in a :class:`Dictionary` of its column. Nulls
are a value of their own (a word of bits, one per column), all NaNs are one value, and -0.0
equals 0.0, as in SQL's GROUP BY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cec_store.format.columns import Ints, flags_of, values_of
from cec_store.operators.keys.dictionary import Dictionary, is_text
from cec_store.operators.keys.words import WordTable

_NULL_BITS = 64
DEAD_MIN = 4096
"""Keys that may be dead before it is worth looking for them."""


@dataclass(frozen=True)
class KeyWords:
    """The words of some rows' keys; ``nulls`` is ``None`` where no column holds a null."""

    words: list[Ints]
    nulls: Ints | None

    def take(self, rows: Ints) -> KeyWords:
        nulls = None if self.nulls is None else self.nulls[rows]
        return KeyWords([word[rows] for word in self.words], nulls)

    def with_word(self, word: Ints) -> KeyWords:
        """Also the words of one more column that holds no null."""
        return KeyWords([*self.words, word], self.nulls)


def key_type(data_type: pa.DataType) -> pa.DataType:
    """The type that a column of ``data_type`` has in a key: a dictionary's values, else itself.

    Raises ``ValueError`` for types that cannot be a key (nested, null, extension).
    """
    if pa.types.is_dictionary(data_type):
        return key_type(data_type.value_type)
    is_fixed = (
        pa.types.is_primitive(data_type)
        or pa.types.is_decimal(data_type)
        or pa.types.is_fixed_size_binary(data_type)
    )
    if not (is_fixed and data_type.bit_width) and not is_text(data_type):
        raise ValueError(f"cannot group by a column of type {data_type}")
    return data_type


def valid_of(column: pa.Array) -> NDArray[np.bool_] | None:
    """Return True for each value that is not null; ``None`` where no value is null."""
    if column.null_count == 0:
        return None
    return flags_of(column.is_valid())


class KeyEncoder:
    """Keys of these columns, numbered densely; the numbers stay true from batch to batch.

    The owner says with :meth:`trim` which keys live on, so memory follows the live keys.
    """

    def __init__(self, schema: pa.Schema) -> None:
        if not len(schema):
            raise ValueError("a key needs at least one column")
        fields = [pa.field(field.name, key_type(field.type)) for field in schema]
        self.schema = pa.schema(fields)
        self._dictionaries = [Dictionary() if is_text(field.type) else None for field in fields]
        self._widths = [1 if is_text(field.type) else _word_count(field.type) for field in fields]
        # The nulls of the first 64 columns have a place of their own in the table, for keys that
        # have any; those of each 64 after them are a word of the key, before those of its columns.
        self._null_words = (len(fields) - 1) // _NULL_BITS
        self._table = WordTable(self._null_words + sum(self._widths))

    @property
    def bound(self) -> int:
        """Every code in use is below it."""
        return self._table.bound

    @property
    def size(self) -> int:
        """Number of keys that have a code."""
        return self._table.size

    def encode(self, columns: Sequence[pa.Array]) -> Ints:
        """The code of each row's key; a new key gets a new code. Shape (rows,)."""
        return self.encode_words(self.words(columns))

    def lookup(self, columns: Sequence[pa.Array]) -> Ints:
        """The code of each row's key, -1 for an unknown one. Shape (rows,)."""
        return self.lookup_words(self.words(columns, insert=False))

    def encode_words(self, key: KeyWords) -> Ints:
        return self._table.encode(key.words, key.nulls)

    def lookup_words(self, key: KeyWords) -> Ints:
        return self._table.find(key.words, key.nulls)

    def words(self, columns: Sequence[pa.Array], insert: bool = True) -> KeyWords:
        """The words of the leading columns of the key; the rest come by ``with_word``."""
        words: list[Ints] = []
        nulls: Ints | None = None
        later_nulls = [np.zeros(len(columns[0]), np.int64) for _ in range(self._null_words)]
        for place, column in enumerate(columns):
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            dictionary = self._dictionaries[place]
            if dictionary is None:
                of_column = _fixed_words(column)
            else:
                of_column = [dictionary.ids(column, insert)]
            valid = valid_of(column)
            if valid is not None:
                of_column = [np.where(valid, word, 0) for word in of_column]
                bits = (~valid).astype(np.int64) << place % _NULL_BITS
                if place >= _NULL_BITS:
                    later_nulls[place // _NULL_BITS - 1] |= bits
                else:
                    nulls = bits if nulls is None else nulls | bits
            words += of_column
        return KeyWords([*later_nulls, *words], nulls)

    def keys(self, codes: Ints) -> pa.StructArray:
        """The keys of these codes, one struct a code."""
        first_nulls = None if self._table.nulls is None else self._table.nulls[codes]
        words = [held[codes] for held in self._table.words]
        all_nulls = [first_nulls, *words[: self._null_words]]
        words = words[self._null_words :]
        columns = []
        for place, field in enumerate(self.schema):
            nulls = all_nulls[place // _NULL_BITS]
            valid = None if nulls is None else (nulls >> place % _NULL_BITS) & 1 == 0
            mine, words = words[: self._widths[place]], words[self._widths[place] :]
            dictionary = self._dictionaries[place]
            if dictionary is None:
                columns.append(fixed_column(field.type, mine, valid))
            else:
                values = dictionary.values(mine[0], valid)
                # Bytes of a string may be any: docs/format.md §6.
                as_they_are = pc.CastOptions(field.type, allow_invalid_utf8=True)
                columns.append(values.cast(options=as_they_are))
        return pa.StructArray.from_arrays(columns, fields=list(self.schema))

    def wants_trim(self, live_count: int) -> bool:
        """Return whether so many keys are dead that looking for them pays."""
        return self.size - live_count > max(live_count, DEAD_MIN)

    def trim(self, live: Ints) -> None:
        """Forget all keys but those of these codes (ascending), which keep their codes."""
        first = self._null_words
        for place, dictionary in enumerate(self._dictionaries):
            if dictionary is not None and len(dictionary) > 2 * max(len(live), DEAD_MIN):
                held = self._table.words[first]
                self._dictionaries[place], held[live] = dictionary.only(held[live])
            first += self._widths[place]
        self._table.trim(live)


def fixed_column(
    data_type: pa.DataType, words: list[Ints], valid: NDArray[np.bool_] | None
) -> pa.Array:
    """A column of fixed-width values from the words of each; the inverse of ``_fixed_words``."""
    count = len(words[0])
    if pa.types.is_boolean(data_type):
        mask = None if valid is None else ~valid
        return pa.array(words[0].astype(np.bool_), data_type, mask=mask)
    size = data_type.bit_width // 8
    if size in (1, 2, 4, 8):
        data = words[0].astype(f"i{size}")
    else:
        whole = np.stack(words, axis=1).view(np.uint8)
        data = np.ascontiguousarray(whole[:, :size])
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(data_type, count, [bits, pa.py_buffer(data)])


def _word_count(data_type: pa.DataType) -> int:
    return max(1, -(-int(data_type.bit_width) // 64))


def _fixed_words(column: pa.Array) -> list[Ints]:
    """The words of a column of fixed width; under a null anything."""
    if pa.types.is_boolean(column.type):
        return [flags_of(column).astype(np.int64)]
    size = column.type.bit_width // 8
    if pa.types.is_floating(column.type):
        floats = values_of(column, f"f{size}") + np.dtype(f"f{size}").type(0)  # -0.0 becomes 0.0
        floats[np.isnan(floats)] = np.nan
        return [floats.view(f"i{size}").astype(np.int64)]
    if size in (1, 2, 4, 8):
        return [values_of(column, f"i{size}").astype(np.int64, copy=False)]
    count = _word_count(column.type)
    padded = np.zeros((len(column), 8 * count), np.uint8)
    padded[:, :size] = values_of(column, f"V{size}").view(np.uint8).reshape(-1, size)
    words = padded.view(np.int64)
    return [np.ascontiguousarray(words[:, place]) for place in range(count)]
