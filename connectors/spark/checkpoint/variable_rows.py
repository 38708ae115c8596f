"""Rows of a variable out of a state log: values, lists (docs/format.md §9), maps and timers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.connectors.spark.checkpoint.family_rows import FamilyRows, elements_of
from cec_store.connectors.spark.checkpoint.unsafe_rows import BadRow
from cec_store.connectors.spark.checkpoint.variables import Variable
from cec_store.errors import CorruptLog, RecoveryError, SchemaMismatch
from cec_store.format.columns import Ints, one_array, taken
from cec_store.format.schema import KEY, STATE
from cec_store.state_logs import families
from cec_store.state_logs.state_log import StateLog

_END = 2**31 - 1
"""Behind any value's end. Without an end, Arrow 26 refuses to slice an even number of values."""
_BETWEEN = b","


def variable_rows(log: StateLog, at: int | str, variable: Variable) -> pa.Table:
    """Read a variable at a version: columns ``key`` and, by its kind, ``value``, ``list_element``,
    ``user_map_key`` and ``user_map_value``, or ``expiration_timestamp_ms``.

    Raises:
        SchemaMismatch: these bytes are not of the variable's schema.
        CorruptLog: a list lacks chunks, or has others than its head says.
        RecoveryError: a column of the variable has more than 2 GiB in this partition.
    """
    footprints, opened = log.open_footprints(at)
    (family, key), (value, _) = (footprints.column(n).flatten() for n in (KEY, STATE))
    columns = {"family": family, "key": key, "value": value}
    live = _Live(pa.table({name: taken(column, opened) for name, column in columns.items()}))
    rows = FamilyRows(variable)
    own = live.of(variable.family)
    try:
        if variable.is_list:
            pieces = _pieces(own, live.of(families.CHUNKS_OF + variable.family), log.folder.path)
            return _elements(pieces, rows)
        keys = rows.keys(own["key"])
        if variable.is_timers:
            group, expiry = one_array(keys).flatten()
            return pa.table({"key": group, "expiration_timestamp_ms": expiry})
        values = rows.values(own["value"])
        if variable.is_map:
            group, users = one_array(keys).flatten()
            return pa.table({"key": group, "user_map_key": users, "user_map_value": values})
        return pa.table({"key": keys, "value": values})
    except BadRow as error:
        raise SchemaMismatch(
            f"{log.folder.path}: {error}: these rows are not of the schema in {variable.path}"
        ) from None
    except RecoveryError as error:
        raise RecoveryError(f"{log.folder.path}: variable {variable.family}: {error}") from None


def rows_by_name(stored: pa.Table, path: str) -> pa.Table:
    """Return all rows of a version with the names of their families in the place of numbers.

    Columns are ``family``, ``key`` and ``value``, as they are stored, but that each list is one
    row, whatever chunks it is cut into. The rows that name families are left out.

    Raises:
        CorruptLog: a list lacks chunks, or has others than its head says, or no record names a
            family that has rows.
    """
    live = _Live(stored)
    unnamed = live.numbers - live.names.keys() - {families.NAMES}
    if unnamed:
        raise _damage(path, f"family {min(unnamed)} has rows, and no record names it")
    tables = []
    for name in sorted(live.names.values()):
        if name.startswith(families.CHUNKS_OF):
            continue
        own = live.of(name).select(["key", "value"])
        chunks = live.of(families.CHUNKS_OF + name)
        if chunks.num_rows or families.CHUNKS_OF + name in live.names.values():
            own = _whole_lists(_pieces(own, chunks, path))
        tables.append(own.add_column(0, "family", pa.array([name] * own.num_rows, pa.string())))
    return pa.concat_tables(tables).combine_chunks()


