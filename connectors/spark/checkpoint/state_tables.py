"""The state of a Spark query as Arrow tables, read from its checkpoint without Spark."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.connectors.spark.checkpoint.layout import (
    DEFAULT_STORE,
    JOIN_SIDES,
    Checkpoint,
    store_folder,
)
from cec_store.connectors.spark.checkpoint.providers import provider_of, require_logs
from cec_store.connectors.spark.checkpoint.state_rows import StateDecoder, in_default_family
from cec_store.connectors.spark.checkpoint.state_schema import (
    join_format,
    operator_name,
    read_state_schema,
)
from cec_store.connectors.spark.checkpoint.variable_rows import variable_rows
from cec_store.connectors.spark.checkpoint.variables import read_variable
from cec_store.connectors.spark.setup.settings import AVRO, ENCODING_KEY
from cec_store.errors import CorruptLog, OutOfRange, SchemaMismatch
from cec_store.format.columns import Ints, flags_of
from cec_store.format.schema import KEY, STATE
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.paths import AnyPath
from cec_store.storage.retrying import retry_when_changed
from cec_store.storage.stores.folders import StorageOptions


def read_state(
    checkpoint: AnyPath,
    *,
    operator: int | None = None,
    store: str = DEFAULT_STORE,
    variable: str | None = None,
    partition: int | None = None,
    version: int | None = None,
    at: date | int | str | None = None,
    storage_options: StorageOptions | None = None,
) -> pa.Table:
    """The state of a query's operator: a row for each key that is open, in no certain order.

    Columns are ``key`` and ``value`` (structs) and ``partition_id``, as Spark's reader
    ``statestore`` has them. ``operator`` has to be named where several keep state. ``store`` may be
    ``"left"`` or ``"right"`` for the rows that a join waits with on a side, as ``joinSide`` has
    them. Of a `transformWithState` a ``variable`` has to be named, or ``"timers"``: a value has
    these columns, a list ``list_element``, a map ``user_map_key`` and ``user_map_value``, timers
    ``expiration_timestamp_ms`` in the place of ``value``. Batch N makes version N + 1; the default
    is the newest version committed, and ``at`` (a moment) means the newest
    of a batch that had begun by then. Spark may run or not; nothing is written. ``checkpoint`` may
    be a URL, with ``storage_options``, as for :func:`read_queue`.

    Raises:
        NotACheckpoint, NotAQueue: no checkpoint, no such operator, or state kept by another
            provider.
        ValueError: no such store, variable or partition, or both ``version`` and ``at``, or several
            operators and none is named.
        OutOfRange: a version or moment that is not kept any more, or not committed yet.
        SchemaMismatch: a column of a type that cannot be read; nothing has been read then.
        SparkUnavailable: a variable is kept in Avro, and the package fastavro is missing.
        RecoveryError: a variable has more than 2 GiB in one column of one partition.
        CorruptLog, UnsupportedVersion: refused.

    Examples:
        >>> read_state("checkpoint", version=2).column("value").to_pylist()
        [{'count': 2, 'last': 'home'}]
    """
    if version is not None and at is not None:
        raise ValueError("give version or at, not both")
    our_checkpoint = _of_ours(checkpoint, storage_options)

    def state_after(batch: int) -> pa.Table:
        number = _only_operator(our_checkpoint) if operator is None else operator
        if variable is not None:
            return _VariableReader(our_checkpoint, batch, number, variable).table(partition)
        reader = _Reader(our_checkpoint, batch, number, JOIN_SIDES.get(store, store))
        table = reader.table(reader.state, partition)
        if store not in JOIN_SIDES:
            return table
        return _side(table, join_format(our_checkpoint.offsets(batch).conf))

    if at is not None:
        return state_after(our_checkpoint.batch_at(at))
    if version is not None:
        return state_after(_batch_of(our_checkpoint, version))
    return _read_at_newest(our_checkpoint, state_after)


def _read_at_newest(checkpoint: Checkpoint, read: Callable[[int], pa.Table]) -> pa.Table:
    """Read at the newest batch; at a newer one where a running query has forgotten it meanwhile."""
    batch = -1

    def look() -> pa.Table:
        nonlocal batch
        batch = checkpoint.newest_batch()
        return read(batch)

    missed = (OutOfRange, CorruptLog, FileNotFoundError)
    return retry_when_changed(look, missed, lambda: checkpoint.newest_batch() != batch)


def read_changes(
    checkpoint: AnyPath,
    from_version: int,
    to_version: int,
    *,
    operator: int | None = None,
    store: str = DEFAULT_STORE,
    partition: int | None = None,
    storage_options: StorageOptions | None = None,
) -> pa.Table:
    """Read the changes of an operator's state from ``from_version`` to ``to_version``, inclusive.

    Columns are ``batch_id`` (one below the version), ``change_type`` (``"update"`` or
    ``"delete"``), ``key``, ``value`` (null for a delete) and ``partition_id``, as Spark's reader
    ``statestore`` has them with ``readChangeFeed``. A key stands once for each batch that changed
    it, with what the batch left in the end; batches stand in order in each partition.

    Raises:
        OutOfRange: what ``from_version`` changed is not kept any more.
        ValueError: ``from_version`` is not between 1 and ``to_version``; the operator keeps
            variables, which are not read here, or has no such store: a join has those of Spark.
        Others as :func:`read_state`.

    Examples:
        >>> read_changes("checkpoint", 1, 2).column("change_type").to_pylist()
        ['update', 'update']
    """
    if not 1 <= from_version <= to_version:
        raise ValueError(f"versions {from_version} to {to_version} are no range of versions")
    our_checkpoint = _of_ours(checkpoint, storage_options)
    number = _only_operator(our_checkpoint) if operator is None else operator
    reader = _Reader(our_checkpoint, _batch_of(our_checkpoint, to_version), number, store)
    return reader.table(lambda partition_id: reader.changes(partition_id, from_version), partition)


def _of_ours(path: AnyPath, storage_options: StorageOptions | None) -> Checkpoint:
    """The checkpoint; raises :class:`NotAQueue` where Spark's own providers keep its state."""
    checkpoint = Checkpoint(path, storage_options)
    instead = "Spark's own reader `statestore` reads it, and spark.adopt makes a checkpoint of ours"
    require_logs(checkpoint.path, provider_of(checkpoint), instead)
    return checkpoint


