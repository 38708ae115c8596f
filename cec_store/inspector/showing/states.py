"""State and changes of a place as Arrow batches: one log after the other, over damage and on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.checkpoints.rebuild import rebuild
from cec_store.connectors.spark.checkpoint.layout import DEFAULT_STORE, store_folder
from cec_store.connectors.spark.checkpoint.state_rows import (
    RowDecoder,
    StateDecoder,
    VariablesDecoder,
    in_default_family,
)
from cec_store.connectors.spark.checkpoint.state_schema import join_format
from cec_store.connectors.spark.checkpoint.state_tables import side_column, side_type
from cec_store.errors import CecError, OutOfRange, RecoveryError, SchemaMismatch
from cec_store.format.columns import values_of
from cec_store.format.records import inputs_of, of_windows
from cec_store.format.schema import KEY, KIND, STATE, TIMESTAMP, TIMESTAMP_TYPE, RecordKind
from cec_store.inspector.places.places import Log, Place, PlaceKind
from cec_store.inspector.showing.variable_states import TEXTS, variable_batches
from cec_store.ledger.commit_chain import chain_at
from cec_store.state_logs.state_log import STORED, StateLog

Batches = Iterator[pa.RecordBatch]
Stored = Callable[[Log], pa.Table]
"""Reads a store that has no log of ours: its columns `family`, `key` and `value`, as bytes."""
_ROWS = 1 << 16
_KINDS = {
    RecordKind.OPEN: "open",
    RecordKind.CHECK: "update",
    RecordKind.RESULT: "close",
    RecordKind.MERGED: "merge",
}


@dataclass
class LogRows:
    """Progress of reading one log: the rows so far, and the problem that ended it."""

    log: Log
    rows: int = 0
    problem: str = ""
    """Why it could not be read; empty if it could."""


@dataclass
class PlaceRows:
    """Rows of all logs, read as they are asked for."""

    schema: pa.Schema
    version: int | str | None
    """Version of state stores."""
    logs: list[LogRows]
    read: Callable[[Log], Batches] = field(repr=False)

    def batches(
        self, done: Callable[[], object] = lambda: None, limit: int | None = None
    ) -> Batches:
        """One log after the other, up to ``limit`` rows; of one that cannot be read, what came
        before.
        """
        left = sys.maxsize if limit is None else limit
        for log_rows in self.logs:
            try:
                for batch in self.read(log_rows.log) if left else ():
                    some = batch.slice(0, min(left, batch.num_rows))
                    left -= some.num_rows
                    log_rows.rows += some.num_rows
                    yield some
                    if not left:
                        break
            except (CecError, FileNotFoundError) as error:
                if isinstance(error, OutOfRange) and log_rows.log.operator is None:
                    raise  # else it is the checkpoint that says it is there
                log_rows.problem = str(error)
            done()

    @property
    def is_sound(self) -> bool:
        """True if all that was asked for could be read."""
        return not any(log_rows.problem for log_rows in self.logs)


# -- state stores -----------------------------------------------------------------------------


class StoreReader:
    """One store of one operator, in all or some of its partitions."""

    def __init__(
        self, place: Place, logs: Sequence[Log], raw: bool, is_all: bool, is_side: bool = False
    ) -> None:
        """``is_all``: the logs are all partitions that there are. ``is_side``: what a join waits
        with is wanted as its rows were, without what it notes of each.

        Raises:
            ValueError: the logs are of several stores, whose columns differ.
            CecError: what Spark notes of the columns cannot be read.
        """
        stores = sorted({log.store_key for log in logs})
        if len(stores) > 1:
            does = {log.operator: log.operator_name for log in logs}
            names = "; ".join(
                f"--operator {o} --store {s}" + (f" ({does[o]})" if does[o] else "")
                for o, s in stores
            )
            raise ValueError(f"{place.path}: several stores have state; name one: {names}")
        self._place = place
        self._is_side = is_side and not raw
        self._join_format = 0
        if self._is_side and place.checkpoint is not None:
            # A checkpoint keeps the format that it began with.
            self._join_format = join_format(place.checkpoint.newest_settings())
        decoder: RowDecoder | None = None
        if not raw and logs:
            try:
                decoder = logs[0].row_decoder  # Spark notes columns once for all partitions
            except SchemaMismatch as error:
                raise SchemaMismatch(f"{error}; --raw shows bytes") from None
        self._decoder = decoder if isinstance(decoder, StateDecoder) else None
        self._variables = decoder if isinstance(decoder, VariablesDecoder) else None
        lost = lost_partitions(logs, decoder) if is_all else []
        self.logs = [LogRows(log) for log in [*logs, *lost]]

    def state(self, version: int | str | None, stored: Stored | None = None) -> PlaceRows:
        """The rows of a version; ``stored`` reads them where no log of ours has them."""

        def read_stored(log: Log) -> Batches:
            assert stored is not None
            for batch in stored(log).combine_chunks().to_batches(_ROWS):
                yield from self._decoded(log, dict(zip(batch.schema.names, batch, strict=True)))

        def read(log: Log) -> Batches:
            rebuilt = StateLog(log.folder).rebuild(self._place.at(log, version))
            keys, states = rebuilt.keys, rebuilt.states
            if self._variables is not None:
                family, key = keys.flatten()
                rows = pa.table({"family": family, "key": key, "value": states.field("value")})
                for texts in variable_batches(log.folder.path, rows, self._variables):
                    yield self._numbered(log, dict(zip(texts.schema.names, texts, strict=True)))
                return
            for start in range(0, len(keys), _ROWS):
                family, key = keys.slice(start, _ROWS).flatten()
                value, _ = states.slice(start, _ROWS).flatten()
                yield from self._decoded(log, {"family": family, "key": key, "value": value})

        own = self._variables is not None and stored is None
        columns = TEXTS if own else self._columns()
        return self._rows(columns, version, read if stored is None else read_stored)

    def changes(self, first: int, version: int | str | None) -> PlaceRows:
        """Return the changes that the versions from ``first`` to ``version`` made."""

        def read(log: Log) -> Batches:
            state_log = StateLog(log.folder)
            for batch in state_log.replay_from(first, self._place.at(log, version)):
                number, family, key, value = batch.columns
                columns = {
                    "batch_id": pc.subtract(number, 1),
                    "change_type": pc.if_else(value.is_null(), "delete", "update"),
                    "family": family,
                    "key": key,
                    "value": value,
                }
                yield from self._decoded(log, columns)

        change = [pa.field("batch_id", pa.int64()), pa.field("change_type", pa.string())]
        return self._rows([*change, *self._columns()], version, read)

    def _rows(
        self, columns: list[pa.Field], version: int | str | None, read: Callable[[Log], Batches]
    ) -> PlaceRows:
        where = [pa.field("partition_id", pa.int32())] if self._place.checkpoint else []
        return PlaceRows(pa.schema([*columns, *where]), version, self.logs, read)

    def _columns(self) -> list[pa.Field]:
        """Columns of a store whose rows are all of one type, or as they are stored."""
        kinds = self._decoder.schema if self._decoder else None
        types = {"key": kinds.key, "value": kinds.value} if kinds else {}
        if self._is_side:
            types = {name: side_type(kind, name, self._join_format) for name, kind in types.items()}
        return [*map(pa.field, types, types.values())] if kinds else STORED

    @staticmethod
    def _numbered(log: Log, columns: dict[str, pa.Array]) -> pa.RecordBatch:
        rows = len(next(iter(columns.values())))
        if log.partition is not None:
            columns["partition_id"] = pa.array(np.full(rows, log.partition, np.int32))
        return pa.RecordBatch.from_arrays([*columns.values()], [*columns])

    def _decoded(self, log: Log, columns: dict[str, pa.Array]) -> Batches:
        if self._decoder is not None:
            is_operators = in_default_family(columns.pop("family"))
            columns = {name: column.filter(is_operators) for name, column in columns.items()}
            decode = {"key": self._decoder.keys, "value": self._decoder.values}
            try:
                for name, of in decode.items():
                    column = of(pa.chunked_array([columns[name]]))
                    if self._is_side:
                        column = side_column(column, name, self._join_format)
                    columns[name] = column.combine_chunks()
            except SchemaMismatch as error:
                raise SchemaMismatch(f"{log.folder.path}: {error}; --raw shows bytes") from None
        batch = self._numbered(log, columns)
        if batch.num_rows:
            yield batch


def lost_partitions(logs: Sequence[Log], decoder: RowDecoder | None) -> list[Log]:
    """Partitions that Spark notes, beyond the last that is there."""
    if decoder is None or logs[-1].partition is None:
        return []
    last = logs[-1]
    is_default, store = last.store == DEFAULT_STORE, str(last.store)
    operator_folder = (last.folder if is_default else last.folder.above()).above()
    return [
        Log.of_store(
            store_folder(operator_folder, number, store), int(last.operator or 0), number, store,
            last.operator_name,
        )
        for number in range(int(last.partition or 0) + 1, decoder.partitions)
    ]  # fmt: skip


# -- queues -----------------------------------------------------------------------------------


class WindowReader:
    """The windows of the operator that writes a queue."""

    def __init__(self, place: Place) -> None:
        """Raises :class:`CecError` where it cannot be read, or no operator writes it."""
        if place.kind is not PlaceKind.QUEUE and not place.has_one_writer:
            raise RecoveryError(f"{place.path}: a {place.kind.value} has output, and no state")
        (log,) = place.logs
        self.chain = chain_at(log.folder)
        self._log = log
        self._schema = self.chain.schema()
        if not self._schema.inputs:
            raise RecoveryError(
                f"{log.folder.path}: no operator writes this queue, so it has no state"
            )
        kinds = [pa.struct(list(part or [])) for part in (self._schema.key, self._schema.state)]
        window = [("key", kinds[0]), ("state", kinds[1]), ("position", pa.list_(pa.int64()))]
        event = [
            ("offset", pa.int64()),
            ("timestamp", TIMESTAMP_TYPE),
            ("change_type", pa.string()),
        ]
        self._windows = pa.schema([*window, ("offset", pa.int64())])
        self._events = pa.schema([*event, *window])

    def state(self, seq: int | None) -> PlaceRows:
        """The windows open at the end of a frame; ``None``: before the first."""

        def read(_: Log) -> Batches:
            if seq is None:
                return
            checkpoint = rebuild(self.chain, seq)
            columns = [
                checkpoint.keys,
                checkpoint.states,
                _lists(checkpoint.positions),
                pa.array(checkpoint.offsets),
            ]
            whole = pa.RecordBatch.from_arrays(columns, schema=self._windows)
            for start in range(0, whole.num_rows, _ROWS):
                yield whole.slice(start, _ROWS)

        return PlaceRows(self._windows, None, [LogRows(self._log)], read)

    def changes(self, before: int | None, seq: int | None) -> PlaceRows:
        """Return the footprints and closings between the ends of two frames, in order."""

        def read(_: Log) -> Batches:
            if seq is None:
                return
            start = None if before is None else self.chain.find_seq(before).next_address
            for frame in self.chain.frames(start):
                if frame.header.seq > seq:
                    return
                yield from self._events_in(frame.header.first_offset, self.chain.records(frame))

        return PlaceRows(self._events, None, [LogRows(self._log)], read)

    def _events_in(self, first_offset: int, records: pa.RecordBatch) -> Batches:
        kinds = values_of(records.column(KIND), "u1")
        rows = np.flatnonzero(of_windows(kinds))
        if not len(rows) or KEY not in records.schema.names:
            return
        names = np.array(["", *(_KINDS.get(kind, "") for kind in RecordKind)], object)
        part = records.take(pa.array(rows))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(first_offset + rows), part.column(TIMESTAMP),
                pa.array(names[kinds[rows]], pa.string()), part.column(KEY), part.column(STATE),
                _lists(inputs_of(part, self._schema.inputs)),
            ],
            schema=self._events,
        )  # fmt: skip


def _lists(positions: np.ndarray[Any, np.dtype[np.int64]]) -> pa.ListArray:
    rows, inputs = positions.shape
    ends = pa.array(np.arange(rows + 1, dtype=np.int32) * inputs)
    return pa.ListArray.from_arrays(ends, pa.array(positions.reshape(-1)))
