"""Differences between two states: of one place at two versions, or of two places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.checkpoints.last_rows import key_codes
from cec_store.checkpoints.rebuild import rebuild
from cec_store.connectors.spark.checkpoint.layout import DEFAULT_STORE
from cec_store.connectors.spark.checkpoint.state_rows import RowDecoder, VariablesDecoder
from cec_store.connectors.spark.checkpoint.state_schema import (
    JOIN,
    has_variables,
    sparks_operator_name,
)
from cec_store.connectors.spark.checkpoint.variable_rows import rows_by_name
from cec_store.errors import CecError, NotAQueue, SchemaMismatch, SparkUnavailable
from cec_store.format.columns import Ints, flags_of
from cec_store.inspector.decoding.plain_values import rows_of
from cec_store.inspector.decoding.variables import FamilyCells
from cec_store.inspector.places.places import Log, Place
from cec_store.inspector.places.points import PointInTime, seq_at, version_at
from cec_store.inspector.showing.states import Stored, WindowReader, lost_partitions
from cec_store.state_logs.state_log import StateLog


@dataclass(frozen=True)
class Change:
    """A key that differs."""

    change: str
    """``added``, ``removed`` or ``changed``."""
    key: Any
    before: Any
    after: Any


@dataclass
class LogDiff:
    """Differences in one log, or in all partitions of a store where two places have others."""

    log: Log
    added: int = 0
    removed: int = 0
    changed: int = 0
    same: int = 0
    problem: str = ""
    """Reason that it could not be compared; empty if it could."""
    rows: list[Change] = field(default_factory=list)
    """The first of them."""

    @property
    def is_equal(self) -> bool:
        """True if nothing differs, as far as could be seen."""
        return not (self.added or self.removed or self.changed or self.problem)


@dataclass(frozen=True)
class _Rows:
    keys: pa.StructArray
    states: pa.StructArray
    decoder: RowDecoder | None = None
    """Decoder of these rows; they are compared as they are stored."""


class DiffSide:
    """One of the two: a place at a version, or at a frame."""

    def __init__(self, place: Place, point: PointInTime | None) -> None:
        """Raises as :func:`version_at`, :func:`seq_at` and :class:`WindowReader`."""
        self.place = place
        self.stored: Stored | None = None
        """Reader of a store that has no log of ours."""
        self.at: int | str | None
        if place.has_versions:
            self.at = version_at(place, point)
        else:
            self._chain = WindowReader(place).chain
            self.at = seq_at(place, self._chain, point)

    def read(self, logs: Sequence[Log]) -> _Rows | None:
        """The windows of these logs together; ``None`` where there are none."""
        parts = [part for part in map(self._of, logs) if part is not None]
        if not parts:
            return None
        return _Rows(
            pa.concat_arrays([part.keys for part in parts]),
            pa.concat_arrays([part.states for part in parts]),
            logs[0].row_decoder_if_readable,
        )

    def _of(self, log: Log) -> _Rows | None:
        if not self.place.has_versions:
            if self.at is None:
                return None
            state = rebuild(self._chain, int(self.at))
            return _Rows(state.keys, state.states)
        if not log.folder.exists():
            raise NotAQueue(f"{log.folder.path}: the folder is missing")
        if self.stored is not None:
            family, key, value = (column.combine_chunks() for column in self.stored(log).columns)
            keys = pa.StructArray.from_arrays([family, key], ["family", "key"])
            return _Rows(keys, pa.StructArray.from_arrays([value], ["value"]))
        at = self.place.at(log, self.at)
        state = StateLog(log.folder).rebuild(at)
        keys, values = state.keys, state.states.flatten()[0]
        if isinstance(log.row_decoder_if_readable, VariablesDecoder):
            # Another log may have given families other numbers, and cut lists otherwise.
            family, key = keys.flatten()
            stored = pa.table({"family": family, "key": key, "value": values})
            named = rows_by_name(stored, log.folder.path)
            family, key, values = (pa.concat_arrays(column.chunks) for column in named.columns)
            keys = pa.StructArray.from_arrays([family, key], ["variable", "key"])
        return _Rows(keys, pa.StructArray.from_arrays([values], ["value"]))


def require_keys_alone(logs: Sequence[Log]) -> None:
    """Raises ``ValueError`` where a key may have several values: a list's are no rows of a log."""
    for log in logs:
        operator_folder = log.folder.above()
        if log.store != DEFAULT_STORE:
            operator_folder = operator_folder.above()
        if has_variables(operator_folder):
            is_join = sparks_operator_name(operator_folder) == JOIN
            kept = "the rows of a join" if is_join else "variables"
            raise ValueError(
                f"{operator_folder.path}: it keeps {kept}, where a key may have many values; "
                "`cec-store compare` tells whether two checkpoints hold the same"
            )


def differences(
    old: DiffSide, new: DiffSide, logs: tuple[Sequence[Log], Sequence[Log]], top: int, is_all: bool
) -> Iterator[LogDiff]:
    """One for each log, in order, with the first ``top`` keys in all that differ.

    ``is_all``: these are all partitions, so that one that is lost is missed.

    Raises:
        ValueError: a queue's state and a state store's cannot be compared.
    """
    if old.place.kind is not new.place.kind:
        kinds = " and a ".join(side.place.kind.value for side in (old, new))
        raise ValueError(f"a {kinds} cannot be compared")
    whole = [_with_lost(side_logs) if is_all else [*side_logs] for side_logs in logs]
    return _differences(old, new, _pairs(*whole), top)


