"""Records of a log decoded one by one: of a state log with Spark's schema, where that is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.connectors.spark.checkpoint.state_rows import StateDecoder, in_default_family
from cec_store.errors import SchemaMismatch
from cec_store.format.columns import Ints, flags_of
from cec_store.format.schema import (
    DETERMINANT,
    KEY,
    KIND,
    STATE,
    TIMESTAMP,
    RecordKind,
    input_column,
)
from cec_store.inspector.decoding.keys import KeyTest
from cec_store.inspector.decoding.plain_values import records_as_rows, rows_of
from cec_store.state_logs.segments import STATE_SCHEMA

_AT_A_TIME = 1000


@dataclass(frozen=True)
class RecordRow:
    """A record, decoded."""

    offset: int
    kind: str
    timestamp_us: int
    position: tuple[int, ...]
    key: Any
    state: Any
    renewed: bool | None
    """True if the record of a state log repeats a state without a change; ``None`` in other logs.
    """
    data: dict[str, Any] | None


@dataclass(frozen=True)
class _Group:
    """Records of a frame whose keys are of one type."""

    rows: Ints
    keys: pa.StructArray
    is_decoded: bool

    def among(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the indices of these rows that are in the group, and their places in the group."""
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        here = np.flatnonzero(self.rows[at] == rows)
        return here, at[here]


class RecordDecoder:
    """Decodes the records of one log: of a state log with Spark's schema, where that is known."""

    def __init__(self, decoder: StateDecoder | None) -> None:
        self._decoder = decoder
        self.problem = ""
        """Reason that rows were left in hex, once there have been such."""

    def matching(self, records: pa.RecordBatch, test: KeyTest) -> NDArray[np.bool_]:
        """Return one flag for each record: True if its key meets the test."""
        matches = np.zeros(records.num_rows, np.bool_)
        for group in self._groups(records):
            keys = group.keys
            if test.is_bare and keys.type == STATE_SCHEMA.arrow.field(KEY).type:
                # Bare text must not match the number of the key's column family.
                keys = pa.StructArray.from_arrays([keys.field("key")], ["key"])
            matches[group.rows] = test.rows(keys)
            is_other = self._decoder is not None and not group.is_decoded
            if not is_other and (unknown := test.unknown_columns(group.keys.type)):
                names = ", ".join(field.name for field in group.keys.type)
                self.problem = f"keys have no column {unknown[0]!r}; they have {names}"
        return matches

    def _groups(self, records: pa.RecordBatch) -> list[_Group]:
        if KEY not in records.schema.names:
            return []
        keys = records.column(KEY)
        everything = np.arange(len(keys))
        if self._decoder is None or keys.type != STATE_SCHEMA.arrow.field(KEY).type:
            return [_Group(everything, keys, False)]
        families, stored = keys.flatten()
        is_operators = flags_of(in_default_family(families))
        here, others = np.flatnonzero(is_operators), np.flatnonzero(~is_operators)
        try:
            own = stored if not len(others) else stored.take(pa.array(here))
            decoded = self._decoder.keys(pa.chunked_array([own])).combine_chunks()
        except SchemaMismatch as error:
            self.problem = f"keys are shown in hex: {error}"
            return [_Group(everything, keys, False)]
        groups = [_Group(here, decoded, True)]
        if len(others):
            groups.append(_Group(others, keys.take(pa.array(others)), False))
        return [group for group in groups if len(group.rows)]

    def rows(self, records: pa.RecordBatch, first_offset: int, rows: Ints) -> Iterator[RecordRow]:
        """Yield these records, a thousand decoded at a time, since a frame may be huge."""
        groups = self._groups(records)
        for start in range(0, len(rows), _AT_A_TIME):
            some = rows[start : start + _AT_A_TIME]
            yield from self._some(records.take(pa.array(some)), first_offset + some, groups, some)

    def _some(
        self, records: pa.RecordBatch, offsets: Ints, groups: list[_Group], rows: Ints
    ) -> Iterator[RecordRow]:
        keys: list[Any] = [None] * len(rows)
        states: list[Any] = [None] * len(rows)
        renewed: list[bool | None] = [None] * len(rows)
        if STATE in records.schema.names:
            column = records.column(STATE)
            if column.type == STATE_SCHEMA.arrow.field(STATE).type:
                renewed = column.flatten()[1].to_pylist()
                column = column.flatten()[0]
            for group in groups:
                here, _ = group.among(rows)
                self._fill(states, here, self._states(column, here, group.is_decoded))
        for group in groups:
            here, at = group.among(rows)
            self._fill(keys, here, group.keys.take(pa.array(at)))
        times = records.column(TIMESTAMP).cast(pa.int64()).to_pylist()
        names = records.schema.names
        inputs = [name for name in names if name.startswith(input_column(0)[:-1])]
        plain = records.drop_columns([n for n in (TIMESTAMP, KEY, STATE) if n in names])
        known = {member.value for member in RecordKind}
        for index, row in enumerate(records_as_rows(plain)):
            kind = row.pop(KIND)
            position = tuple(row.pop(name) for name in inputs)
            has_no_data = kind in (RecordKind.OPEN, RecordKind.CHECK, RecordKind.MERGED)
            chosen = row.pop(DETERMINANT, None)
            if kind == RecordKind.DETERMINANT:
                row = chosen or {}
            yield RecordRow(
                offset=int(offsets[index]),
                kind=RecordKind(kind).name if kind in known else f"kind {kind}",
                timestamp_us=times[index],
                position=position,
                key=keys[index],
                state=states[index],
                renewed=renewed[index],
                data=None if has_no_data else row,
            )

    def _states(self, column: pa.Array, here: Ints, is_decoded: bool) -> pa.Array:
        stored = column.take(pa.array(here))
        if not is_decoded or self._decoder is None:
            return stored
        try:
            return self._decoder.values(pa.chunked_array([stored])).combine_chunks()
        except SchemaMismatch as error:
            self.problem = f"states are shown in hex: {error}"
            return stored

    @staticmethod
    def _fill(cells: list[Any], indexes: Ints, column: pa.Array) -> None:
        for index, cell in zip(indexes.tolist(), rows_of(column), strict=True):
            cells[index] = cell
