"""Schema of a state store in Spark's files: columns of keys and values, and encoding of keys.

::

    state/OPERATOR/_metadata/metadata          v1, and a line of JSON: its stores and partitions
    state/OPERATOR/0[/STORE]/_metadata/schema  Java's UTF strings: v1 or v2, and two schemas as JSON

In v2 a schema is a number of pieces, since a UTF string of Java holds 65,535 bytes. A v3 is of
stores with column families, those of `transformWithState` and of joins of state formats 3 and 4:
see ``variables.py``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cec_store.connectors.spark.checkpoint.java_texts import JavaTexts
from cec_store.connectors.spark.checkpoint.layout import (
    JOIN_SIDES,
    METADATA_FOLDER,
    Checkpoint,
    store_folder,
)
from cec_store.connectors.spark.checkpoint.parsing import damaged, known_version, parsed, read_whole
from cec_store.errors import CecError, NotAQueue, SchemaMismatch
from cec_store.storage.folder import FolderTree

VERSION_2 = "v2"
"""The folder of an operator's metadata in Spark's second format."""
NEWEST = 2**63
"""Above the number of any batch."""
JOIN = "symmetricHashJoin"
"""Spark's name for a join of two streams."""
LIMIT = "globalLimit"
"""Spark's name for a limit."""
_ARROW_TYPES = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\(([0-9]{1,2}),(-?[0-9]{1,2})\)")
_DAYS_TO_SECONDS = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")
_YEARS_TO_MONTHS = re.compile(r"interval (year|month)( to month)?")
_TIME = re.compile(r"time\([0-9]\)")


PARTITIONS_KEYS = (
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.internal.stateStore.partitions",
)
"""Keys of an offset log for the number of state partitions; the second is of newer Sparks."""


def state_partitions(conf: Mapping[str, str]) -> int | None:
    """Return the number of partitions of state after a batch; None: its offset log does not say.

    What Spark notes of operators says it too; its own repartition leaves some of that as it was.

    Raises:
        ValueError: it says no number.
    """
    counts = [conf[key] for key in reversed(PARTITIONS_KEYS) if key in conf]
    return int(counts[0]) if counts else None


def join_format(conf: Mapping[str, str]) -> int:
    """Return the state format of a query's joins by an offset log, which before 3.0 said none.

    Raises:
        ValueError: it says no number.
    """
    return int(conf.get("spark.sql.streaming.join.stateFormatVersion", "1"))


@dataclass(frozen=True)
class BegunRepartition:
    """A batch by which Spark was to bring state into another number of partitions."""

    batch: int
    """Number of the batch, which has offsets and no commit."""
    before: int | None
    after: int | None
    """Partitions; None: the offset log does not say."""


def begun_repartition(checkpoint: Checkpoint) -> BegunRepartition | None:
    """Return the repartition that Spark has begun and not ended; raises as ``offsets`` does.

    A query does not start on such a checkpoint. Spark refuses state of a provider that is not its
    own only after it has written the batch's offsets.
    """
    committed, logged = checkpoint.committed_batches(), checkpoint.logged_batches()
    if not committed or logged[-1] <= committed[-1]:
        return None
    before, after = (
        state_partitions(checkpoint.offsets(batch).conf) for batch in (committed[-1], logged[-1])
    )
    return None if before == after else BegunRepartition(logged[-1], before, after)


@dataclass(frozen=True)
class StateSchema:
    """Schema of one state store, as Arrow types."""

    path: str
    """The file that Spark keeps it in."""
    key: pa.StructType
    value: pa.StructType
    prefix_fields: int
    """Number of a key's fields that are encoded apart, before the others; 0: none is."""
    partitions: int
    """Number of partitions by the operator's metadata."""
    is_one_key: bool
    """True if all rows have one key, as with a limit: one task has them, the others never run."""

    def due_partitions(self, counted: int | None) -> int:
        """Number of partitions that have to be there; ``counted``: by the offset log of a batch."""
        return self.partitions if self.is_one_key or counted is None else counted