def _differences(
    old: DiffSide, new: DiffSide, pairs: Iterable[tuple[list[Log], list[Log]]], top: int
) -> Iterator[LogDiff]:
    left = top
    for before, after in pairs:
        diff = LogDiff((before or after)[0])
        try:
            _compare(diff, old.read(before), new.read(after), left)
        except (CecError, FileNotFoundError) as error:
            diff = LogDiff(diff.log, problem=str(error))
        left -= len(diff.rows)
        yield diff


def _with_lost(logs: Sequence[Log]) -> list[Log]:
    with_lost: list[Log] = []
    for store in dict.fromkeys(log.store_key for log in logs):
        those = [log for log in logs if log.store_key == store]
        with_lost += [*those, *lost_partitions(those, those[0].row_decoder_if_readable)]
    return with_lost


def _pairs(old: list[Log], new: list[Log]) -> Iterator[tuple[list[Log], list[Log]]]:
    """Partition with partition; where a store has other numbers of them, all with all."""
    for store in dict.fromkeys(log.store_key for log in [*old, *new]):
        before, after = ([log for log in side if log.store_key == store] for side in (old, new))
        if len(before) != len(after):
            yield before, after
        else:
            yield from (([one], [other]) for one, other in zip(before, after, strict=True))


def _compare(diff: LogDiff, old: _Rows | None, new: _Rows | None, top: int) -> None:
    some = old or new
    if some is None:
        return
    nothing = _Rows(some.keys[:0], some.states[:0])
    old, new = old or nothing, new or nothing
    for name in ("keys", "states"):
        kinds = [getattr(side, name).type for side in (old, new)]
        if kinds[0] != kinds[1]:
            raise SchemaMismatch(f"{name} are {kinds[0]}, and then {kinds[1]}")
    _require_one_encoding(old, new)
    codes, _ = key_codes(_plain(pa.concat_arrays([old.keys, new.keys])))
    order = np.argsort(codes, kind="stable")
    # Each side has a key once, so two neighbours of the same key are its old and new row.
    is_pair = codes[order[1:]] == codes[order[:-1]]
    before, after = order[:-1][is_pair], order[1:][is_pair]
    alone = np.ones(len(order), np.bool_)
    alone[before] = alone[after] = False
    single = np.flatnonzero(alone)
    removed, added = single[single < len(old.keys)], single[single >= len(old.keys)]
    values, _ = key_codes(_plain(pa.concat_arrays([old.states, new.states])))
    is_changed = values[before] != values[after]
    diff.added, diff.removed, diff.changed = len(added), len(removed), int(is_changed.sum())
    diff.same = len(before) - diff.changed
    changed = np.flatnonzero(is_changed)
    changed = changed[np.argsort(before[changed])]
    for change, olds, news in (
        ("added", added[:0], added),
        ("removed", removed, removed[:0]),
        ("changed", before[changed], after[changed]),
    ):
        left = top - len(diff.rows)
        of_old = _cells(old, olds[:left])
        of_new = _cells(new, news[:left] - len(old.keys))
        for was, now in zip_longest(of_old, of_new, fillvalue=(None, None)):
            key = now[0] if change == "added" else was[0]
            diff.rows.append(Change(change, key, was[1], now[1]))


def _plain(rows: pa.StructArray) -> pa.StructArray:
    """Return the rows with lists, maps and structs as text, because these have no codes."""
    columns = [
        pa.array([None if cell is None else str(cell) for cell in rows_of(column)], pa.string())
        if pa.types.is_nested(column.type)
        else column
        for column in rows.flatten()
    ]
    mask = rows.is_null() if rows.null_count else None
    names = [field.name for field in rows.type]
    return pa.StructArray.from_arrays(columns, names, mask=mask) if names else rows


def _require_one_encoding(old: _Rows, new: _Rows) -> None:
    """Raises :class:`SchemaMismatch` where rows that say the same may be other bytes."""
    sides = (old.decoder, new.decoder)
    encodings = {side.in_avro for side in sides if isinstance(side, VariablesDecoder)}
    if len(encodings) > 1:
        raise SchemaMismatch(
            "one keeps its rows in Avro and the other does not; "
            "`cec-store compare` tells whether two checkpoints hold the same"
        )


def _cells(side: _Rows, places: Ints) -> list[tuple[Any, Any]]:
    """Keys with their states; as stored where they are not of Spark's schema."""
    rows = pa.array(places)
    keys, states = side.keys.take(rows), side.states.take(rows)
    if isinstance(side.decoder, VariablesDecoder):
        return _cells_of_variables(side.decoder, keys, states)
    if side.decoder is not None:
        with suppress(SchemaMismatch):
            keys, states = side.decoder.windows(keys, states)
    return list(zip(rows_of(keys), rows_of(states), strict=True))


def _cells_of_variables(
    decoder: VariablesDecoder, keys: pa.StructArray, states: pa.StructArray
) -> list[tuple[Any, Any]]:
    cells = list(zip(rows_of(keys), rows_of(states), strict=True))
    names, stored = keys.flatten()
    for name in pc.unique(names).to_pylist():
        rows = np.flatnonzero(flags_of(pc.equal(names, name)))
        own = pa.array(rows)
        with suppress(SchemaMismatch, SparkUnavailable):
            family = FamilyCells(decoder, name)
            decoded = rows_of(family.keys(stored.take(own)))
            values = family.values(states.field("value").take(own))
            for row, key, value in zip(rows.tolist(), decoded, values, strict=True):
                cells[row] = key, value
    return cells
