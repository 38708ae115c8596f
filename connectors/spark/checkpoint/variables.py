"""The column families of an operator: what Spark notes of each.

::

    state/OPERATOR/_metadata/v2/BATCH           v2, and a line of JSON: its variables
    state/OPERATOR/_stateSchema/STORE/BATCH_ID  v3, a number of column families, and for each its
                                                name and schemas of key and value with a number each

Each variable of a `transformWithState` is a column family of one store, and timers are two. Of a
join of state format 3 or 4 each table is one; Spark notes no variables of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from cec_store.connectors.spark.checkpoint.java_texts import JavaTexts
from cec_store.connectors.spark.checkpoint.layout import DEFAULT_STORE
from cec_store.connectors.spark.checkpoint.parsing import (
    damaged,
    json_object,
    known_version,
    read_whole,
)
from cec_store.connectors.spark.checkpoint.state_schema import (
    NEWEST,
    noted_of_families,
    require_no_join,
    struct_of,
)
from cec_store.errors import CorruptLog, SchemaMismatch
from cec_store.storage.folder import FolderTree

SCHEMAS = "_stateSchema"
_LIST = "ListState"
_COUNTS_OF = "$rowCounter_"
TIMERS = "timers"
"""The name that stands for an operator's timers."""
_TIMERS_BY_KEY = ("$eventTimers_keyToTimestamp", "$procTimers_keyToTimestamp")


@dataclass(frozen=True)
class Variable:
    """One variable, or the timers, with its types in Arrow."""

    path: str
    """The file that Spark keeps the types in."""
    family: str
    """The name of its column family."""
    key: pa.StructType
    value: pa.StructType
    prefix_fields: int
    is_list: bool
    forms: Mapping[int, pa.StructType] | None = None
    """Types that values were written with, by the numbers before them, where rows are in Avro;
    None: rows are Spark's own, and all of one type."""
    ordered: tuple[int, ...] = ()
    """Numbers of the key's fields that are kept in order, before the others; empty: none is."""

    @property
    def is_map(self) -> bool:
        """True if its key is made of the group's key and a key of the map."""
        return self.prefix_fields == 1 and not self.is_timers

    @property
    def is_timers(self) -> bool:
        return self.family in _TIMERS_BY_KEY


@dataclass(frozen=True)
class Families:
    """The column families of a store with variables: those that Spark keeps beside them, too."""

    path: str
    """The operator's folder."""
    known: Mapping[str, Variable]
    """Families by name."""
    unsupported: Mapping[str, str]
    """Reasons by name that a family's types are not supported."""
    in_avro: bool
    partitions: int


class _Noted(NamedTuple):
    """Notes of one run of the query on an operator."""

    path: str
    partitions: int
    files: list[str]
    """Names of its schema files, the newest last."""
    kinds: dict[str, str]
    """Spark's kinds of the variables, by column family."""

    @property
    def families(self) -> dict[str, str]:
        """Column families by names of variables, :data:`TIMERS` among them."""
        timers = [(TIMERS, family) for family in self.kinds if family in _TIMERS_BY_KEY]
        return dict(timers) | {name: name for name in self.kinds if not name.startswith("$")}


def variable_names(operator_folder: FolderTree, batch: int) -> list[str]:
    """Names of the variables that the operator had in a batch; raises as :func:`read_variable`."""
    return sorted(_noted(operator_folder, batch).families)


def read_variable(
    operator_folder: FolderTree, name: str, batch: int, *, in_avro: bool = False
) -> tuple[Variable, int]:
    """A variable by its name, or :data:`TIMERS`, and how many partitions the operator has.

    Its types are those of the run of the query that ``batch`` was in.

    Raises:
        ValueError: the operator has no such variable, or is a join.
        SchemaMismatch: a column is of a type that is not supported.
        UnsupportedVersion: what Spark noted is in a format that this release does not read.
        CorruptLog: it is damaged or missing.
    """
    noted = _noted(operator_folder, batch)
    families = noted.families
    if name not in families:
        require_no_join(operator_folder)
        names = sorted(families)
        raise ValueError(f"{operator_folder.path}: no variable {name!r}; there are {names}")
    schemas = operator_folder.folder(SCHEMAS).folder(DEFAULT_STORE)
    needed = noted.files if in_avro else noted.files[-1:]
    files = [_schema_file(schemas, file) for file in needed]
    newest = files[-1]
    if families[name] not in newest.families:
        raise damaged(newest.path, 0, f"it does not have {families[name]}")
    return _family(files, families[name], noted.kinds, in_avro), noted.partitions