def read_state_schema(operator_folder: FolderTree, store: str) -> StateSchema:
    """The schema of one of an operator's stores.

    Raises:
        NotAQueue: there is no such operator.
        ValueError: it has no such store, or keeps column families: these have a schema each.
        SchemaMismatch: a column is of a type that is not supported.
        UnsupportedVersion: the schema is in a format that this release does not read.
        CorruptLog: what Spark wrote is damaged or missing.
    """
    if has_variables(operator_folder):
        require_no_join(operator_folder)
        raise ValueError(
            f"{operator_folder.path}: it keeps variables; read_state reads one with variable=…"
        )
    name, stores = _stores_of(operator_folder)
    if store not in stores:
        is_join = not stores.keys().isdisjoint(JOIN_SIDES.values())
        sides = " (read_state takes store='left' and store='right': what a join's sides wait with)"
        raise ValueError(
            f"{operator_folder.path}: no store {store!r}; there are {sorted(stores)}"
            f"{sides if is_join else ''}"
        )
    return read_schema_file(operator_folder, name, store, *stores[store])


def read_schema_file(
    operator_folder: FolderTree, name: str, store: str, prefix_fields: int, partitions: int
) -> StateSchema:
    """The schema of a store of which the rest is known; raises as :func:`read_state_schema`.

    ``name`` is Spark's name for the operator; empty where it has noted none.
    """
    (path, key), (_, value) = schema_texts(operator_folder, store)
    keys, values = struct_of(path, "key", key), struct_of(path, "value", value)
    if not 0 <= prefix_fields <= keys.num_fields:
        raise SchemaMismatch(f"{path}: fewer columns than the {prefix_fields} of a key's prefix")
    # A limit has a column of nulls for its key. Spark hashes such a key of another operator, too.
    is_one_key = not keys.num_fields or (
        name in (LIMIT, "") and all(pa.types.is_null(field.type) for field in keys)
    )
    return StateSchema(
        path, keys, values, prefix_fields, 1 if is_one_key else partitions, is_one_key
    )


def schema_texts(operator_folder: FolderTree, store: str) -> list[tuple[str, str]]:
    """Path and JSON of the schemas of a store's keys and values; raise as `read_state_schema`."""
    path, data = noted(store_folder(operator_folder, 0, store), "schema")
    texts = JavaTexts(path, data)
    version = known_version(path, texts.one(), 2)
    return [(path, texts.one() if version == 1 else texts.pieces()) for _ in range(2)]


_OPERATORS = {
    "stateStoreSave": "aggregate",
    "dedupe": "dedupe",
    "dedupeWithinWatermark": "dedupe",
    JOIN: "join",
    "sessionWindowStateStoreSaveExec": "session windows",
    "flatMapGroupsWithState": "groups with state",
    "applyInPandasWithState": "groups with state",
    "transformWithStateExec": "transform with state",
    "transformWithStateInPandasExec": "transform with state",
    "transformWithStateInPySparkExec": "transform with state",
    LIMIT: "limit",
}
"""Readable names of stateful operators, by Spark's names for them."""


def has_variables(operator_folder: FolderTree) -> bool:
    """Return True for an operator whose state is several column families, not one table.

    They are the variables of `transformWithState`, or the tables of a join of state format 3 or 4.

    Raises:
        UnsupportedVersion: its metadata is in a format that this release does not read.
    """
    folder = operator_folder.folder(METADATA_FOLDER)
    with suppress(FileNotFoundError):
        for name in (formats := folder.folders()):
            known_version(f"{folder.path}/{name}", name, 2)
        return VERSION_2 in formats
    return False


def require_no_join(operator_folder: FolderTree) -> None:
    """Raise ``ValueError`` for a join whose tables are column families; as the others below."""
    if sparks_operator_name(operator_folder) == JOIN:
        raise ValueError(
            f"{operator_folder.path}: a join of state format 3 or 4, which is not read here: "
            "Spark's own reader `statestore` reads it, and `cec-store state` shows its rows"
        )


def operator_name(operator_folder: FolderTree) -> str:
    """Return the operator's readable name; empty where Spark's file has none or cannot be read."""
    with suppress(CecError, FileNotFoundError):
        name = sparks_operator_name(operator_folder)
        return _OPERATORS.get(name, name)
    return ""


def sparks_operator_name(operator_folder: FolderTree) -> str:
    """Return the name that Spark has noted for the operator, such as "stateStoreSave".

    Raises:
        CorruptLog: the file that says so is damaged or missing.
        UnsupportedVersion: it is in a format that this release does not read.
    """
    if has_variables(operator_folder):
        path, data = noted_of_families(operator_folder, NEWEST)
    else:
        path, data = noted(operator_folder, "metadata")
    text = data.partition(b"\n")[2]
    return parsed(path, data, lambda: str(json.loads(text)["operatorInfo"]["operatorName"]))


