"""Strings and binaries to dense numbers and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cec_store.format.columns import Ints, flags_of, values_of
from cec_store.operators.keys.words import WordTable, grown


def is_text(data_type: pa.DataType) -> bool:
    """Return whether values of this type vary in length."""
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_string_view(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
        or pa.types.is_binary_view(data_type)
    )


class Dictionary:
    """The values of one column of strings or binaries, numbered as they come.

    The table knows a value by a 64-bit hash and the salt that the hash was made with. Two values
    with the same hash are told apart by their bytes; the later one is tried with the next salt.
    """

    def __init__(self) -> None:
        self._table = WordTable(2)
        self._ends: Ints = np.zeros(1, np.int64)
        self._bytes: NDArray[np.uint8] = np.zeros(1024, np.uint8)
        self._weights = _weights(64)

    def __len__(self) -> int:
        return self._table.size

    def ids(self, column: pa.Array, insert: bool) -> Ints:
        """The number of each value, -1 for an unknown one; for a null any number."""
        encoded = column.dictionary_encode()
        values = encoded.dictionary.cast(pa.large_binary())
        if not len(values):
            return np.full(len(column), -1, np.int64)
        ids = self._ids_of_distinct(values, insert)
        return ids.take(values_of(encoded.indices.fill_null(0), "i4"))

    def values(self, ids: Ints, valid: NDArray[np.bool_] | None = None) -> pa.Array:
        """The values of these numbers as ``large_binary``, null where not ``valid``."""
        buffers = [None, pa.py_buffer(self._ends), pa.py_buffer(self._bytes)]
        held = pa.Array.from_buffers(pa.large_binary(), len(self), buffers)
        return held.take(pa.array(ids, mask=None if valid is None else ~valid))

    def only(self, ids: Ints) -> tuple[Dictionary, Ints]:
        """A dictionary of these values alone, and what became of the numbers."""
        known = ids < len(self)  # a null's number may be of a dictionary that is empty
        distinct, place = np.unique(ids[known], return_inverse=True)
        smaller = Dictionary()
        numbers = np.zeros(len(ids), np.int64)
        numbers[known] = smaller.ids(self.values(distinct), insert=True)[place]
        return smaller, numbers

    def _ids_of_distinct(self, values: pa.Array, insert: bool) -> Ints:
        ids = np.full(len(values), -1, np.int64)
        pending = np.arange(len(values))
        salt = 0
        while len(pending):
            part = values if salt == 0 else values.take(pa.array(pending))
            words = [self._hashes(part), np.full(len(part), salt, np.int64)]
            known = self._table.find(words)
            if insert:
                new = np.flatnonzero(known < 0)
                codes = self._table.encode([word[new] for word in words])
                # One code may stand for several new values: the first of them takes it.
                _, first = np.unique(codes, return_index=True)
                self._append(part.take(pa.array(new[first])))
                known[new] = codes
            hits = np.flatnonzero(known >= 0)
            theirs = part if len(hits) == len(part) else part.take(pa.array(hits))
            is_same = flags_of(pc.equal(theirs, self.values(known[hits])))
            ids[pending[hits[is_same]]] = known[hits[is_same]]
            pending = pending[hits[~is_same]]
            salt += 1
        return ids

    def _append(self, values: pa.Array) -> None:
        count = self._table.size
        ends = _ends(values)
        start, stop = int(self._ends[count - len(values)]), int(ends[-1] - ends[0])
        if count + 1 > len(self._ends):
            self._ends = grown(self._ends, count + 1)
        self._ends[count - len(values) + 1 : count + 1] = start + ends[1:] - ends[0]
        if start + stop > len(self._bytes):
            self._bytes = grown(self._bytes, start + stop)
        self._bytes[start : start + stop] = _bytes(values)[ends[0] : ends[-1]]

    def _hashes(self, values: pa.Array) -> Ints:
        """The sum of each value's length and eight-byte words, each with a weight by its place."""
        ends = _ends(values)
        lengths = np.diff(ends)
        counts = (lengths + 7) >> 3
        while len(self._weights) <= counts.max(initial=0):
            self._weights = _weights(2 * len(self._weights))
        hashes: Ints = lengths * self._weights[0]
        full = np.flatnonzero(lengths)
        if not len(full):
            return hashes
        lengths, counts = lengths[full], counts[full]
        starts = np.cumsum(counts) - counts
        padded = np.zeros(8 * int(counts.sum()), np.uint8)
        data = _bytes(values)[ends[0] : ends[-1]]
        if (lengths == lengths[0]).all():
            padded.reshape(len(full), -1)[:, : lengths[0]] = data.reshape(len(full), -1)
        else:
            shifts = 8 * starts - (ends[full] - ends[0])
            padded[np.arange(len(data)) + np.repeat(shifts, lengths)] = data
        words = padded.view(np.int64)
        # Without this a difference in a word's high bits alone would survive in few bits.
        words = words ^ (words >> 32)
        place = np.arange(1, len(words) + 1) - np.repeat(starts, counts)
        hashes[full] += np.add.reduceat(words * self._weights[place], starts)
        return hashes


def _weights(count: int) -> Ints:
    """The first ``count`` of one fixed sequence of random words, all odd."""
    random = np.random.default_rng(0)
    words: Ints = random.integers(-(2**63), 2**63 - 1, count, np.int64, endpoint=True)
    return words | 1


def _ends(values: pa.Array) -> Ints:
    """Return the first byte of each value of a ``large_binary`` column, and the last one's end."""
    ends: Ints = np.frombuffer(values.buffers()[1], np.int64, len(values) + 1, 8 * values.offset)
    return ends


def _bytes(values: pa.Array) -> NDArray[np.uint8]:
    data = values.buffers()[2]
    return np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