def _only_operator(checkpoint: Checkpoint) -> int:
    """The one that keeps state; 0 where none has any yet."""
    numbers = sorted({state_folder.operator for state_folder in checkpoint.state_folders()})
    if len(numbers) > 1:
        names = ", ".join(
            f"operator={number} ({name})" if name else f"operator={number}"
            for number in numbers
            for name in [operator_name(checkpoint.operator_folder(number))]
        )
        raise ValueError(f"{checkpoint.path}: several operators keep state; name one: {names}")
    return numbers[0] if numbers else 0


def _batch_of(checkpoint: Checkpoint, version: int) -> int:
    """The batch that made a version."""
    newest = checkpoint.newest_batch()
    batches = checkpoint.committed_batches()
    if version - 1 not in batches:
        raise OutOfRange(
            f"{checkpoint.path}: version {version} is not among those committed and kept: "
            f"{batches[0] + 1} to {newest + 1}"
        )
    return version - 1


def _side(table: pa.Table, state_format: int) -> pa.Table:
    """The rows that a join waits with, without what it notes of each for itself."""
    columns = {name: side_column(table[name], name, state_format) for name in ("key", "value")}
    return pa.table({**columns, "partition_id": table["partition_id"]})


def side_type(stored: pa.StructType, name: str, state_format: int) -> pa.StructType:
    """Return the type of a join's waiting key or value, without the column that Spark adds.

    A key has one in each of the join's state formats, a value from format 2 on.
    """
    if name == "value" and state_format < 2:
        return stored
    return pa.struct(list(stored)[:-1])


def side_column(column: pa.ChunkedArray, name: str, state_format: int) -> pa.ChunkedArray:
    """The column ``key`` or ``value`` in that type."""
    kind = side_type(column.type, name, state_format)
    chunks = [
        pa.StructArray.from_arrays(chunk.flatten()[: kind.num_fields], fields=list(kind))
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, type=kind)