def noted_of_families(operator_folder: FolderTree, batch: int) -> tuple[str, bytes]:
    """Path and content of the newest notes, up to a batch, of an operator with column families.

    Raises:
        CorruptLog: there are none.
    """
    folder = operator_folder.folder(METADATA_FOLDER).folder(VERSION_2)
    numbers = [int(name) for name in folder.names() if name.isascii() and name.isdecimal()]
    earlier = [number for number in numbers if number <= batch]
    if not earlier:
        raise damaged(folder.path, 0, f"the file of batch {batch} or an earlier one is missing")
    return read_whole(folder, str(max(earlier)))


def _stores_of(operator_folder: FolderTree) -> tuple[str, dict[str, tuple[int, int]]]:
    """Return the operator's name, and columns of a key's prefix, and partitions, of each store."""
    if not operator_folder.exists():
        raise NotAQueue(f"{operator_folder.path}: the query has no such stateful operator")
    path, data = noted(operator_folder, "metadata")
    version, _, text = data.partition(b"\n")
    known_version(path, version.decode("latin-1"), 1)
    try:
        metadata = json.loads(text)
        return str(metadata["operatorInfo"]["operatorName"]), {
            str(store_info["storeName"]): (
                int(store_info["numColsPrefixKey"]),
                int(store_info["numPartitions"]),
            )
            for store_info in metadata["stateStoreInfo"]
        }
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(path, len(version) + 1, f"not what Spark writes: {error}") from None


def noted(folder: FolderTree, name: str) -> tuple[str, bytes]:
    """Path and content of a file of a folder's metadata."""
    return read_whole(folder.folder(METADATA_FOLDER), name)


def struct_of(path: str, name: str, text: str) -> pa.StructType:
    """The type that Spark's JSON says; raises as :func:`read_state_schema`."""
    try:
        kind = _arrow_type(name, json.loads(text))
    except SchemaMismatch as error:
        raise SchemaMismatch(f"{path}: {error}") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(path, 0, f"the schema of the {name} is not Spark's JSON: {error}") from None
    if not pa.types.is_struct(kind):
        raise damaged(path, 0, f"the schema of the {name} is no struct but {kind}")
    return kind


def _arrow_type(column: str, spark_type: Any) -> pa.DataType:
    """Spark's type, of which the JSON is given, in Arrow.

    Raises:
        SchemaMismatch: there is none.
    """
    if isinstance(spark_type, str):
        return _simple_type(column, spark_type)
    what = spark_type["type"]
    if what == "struct":
        names = _told_apart([str(field["name"]) for field in spark_type["fields"]])
        kinds = [
            _arrow_type(f"{column}.{field['name']}", field["type"])
            for field in spark_type["fields"]
        ]
        return pa.struct(list(zip(names, kinds, strict=True)))
    if what == "array":
        return pa.list_(pa.field("element", _arrow_type(f"{column}[]", spark_type["elementType"])))
    if what == "map":
        key = _arrow_type(f"{column}.key", spark_type["keyType"])
        return pa.map_(key, _arrow_type(f"{column}.value", spark_type["valueType"]))
    raise _unsupported(column, what)


def _simple_type(column: str, type_name: str) -> pa.DataType:
    if type_name in _ARROW_TYPES:
        return _ARROW_TYPES[type_name]
    if decimal := _DECIMAL.fullmatch(type_name):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if _DAYS_TO_SECONDS.fullmatch(type_name):
        return pa.duration("us")
    if _YEARS_TO_MONTHS.fullmatch(type_name):
        return pa.month_day_nano_interval()
    if _TIME.fullmatch(type_name):
        return pa.time64("ns")
    raise _unsupported(column, type_name)


def _unsupported(column: str, type_name: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"column {column} is of Spark's type {type_name!r}, which cannot be read without Spark"
    )


def _told_apart(names: list[str]) -> list[str]:
    """Spark calls two sums of one query both `sum`; tables here have each name once."""
    seen: Counter[str] = Counter()
    unique_names = []
    for name in names:
        seen[name] += 1
        while seen[name] > 1 and f"{name}_{seen[name]}" in names:
            seen[name] += 1
        unique_names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return unique_names