def read_families(operator_folder: FolderTree, *, in_avro: bool) -> Families:
    """All column families that the operator's store has or had, by the notes of its last run.

    Raises:
        UnsupportedVersion, CorruptLog: as :func:`read_variable`.
    """
    noted = _noted(operator_folder, NEWEST)
    schemas = operator_folder.folder(SCHEMAS).folder(DEFAULT_STORE)
    files = []
    for file in noted.files:
        try:
            files.append(_schema_file(schemas, file))
        except CorruptLog:
            # Of plain rows older files say only what variables there were that are no more.
            if in_avro or file == noted.files[-1]:
                raise
    known: dict[str, Variable] = {}
    unsupported: dict[str, str] = {}
    for family in {name: None for file in files for name in file.families}:
        try:
            known[family] = _family(files, family, noted.kinds, in_avro)
        except SchemaMismatch as error:
            unsupported[family] = str(error)
    return Families(operator_folder.path, known, unsupported, in_avro, noted.partitions)


def _family(
    files: list[_SchemaFile], name: str, kinds: Mapping[str, str], in_avro: bool
) -> Variable:
    """A family by the newest of the files that has it.

    Raises:
        SchemaMismatch: a column is of a type that is not supported.
        CorruptLog: the types are not Spark's JSON.
    """
    file = next(file for file in reversed(files) if name in file.families)
    schema, path = file.families[name], file.path
    forms: dict[int, pa.StructType] = {}
    for other in files if in_avro else []:
        if name in other.families and other.families[name].number not in forms:
            form = other.families[name]
            forms[form.number] = struct_of(other.path, "value", form.value)
    # Spark says nowhere of what kind a variable is that the last run has not declared; it counts
    # the values of each list.
    is_list = kinds[name] == _LIST if name in kinds else f"{_COUNTS_OF}{name}" in file.families
    key, ordered = struct_of(path, "key", schema.key), schema.ordered
    count = key.num_fields
    is_of_key = all(0 <= number < count for number in ordered) and len({*ordered}) == len(ordered)
    if not is_of_key or not 0 <= schema.prefix_fields <= count:
        raise damaged(path, 0, f"the encoder of {name} names fields that its key has not")
    return Variable(
        path=path,
        family=name,
        key=key,
        value=struct_of(path, "value", schema.value),
        prefix_fields=schema.prefix_fields,
        is_list=is_list,
        forms=forms if in_avro else None,
        ordered=ordered,
    )


def _noted(operator_folder: FolderTree, batch: int) -> _Noted:
    path, data = noted_of_families(operator_folder, batch)
    version, _, text = data.partition(b"\n")
    known_version(path, version.decode("latin-1"), 2, oldest=2)
    try:
        metadata = json.loads(text)
        [store] = metadata["stateStoreInfo"]
        files = [str(file).rpartition("/")[2] for file in store["stateSchemaFilePaths"]]
        if not files:
            raise ValueError("no schema file")
        properties = json_object(json.loads(metadata["operatorPropertiesJson"]))
        kinds = {
            str(variable["stateName"]): str(variable["stateVariableType"])
            for variable in properties.get("stateVariables", ())
        }
        return _Noted(path, int(store["numPartitions"]), files, kinds)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(path, 0, f"not what Spark writes: {error}") from None


class _FamilySchema(NamedTuple):
    """One column family in a schema file; types are Spark's JSON."""

    key: str
    number: int
    """Number of the form that values are written in."""
    value: str
    prefix_fields: int
    ordered: tuple[int, ...]


class _SchemaFile(NamedTuple):
    path: str
    families: dict[str, _FamilySchema]
    """Families by name."""


def _schema_file(folder: FolderTree, file: str) -> _SchemaFile:
    """Raises :class:`CorruptLog` or :class:`UnsupportedVersion`."""
    path, data = read_whole(folder, file)
    texts = JavaTexts(path, data)
    known_version(path, texts.one(), 3, oldest=3)
    families: dict[str, _FamilySchema] = {}
    for _ in range(min(texts.number(4), len(data))):
        name = texts.one()
        texts.number(2)
        key = texts.pieces()
        number = texts.number(2)
        value, encoder = texts.pieces(), texts.pieces()
        texts.pieces()  # of a map's own keys: they stand in the key as well
        try:
            how = json_object(json.loads(encoder))
            prefix = int(how.get("numColsPrefixKey", 0))
            ordered = tuple(int(ordinal) for ordinal in how.get("orderingOrdinals", ()))
        except (ValueError, TypeError):
            raise damaged(path, 0, f"the encoder of {name} is not Spark's JSON") from None
        families[name] = _FamilySchema(key, number, value, prefix, ordered)
    return _SchemaFile(path, families)