class _VariableReader:
    """Reads one variable of a `transformWithState` as one batch left it."""

    def __init__(self, checkpoint: Checkpoint, batch: int, operator: int, name: str) -> None:
        self._checkpoint = checkpoint
        self._batch = batch
        self._operator = operator
        self._folder = checkpoint.operator_folder(operator)
        encoding = checkpoint.offsets(batch).conf.get(ENCODING_KEY, "")
        self._variable, self._partitions = read_variable(
            self._folder, name, batch, in_avro=encoding == AVRO
        )

    def table(self, partition: int | None) -> pa.Table:
        state_folders = self._checkpoint.state_folders(self._operator)
        count = max([self._partitions, *(folder.partition + 1 for folder in state_folders)])
        if partition is not None and not 0 <= partition < count:
            raise ValueError(f"{self._folder.path}: no partition {partition}; there are {count}")
        partitions = range(count) if partition is None else [partition]
        return pa.concat_tables(map(self._of, partitions))

    def _of(self, partition: int) -> pa.Table:
        log = StateLog(store_folder(self._folder, partition, DEFAULT_STORE))
        at = self._checkpoint.unique_id(self._batch, self._operator, partition, DEFAULT_STORE)
        rows = variable_rows(log, at or self._batch + 1, self._variable)
        return rows.append_column("partition_id", pa.array(np.full(len(rows), partition, np.int32)))


class _Reader:
    """Reads one store of one operator as one batch left it."""

    def __init__(self, checkpoint: Checkpoint, batch: int, operator: int, store: str) -> None:
        self._checkpoint = checkpoint
        self._batch = batch
        self._operator = operator
        self._store = store
        self._folder = checkpoint.operator_folder(operator)
        self._schema = read_state_schema(self._folder, store)
        self._decoder = StateDecoder(self._schema)

    def table(self, read: Callable[[int], pa.Table], partition: int | None) -> pa.Table:
        """Return the rows that ``read`` returns for a partition; None: for all, one after another.

        Raises:
            ValueError: there is no such partition.
        """
        state_folders = self._checkpoint.state_folders(self._operator)
        count = max([self._schema.partitions, *(folder.partition + 1 for folder in state_folders)])
        if partition is None:
            # Threads help: decompressing, hashing and gathering release the interpreter's lock.
            with ThreadPoolExecutor(pa.cpu_count()) as threads:
                return pa.concat_tables(threads.map(read, range(count)))
        if not 0 <= partition < count:
            raise ValueError(f"{self._folder.path}: no partition {partition}; there are {count}")
        return read(partition)

    def state(self, partition: int) -> pa.Table:
        log, at = self._log(partition)
        footprints, rows = log.open_footprints(at)
        (family, key), (value, _) = (footprints.column(n).flatten() for n in (KEY, STATE))
        stored = pa.table({"family": family, "key": key, "value": value})
        is_operators = in_default_family(family)
        if not pc.all(is_operators, min_count=0).as_py():
            rows = rows[flags_of(is_operators.combine_chunks())[rows]]
        return pa.table(self._columns(log, partition, stored, rows))

    def changes(self, partition: int, first: int) -> pa.Table:
        log, at = self._log(partition)
        stored = _operators_rows(log.changes(first, at))
        is_gone = stored["value"].is_null()
        told = {
            "batch_id": pc.subtract(stored["version"], 1),
            "change_type": pc.if_else(is_gone, "delete", "update"),
        }
        return pa.table({**told, **self._columns(log, partition, stored)})

    def _log(self, partition: int) -> tuple[StateLog, int | str]:
        """The log, and how it knows what the batch left."""
        folder = store_folder(self._folder, partition, self._store)
        unique_id = self._checkpoint.unique_id(self._batch, self._operator, partition, self._store)
        return StateLog(folder), unique_id or self._batch + 1

    def _columns(
        self, log: StateLog, partition: int, stored: pa.Table, rows: Ints | None = None
    ) -> dict[str, Any]:
        """Decode ``key``, ``value`` and ``partition_id`` of all rows, or of ``rows`` (ascending).

        Raises:
            SchemaMismatch: the bytes are not of the schema.
        """
        try:
            key = self._decoder.keys(stored["key"], rows)
            value = self._decoder.values(stored["value"], rows)
        except SchemaMismatch as error:
            raise SchemaMismatch(f"{log.folder.path}: {error}") from None
        numbers = pa.array(np.full(len(key), partition, np.int32))
        return {"key": key, "value": value, "partition_id": numbers}


def _operators_rows(stored: pa.Table) -> pa.Table:
    is_operators = in_default_family(stored["family"])
    return stored if pc.all(is_operators, min_count=0).as_py() else stored.filter(is_operators)
