"""Rows of a variable out of a state log: values, lists (docs/format.md §9), maps and timers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.connectors.spark.checkpoint import avro_rows
from cec_store.connectors.spark.checkpoint.avro_rows import AvroRows
from cec_store.connectors.spark.checkpoint.row_places import Heap, Ranges
from cec_store.connectors.spark.checkpoint.unsafe_rows import (
    BadRow,
    decode_rows,
    structs_at,
    unversioned,
)
from cec_store.connectors.spark.checkpoint.variables import Variable
from cec_store.errors import CorruptLog, SchemaMismatch
from cec_store.format.columns import Ints
from cec_store.format.schema import KEY, STATE
from cec_store.state_logs.state_log import StateLog

_NAMES = 0
"""The family that names the others."""
_OF_CHUNKS = "\0"
_HEAD_BYTES = 8
_LENGTH_BYTES = 4
_NO_LENGTH = bytes(_LENGTH_BYTES)
_NUMBER_BYTES = 4
_SAID_BYTES = 4
_END = 2**31 - 1
"""Behind any value's end. Without an end, Arrow 26 refuses to slice an even number of values."""


def variable_rows(log: StateLog, at: int | str, variable: Variable) -> pa.Table:
    """Read a variable at a version: columns ``key`` and, by its kind, ``value``, ``list_element``,
    ``user_map_key`` and ``user_map_value``, or ``expiration_timestamp_ms``.

    Raises:
        SchemaMismatch: these bytes are not of the variable's schema.
        CorruptLog: a list lacks chunks, or has others than its head says.
    """
    footprints, rows = log.open_footprints(at)
    (family, key), (value, _) = (footprints.column(n).flatten() for n in (KEY, STATE))
    live = pa.table({"family": family, "key": key, "value": value}).take(pa.array(rows))
    named = _of_family(live, _NAMES)
    numbers = {
        name.decode(): int.from_bytes(number, "little")
        for name, number in zip(named["key"].to_pylist(), named["value"].to_pylist(), strict=True)
    }
    own = _of_family(live, numbers.get(variable.family, -1))
    try:
        if variable.is_list:
            chunks = _of_family(live, numbers.get(_OF_CHUNKS + variable.family, -1))
            return _elements(own, chunks, variable, log.folder.path)
        keys = _keys(own["key"], variable)
        if variable.is_timers:
            group, expiry = keys.combine_chunks().flatten()
            return pa.table({"key": group, "expiration_timestamp_ms": expiry})
        values = _values(own["value"], variable)
        if variable.is_map:
            group, users = keys.combine_chunks().flatten()
            return pa.table({"key": group, "user_map_key": users, "user_map_value": values})
        return pa.table({"key": keys, "value": values})
    except BadRow as error:
        raise SchemaMismatch(
            f"{log.folder.path}: {error}: these rows are not of the schema in {variable.path}"
        ) from None


def _keys(stored: pa.ChunkedArray, variable: Variable) -> pa.ChunkedArray:
    if variable.forms is None:
        return decode_rows(stored, variable.key, variable.prefix_fields)
    return avro_rows.decode_keys(stored, variable.key, variable.prefix_fields, variable.path)


def _values(stored: pa.ChunkedArray, variable: Variable) -> pa.ChunkedArray:
    if variable.forms is None:
        return decode_rows(stored, variable.value)
    rows = AvroRows(variable.value, variable.forms, variable.path)
    return pa.chunked_array([rows.decode(stored.to_pylist())], variable.value)


def _values_at(heap: Heap, places: Ranges, variable: Variable) -> pa.StructArray:
    if variable.forms is None:
        return structs_at(heap, variable.value, unversioned(heap, places))
    rows = AvroRows(variable.value, variable.forms, variable.path)
    data = memoryview(heap.buffer)
    spans = zip(places.start[:].tolist(), places.end.tolist(), strict=True)
    return rows.decode(bytes(data[at:end]) for at, end in spans)


def _of_family(live: pa.Table, number: int) -> pa.Table:
    if number < 0:
        return live.slice(0, 0)
    return live.filter(pc.equal(live["family"], pa.scalar(number, pa.uint16())))


