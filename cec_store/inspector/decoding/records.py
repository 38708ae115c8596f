"""Records of a log decoded one by one: of a state log with Spark's schema, where that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.connectors.spark.checkpoint.state_rows import (
    RowDecoder,
    StateDecoder,
    VariablesDecoder,
    in_default_family,
)
from cec_store.errors import SchemaMismatch, SparkUnavailable
from cec_store.format.columns import Ints, flags_of, values_of
from cec_store.format.schema import (
    DETERMINANT,
    KEY,
    KIND,
    STATE,
    STATE_SCHEMA,
    TIMESTAMP,
    RecordKind,
    input_column,
)
from cec_store.inspector.decoding.keys import KeyTest
from cec_store.inspector.decoding.plain_values import records_as_rows, rows_of
from cec_store.inspector.decoding.variables import FamilyCells, name_keys, name_values
from cec_store.state_logs.families import NAMES

_AT_A_TIME = 1000
Names = Mapping[int, str]
"""Names of column families by number."""


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


_Cells = Callable[[pa.Array], list[Any]]


@dataclass(frozen=True)
class _Group:
    """Records of a frame whose keys are of one type."""

    rows: Ints
    keys: pa.StructArray
    values: _Cells | None = None
    """Decoder of stored values; ``None`` where keys and values are left as they are stored."""
    is_whole: bool = True
    """False where bare text is looked for in the field ``key`` alone."""

    @property
    def tested_by_text(self) -> pa.StructArray:
        """The part of the keys in which bare text is looked for."""
        if self.is_whole:
            return self.keys
        names = [field.name for field in self.keys.type if field.name == "key"]
        columns = [self.keys.field(name) for name in names]
        nothing = pa.StructArray.from_arrays([pa.nulls(len(self.keys))], ["nothing"])
        return pa.StructArray.from_arrays(columns, names) if names else nothing

    def among(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the indices of these rows that are in the group, and their places in the group."""
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        here = np.flatnonzero(self.rows[at] == rows)
        return here, at[here]


class RecordDecoder:
    """Decodes the records of one log: of a state log with Spark's schema, where that is known."""

    def __init__(self, decoder: RowDecoder | None) -> None:
        self._decoder = decoder
        self.problem = ""
        """Reason that rows were left in hex, once there have been such."""

    @property
    def needs_names(self) -> bool:
        """True if rows are decoded by the names of their column families."""
        return isinstance(self._decoder, VariablesDecoder)

    def matching(
        self, records: pa.RecordBatch, test: KeyTest, names: Names | None = None
    ) -> NDArray[np.bool_]:
        """Return one flag for each record: True if its key meets the test.

        ``names`` are those of column families by number, where they are needed.
        """
        matches = np.zeros(records.num_rows, np.bool_)
        unknown: list[set[str]] = []
        columns: dict[str, None] = {}
        for group in self._groups(records, names):
            matches[group.rows] = test.rows(group.tested_by_text if test.is_bare else group.keys)
            if self._decoder is None or group.values is not None:
                unknown.append({*test.unknown_columns(group.keys.type)})
                columns |= dict.fromkeys(field.name for field in group.keys.type)
        missing = sorted(set.intersection(*unknown)) if unknown else []
        if missing:
            self.problem = f"keys have no column {missing[0]!r}; they have {', '.join(columns)}"
        return matches

    def _groups(self, records: pa.RecordBatch, names: Names | None) -> list[_Group]:
        if KEY not in records.schema.names:
            return []
        return self._groups_of_keys(records.column(KEY), names)

    def _groups_of_keys(self, keys: pa.StructArray, names: Names | None) -> list[_Group]:
        is_of_families = keys.type == STATE_SCHEMA.arrow.field(KEY).type
        everything = np.arange(len(keys))
        if self._decoder is None or not is_of_families:
            return [_Group(everything, keys, is_whole=not is_of_families)]
        if isinstance(self._decoder, VariablesDecoder):
            return self._groups_of_variables(self._decoder, keys, names or {})
        return self._groups_of_table(self._decoder, keys)

    def _groups_of_table(self, decoder: StateDecoder, keys: pa.StructArray) -> list[_Group]:
        families, stored = keys.flatten()
        is_operators = flags_of(in_default_family(families))
        here, others = np.flatnonzero(is_operators), np.flatnonzero(~is_operators)
        try:
            own = stored if not len(others) else stored.take(pa.array(here))
            decoded = decoder.keys(pa.chunked_array([own])).combine_chunks()
        except SchemaMismatch as error:
            self.problem = f"keys are shown in hex: {error}"
            return [_Group(np.arange(len(keys)), keys, is_whole=False)]

        def values(column: pa.Array) -> list[Any]:
            return rows_of(decoder.values(pa.chunked_array([column])).combine_chunks())

        groups = [_Group(here, decoded, values)]
        if len(others):
            groups.append(_Group(others, keys.take(pa.array(others)), is_whole=False))
        return [group for group in groups if len(group.rows)]

    def _groups_of_variables(
        self, decoder: VariablesDecoder, keys: pa.StructArray, names: Names
    ) -> list[_Group]:
        column, stored = keys.flatten()
        numbers = values_of(column, "u2")
        groups = []
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            own = stored.take(pa.array(rows))
            try:
                if number == NAMES:
                    groups.append(_Group(rows, name_keys(own), name_values, is_whole=False))
                    continue
                if number not in names:
                    raise SchemaMismatch(f"no record names family {number}")
                cells = FamilyCells(decoder, names[number])
                groups.append(_Group(rows, cells.keys(own), cells.values, is_whole=False))
            except (SchemaMismatch, SparkUnavailable) as error:
                self.problem = f"keys and values are shown in hex: {error}"
                groups.append(_Group(rows, keys.take(pa.array(rows)), is_whole=False))
        return groups

    def keys(self, keys: pa.StructArray, names: Names | None = None) -> list[Any]:
        """Decode keys as a log has them, without their records; ``names`` as for :meth:`matching`.

        What cannot be decoded is as it is stored, in hex, and :attr:`problem` says why.
        """
        cells: list[Any] = [None] * len(keys)
        for group in self._groups_of_keys(keys, names):
            self._fill(cells, group.rows, rows_of(group.keys))
        return cells

    def rows(
        self, records: pa.RecordBatch, first_offset: int, rows: Ints, names: Names | None = None
    ) -> Iterator[RecordRow]:
        """Yield these records, a thousand decoded at a time, since a frame may be huge.

        ``names`` are as for :meth:`matching`.
        """
        groups = self._groups(records, names)
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
                self._fill(states, here, self._states(column.take(pa.array(here)), group))
        for group in groups:
            here, at = group.among(rows)
            self._fill(keys, here, rows_of(group.keys.take(pa.array(at))))
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

    def _states(self, stored: pa.Array, group: _Group) -> list[Any]:
        if group.values is not None:
            try:
                return group.values(stored)
            except SchemaMismatch as error:
                self.problem = f"states are shown in hex: {error}"
        return rows_of(stored)

    @staticmethod
    def _fill(cells: list[Any], indexes: Ints, shown: list[Any]) -> None:
        for index, cell in zip(indexes.tolist(), shown, strict=True):
            cells[index] = cell
