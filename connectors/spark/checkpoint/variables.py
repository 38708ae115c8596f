"""The variables of a `transformWithState`: what Spark notes of each.

::

    state/OPERATOR/_metadata/v2/BATCH           v2, and a line of JSON: its variables
    state/OPERATOR/_stateSchema/STORE/BATCH_ID  v3, a number of column families, and for each its
                                                name and schemas of key and value with a number each

Each variable is a column family of one store, and timers are two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

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

    @property
    def is_map(self) -> bool:
        """True if its key is made of the group's key and a key of the map."""
        return self.prefix_fields == 1 and not self.is_timers

    @property
    def is_timers(self) -> bool:
        return self.family in _TIMERS_BY_KEY


def read_variable(operator_folder: FolderTree, name: str) -> tuple[Variable, int]:
    """A variable by its name, or :data:`TIMERS`, and how many partitions the operator has.

    Raises:
        ValueError: the operator has no such variable.
        SchemaMismatch: a column is of a type that is not supported.
        UnsupportedVersion: what Spark noted is in a format that this release does not read.
        CorruptLog: it is damaged or missing.
    """
    folder = operator_folder.folder(METADATA_FOLDER).folder(VERSION_2)
    path, data = read_whole(folder, _newest(folder))
    version, _, text = data.partition(b"\n")
    known_version(path, version.decode("latin-1"), 2, oldest=2)
    try:
        metadata = json.loads(text)
        [store] = metadata["stateStoreInfo"]
        partitions = int(store["numPartitions"])
        properties = json.loads(metadata["operatorPropertiesJson"])
        kinds = {
            str(variable["stateName"]): str(variable["stateVariableType"])
            for variable in properties["stateVariables"]
        }
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(path, 0, f"not what Spark writes: {error}") from None
    timers = [(TIMERS, variable_name) for variable_name in kinds if variable_name in _TIMERS_BY_KEY]
    named = dict(timers) | {
        variable_name: variable_name for variable_name in kinds if not variable_name.startswith("$")
    }
    if name not in named:
        raise ValueError(f"{operator_folder.path}: no variable {name!r}; there are {sorted(named)}")
    family = named[name]
    schemas = operator_folder.folder(SCHEMAS).folder(DEFAULT_STORE)
    return _variable(schemas, family, kinds[family] == _LIST), partitions


def _newest(folder: FolderTree) -> str:
    """Return the name of the file with the highest batch number in front.

    Raises:
        CorruptLog: there is no such file.
    """
    numbered = [name for name in folder.names() if name.partition("_")[0].isdecimal()]
    if not numbered:
        raise damaged(folder.path, 0, "the file is missing")
    return max(numbered, key=lambda name: int(name.partition("_")[0]))


def _variable(folder: FolderTree, family: str, is_list: bool) -> Variable:
    path, data = read_whole(folder, _newest(folder))
    texts = JavaTexts(path, data)
    known_version(path, texts.one(), 3, oldest=3)
    for _ in range(min(texts.number(4), len(data))):
        name = texts.one()
        texts.number(2)
        key = texts.pieces()
        texts.number(2)
        value, encoder = texts.pieces(), texts.pieces()
        texts.pieces()  # of a map's own keys: they stand in the key as well
        if name == family:
            try:
                prefix = int(json.loads(encoder).get("numColsPrefixKey", 0))
            except (ValueError, TypeError, AttributeError):
                raise damaged(path, 0, f"the encoder of {name} is not Spark's JSON") from None
            kinds = struct_of(path, "key", key), struct_of(path, "value", value)
            return Variable(path, family, *kinds, prefix, is_list)
    raise damaged(path, 0, f"it does not have {family}")