class _Live:
    """Rows of a version, by the names of their families."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self.names = families.names_in(rows)
        """Names by number."""
        self.numbers = {*pc.unique(rows["family"]).to_pylist()}
        """Numbers of the families that have rows."""

    def of(self, name: str) -> pa.Table:
        """Return the rows of a family; none where it is not here."""
        numbers = [number for number, known in self.names.items() if known == name]
        if not numbers:
            return self._rows.slice(0, 0)
        number = pa.scalar(numbers[0], pa.uint16())
        return self._rows.filter(pc.equal(self._rows["family"], number))


class _Pieces(NamedTuple):
    """Lists, or parts of them, list by list and in their order."""

    keys: pa.BinaryArray
    """Key of the list that each is of."""
    values: pa.BinaryArray
    """Values in Spark's encoding."""


def _pieces(own: pa.Table, chunks: pa.Table, path: str) -> _Pieces:
    """Return the lists that stand in one record, and the chunks of the others.

    Raises:
        CorruptLog: chunks are missing, or are not those that a head counts.
        RecoveryError: keys or values are more than one array holds.
    """
    keys, values = (one_array(own[name]) for name in ("key", "value"))
    is_head = families.is_head(values)
    alone = pc.invert(is_head)
    places, numbers, order = _chunk_places(chunks)
    _check_whole(keys.filter(is_head), values.filter(is_head), places, numbers, path)
    chunk_values = one_array(chunks["value"]).take(order)
    if pc.any(pc.less(pc.binary_length(chunk_values), families.SAID_BYTES)).as_py():
        raise _not_whole(path, "a chunk of a list is shorter than what each begins with")
    parts = pc.binary_slice(chunk_values, families.SAID_BYTES, _END)
    return _Pieces(
        one_array(pa.chunked_array([keys.filter(alone), places], pa.binary())),
        one_array(pa.chunked_array([values.filter(alone), parts], pa.binary())),
    )


def _elements(pieces: _Pieces, rows: FamilyRows) -> pa.Table:
    """A row for each value of each list, in its order."""
    numbers, elements = elements_of(pieces.values)
    keys = rows.keys(pa.chunked_array([pieces.keys])).take(pa.array(numbers))
    return pa.table({"key": keys, "list_element": rows.values(pa.chunked_array([elements]))})


def _whole_lists(pieces: _Pieces) -> pa.Table:
    """A row for each list, as if it stood in one record."""
    lists: dict[bytes, list[bytes]] = {}
    for key, value in zip(pieces.keys.to_pylist(), pieces.values.to_pylist(), strict=True):
        lists.setdefault(key, []).append(value)
    whole = [_BETWEEN.join(parts) for parts in lists.values()]
    return pa.table({"key": pa.array([*lists], pa.binary()), "value": pa.array(whole, pa.binary())})


def _chunk_places(chunks: pa.Table) -> tuple[pa.BinaryArray, Ints, pa.Array]:
    """The list that each chunk is of, its number there, and the order that this is in: list by
    list, and by number."""
    keys = one_array(chunks["key"])
    if not len(keys):
        return keys, np.empty(0, np.int64), pa.array([], pa.int64())
    tails = b"".join(pc.binary_slice(keys, -families.CHUNK_NUMBER_BYTES).to_pylist())
    places = pc.binary_slice(keys, 0, -families.CHUNK_NUMBER_BYTES)
    numbers = np.frombuffer(tails, ">u4").astype(np.int64)
    order = np.lexsort((numbers, pc.rank(places, tiebreaker="min").to_numpy()))
    rows = pa.array(order)
    return places.take(rows), numbers[order], rows


def _check_whole(
    heads: pa.BinaryArray, counts: pa.BinaryArray, places: pa.BinaryArray, numbers: Ints, path: str
) -> None:
    """Each head has as many chunks as it says, numbered from 0, and each chunk has a head.

    Raises:
        CorruptLog: it is not so.
    """
    due = families.chunk_counts(counts)
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
    return _damage(path, f"records of a list are not there: {reason}")


def _damage(path: str, reason: str) -> CorruptLog:
    advice = "restore the folder from a copy, or restart from an older batch"
    return CorruptLog(path, 0, reason, advice)