def _elements(own: pa.Table, chunks: pa.Table, variable: Variable, path: str) -> pa.Table:
    """A row for each value of each list, in its order."""
    keys, values = (own[name].combine_chunks() for name in ("key", "value"))
    # A list in Avro may have 8 bytes as well, which begin with the length of its first value.
    is_head = pc.and_(
        pc.equal(pc.binary_length(values), _HEAD_BYTES),
        pc.equal(pc.binary_slice(values, 0, _LENGTH_BYTES), _NO_LENGTH),
    )
    alone = pc.invert(is_head)
    places, numbers, taken = _chunk_places(chunks)
    _check_whole(keys.filter(is_head), values.filter(is_head), places, numbers, path)
    chunk_values = chunks["value"].combine_chunks().take(taken)
    if pc.any(pc.less(pc.binary_length(chunk_values), _SAID_BYTES)).as_py():
        raise _not_whole(path, "a chunk of a list is shorter than what each begins with")
    pieces = pa.chunked_array(
        [values.filter(alone), pc.binary_slice(chunk_values, _SAID_BYTES, _END)], pa.binary()
    ).combine_chunks()
    of_list = pa.chunked_array([keys.filter(alone), places], pa.binary())
    piece_numbers, elements = _split(pieces, variable)
    decoded = _keys(of_list, variable)
    return pa.table({"key": decoded.take(pa.array(piece_numbers)), "list_element": elements})


def _chunk_places(chunks: pa.Table) -> tuple[pa.BinaryArray, Ints, pa.Array]:
    """The list that each chunk is of, its number there, and the order that this is in: list by
    list, and by number."""
    keys = chunks["key"].combine_chunks()
    if not len(keys):
        return keys, np.empty(0, np.int64), pa.array([], pa.int64())
    tails = b"".join(pc.binary_slice(keys, -_NUMBER_BYTES).to_pylist())
    places = pc.binary_slice(keys, 0, -_NUMBER_BYTES)
    numbers = np.frombuffer(tails, ">u4").astype(np.int64)
    order = np.lexsort((numbers, pc.rank(places, tiebreaker="min").to_numpy()))
    taken = pa.array(order)
    return places.take(taken), numbers[order], taken


def _check_whole(
    heads: pa.BinaryArray, counts: pa.BinaryArray, places: pa.BinaryArray, numbers: Ints, path: str
) -> None:
    """Each head has as many chunks as it says, numbered from 0, and each chunk has a head.

    Raises:
        CorruptLog: it is not so.
    """
    due = np.frombuffer(b"".join(counts.to_pylist()), "<u4").reshape(-1, 2)[:, 1].astype(np.int64)
    if not len(due) and not len(places):
        return
    order = pc.sort_indices(heads)
    due = due[order.to_numpy()]
    # Sorted as the chunks are, by their lists: what is due is written out and must be there.
    due_numbers = np.arange(due.sum()) - np.repeat(np.cumsum(due) - due, due)
    lists = heads.take(order).take(pa.array(np.repeat(np.arange(len(due)), due)))
    if not (lists.equals(places) and np.array_equal(due_numbers, numbers)):
        raise _not_whole(path, f"{len(places)} chunks where {len(lists)} or others are due")


def _not_whole(path: str, reason: str) -> CorruptLog:
    advice = "restore the folder from a copy, or restart from an older batch"
    return CorruptLog(path, 0, f"records of a list are not there: {reason}", advice)


def _split(pieces: pa.BinaryArray, variable: Variable) -> tuple[Ints, pa.StructArray]:
    """The values in each piece, and of which piece each is: one value of all pieces at a time."""
    _, ends, data = pieces.buffers()
    if not len(pieces) or data is None:
        return np.empty(0, np.int64), pa.array([], variable.value)
    places = np.frombuffer(ends, "<i4", len(pieces) + 1, pieces.offset * 4).astype(np.int64)
    heap = Heap(data, np.frombuffer(data, np.uint8))
    piece = np.arange(len(pieces))
    at, end = places[:-1], places[1:]
    rounds: list[tuple[Ints, Ints, Ints]] = []
    while True:
        left = at < end
        piece, at, end = piece[left], at[left], end[left]
        if not len(piece):
            break
        if (at + 4 > end).any():
            raise BadRow("a list that ends within the length of a value")
        sizes = heap.read(at, "<u4").astype(np.int64)
        if (at + 4 + sizes > end).any():
            raise BadRow("a value that is longer than its list")
        rounds.append((piece, at + 4, sizes))
        at = at + 4 + sizes + 1
    if not rounds:
        return np.empty(0, np.int64), pa.array([], variable.value)
    pieces_of, starts, sizes = (np.concatenate(arrays) for arrays in zip(*rounds, strict=True))
    order = np.argsort(pieces_of, kind="stable")
    return pieces_of[order], _values_at(heap, Ranges(starts[order], sizes[order]), variable)
