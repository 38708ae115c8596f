"""The variables of a `transformWithState`: what Spark notes of each.

::

    state/OPERATOR/_metadata/v2/BATCH           v2, and a line of JSON: its variables
    state/OPERATOR/_stateSchema/STORE/BATCH_ID  v3, a number of column families, and for each its
                                                name and schemas of key and value with a number each

Each variable is a column family of one store, and timers are two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from cec_store.connectors.spark.checkpoint.java_texts import JavaTexts
from cec_store.connectors.spark.checkpoint.layout import DEFAULT_STORE, METADATA_FOLDER
from cec_store.connectors.spark.checkpoint.parsing import damaged, known_version, read_whole
from cec_store.connectors.spark.checkpoint.state_schema import VERSION_2, struct_of
from cec_store.storage.folder import FolderTree

SCHEMAS = "_stateSchema"
_LIST = "ListState"
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

    @property
    def is_map(self) -> bool:
        """True if its key is made of the group's key and a key of the map."""
        return self.prefix_fields == 1 and not self.is_timers

    @property
    def is_timers(self) -> bool:
        return self.family in _TIMERS_BY_KEY


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
        ValueError: the operator has no such variable.
        SchemaMismatch: a column is of a type that is not supported.
        UnsupportedVersion: what Spark noted is in a format that this release does not read.
        CorruptLog: it is damaged or missing.
    """
    noted = _noted(operator_folder, batch)
    families = noted.families
    if name not in families:
        names = sorted(families)
        raise ValueError(f"{operator_folder.path}: no variable {name!r}; there are {names}")
    family = families[name]
    schemas = operator_folder.folder(SCHEMAS).folder(DEFAULT_STORE)
    path, schema = _family_schema(schemas, noted.files[-1], family)
    if schema is None:
        raise damaged(path, 0, f"it does not have {family}")
    kinds = struct_of(path, "key", schema.key), struct_of(path, "value", schema.value)
    forms = _forms(schemas, noted.files, family) if in_avro else None
    is_list = noted.kinds[family] == _LIST
    return Variable(path, family, *kinds, schema.prefix_fields, is_list, forms), noted.partitions


def _noted(operator_folder: FolderTree, batch: int) -> _Noted:
    folder = operator_folder.folder(METADATA_FOLDER).folder(VERSION_2)
    path, data = read_whole(folder, _newest(folder, batch))
    version, _, text = data.partition(b"\n")
    known_version(path, version.decode("latin-1"), 2, oldest=2)
    try:
        metadata = json.loads(text)
        [store] = metadata["stateStoreInfo"]
        files = [str(file).rpartition("/")[2] for file in store["stateSchemaFilePaths"]]
        if not files:
            raise ValueError("no schema file")
        properties = json.loads(metadata["operatorPropertiesJson"])
        kinds = {
            str(variable["stateName"]): str(variable["stateVariableType"])
            for variable in properties["stateVariables"]
        }
        return _Noted(path, int(store["numPartitions"]), files, kinds)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(path, 0, f"not what Spark writes: {error}") from None


def _newest(folder: FolderTree, batch: int) -> str:
    """Return the name of the file with the highest number up to that of the batch.

    Raises:
        CorruptLog: there is no such file.
    """
    numbers = [int(name) for name in folder.names() if name.isascii() and name.isdecimal()]
    earlier = [number for number in numbers if number <= batch]
    if not earlier:
        raise damaged(folder.path, 0, f"the file of batch {batch} or an earlier one is missing")
    return str(max(earlier))


def _forms(folder: FolderTree, files: list[str], family: str) -> dict[int, pa.StructType]:
    """Types of a family's values by their numbers, out of all schema files of a run.

    Raises:
        SchemaMismatch, UnsupportedVersion, CorruptLog: as :func:`read_variable`.
    """
    forms: dict[int, pa.StructType] = {}
    for file in files:
        path, schema = _family_schema(folder, file, family)
        if schema is not None and schema.number not in forms:
            forms[schema.number] = struct_of(path, "value", schema.value)
    return forms


class _FamilySchema(NamedTuple):
    """One column family in a schema file; types are Spark's JSON."""

    key: str
    number: int
    """Number of the form that values are written in."""
    value: str
    prefix_fields: int


def _family_schema(folder: FolderTree, file: str, family: str) -> tuple[str, _FamilySchema | None]:
    """Path of a schema file, and what it says of a family; None: it does not have it."""
    path, data = read_whole(folder, file)
    texts = JavaTexts(path, data)
    known_version(path, texts.one(), 3, oldest=3)
    for _ in range(min(texts.number(4), len(data))):
        name = texts.one()
        texts.number(2)
        key = texts.pieces()
        number = texts.number(2)
        value, encoder = texts.pieces(), texts.pieces()
        texts.pieces()  # of a map's own keys: they stand in the key as well
        if name == family:
            try:
                prefix = int(json.loads(encoder).get("numColsPrefixKey", 0))
            except (ValueError, TypeError, AttributeError):
                raise damaged(path, 0, f"the encoder of {name} is not Spark's JSON") from None
            return path, _FamilySchema(key, number, value, prefix)
    return path, None
