"""Amount of an operator's state that each batch reads, as far as a checkpoint says it.

docs/watermarks.md says the same by operator. A checkpoint does not say in which output mode the
query runs, nor whether its session has the extension by which batches read less.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cec_store.connectors.spark.checkpoint.layout import JOIN_SIDES, Checkpoint
from cec_store.connectors.spark.checkpoint.parsing import parsed
from cec_store.connectors.spark.checkpoint.state_schema import (
    JOIN,
    LIMIT,
    join_format,
    operator_name,
    schema_texts,
    sparks_operator_name,
)
from cec_store.connectors.spark.setup.settings import BUILT_IN, PROVIDER_KEY
from cec_store.errors import CecError
from cec_store.storage.folder import FolderTree

_EVENT_TIME = "spark.watermarkDelayMs"
"""Name in the metadata of a column by which a watermark goes."""
_COMPLETE = "in output mode complete all rows, to put them out"
_NOT_OURS = "Spark's own providers do not know which rows are due"


class Reads(str, Enum):
    """The rows of an operator's state that each batch reads, beside those that it changes."""

    DUE = "rows that are due"
    ALL = "all rows"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class OperatorScan:
    """One stateful operator, and what its batches read."""

    operator: int
    name: str
    """Readable; empty where Spark's file has none or cannot be read."""
    reads: Reads
    why: str


Found = tuple[Reads, str]


def operator_scans(checkpoint: Checkpoint) -> list[OperatorScan]:
    """Return a scan an operator, by number; what is damaged is unknown."""
    settings = checkpoint.newest_settings()
    is_ours = settings.get(PROVIDER_KEY) not in BUILT_IN.values()
    scans = []
    for number in sorted({place.operator for place in checkpoint.state_folders()}):
        folder = checkpoint.operator_folder(number)
        reads, why = _scan(folder, settings, is_ours)
        scans.append(OperatorScan(number, operator_name(folder), reads, why))
    return scans


def _scan(folder: FolderTree, settings: Mapping[str, str], is_ours: bool) -> Found:
    try:
        name = sparks_operator_name(folder)
        if name.startswith("transformWithState"):
            return Reads.DUE, "timers and times to live stand in the order of their times"
        if name == JOIN:
            return _of_join(folder, join_format(settings), is_ours)
        if name not in _RULES:
            return Reads.UNKNOWN, "this release does not know the operator"
        key, value = (_fields(*text) for text in schema_texts(folder, "default"))
    except (CecError, ValueError, FileNotFoundError):
        return Reads.UNKNOWN, "what Spark has noted of it cannot be read"
    reads, why = _RULES[name](key, value)
    return (Reads.ALL, _NOT_OURS) if reads is Reads.DUE and not is_ours else (reads, why)


Fields = list[dict[str, Any]]


def _fields(path: str, text: str) -> Fields:
    """The columns of a schema in Spark's JSON."""

    def read() -> Fields:
        fields = json.loads(text)["fields"]
        return [{"name": str(f["name"]), "type": f["type"], **f["metadata"]} for f in fields]

    return parsed(path, text.encode(), read)


def _event_time(fields: Fields) -> str | None:
    return next((field["name"] for field in fields if _EVENT_TIME in field), None)


def _of_aggregate(key: Fields, value: Fields) -> Found:
    column = _event_time(key)
    if column is None:
        return Reads.NONE, f"no column of its key is an event time; {_COMPLETE}"
    return Reads.DUE, f"the time is in its key, {column}; {_COMPLETE}"


def _of_duplicates(key: Fields, value: Fields) -> Found:
    column = _event_time(key)
    if column is None:
        return Reads.NONE, "no event time is among its columns, so no row is ever removed"
    return Reads.DUE, f"the time is in its key, {column}"


def _of_groups(key: Fields, value: Fields) -> Found:
    kinds = [field["type"] for field in value if field["name"] == "timeoutTimestamp"]
    if not kinds:
        return Reads.NONE, "its groups have no timeout"
    if kinds != ["long"]:
        return Reads.ALL, "it is in state format 1, of Spark before 2.4"
    return Reads.DUE, "the timeout is in its value"


def _of_join(folder: FolderTree, version: int, is_ours: bool) -> Found:
    """Either side is a store of its own, whose keys are the join's and whose values are rows."""
    if version > 3:
        return Reads.DUE, f"state format {version} keeps rows in the order of their times"
    if version == 3:
        return Reads.ALL, "in state format 3 both sides are in one store, of which a scan reads all"
    texts = [schema_texts(folder, store) for store in JOIN_SIDES.values()]
    in_key = [_event_time(_fields(*key)) for key, _ in texts]
    in_rows = [_event_time(_fields(*value)) for _, value in texts]
    if not any((*in_key, *in_rows)):
        return Reads.NONE, "neither side has an event time, so no row is ever removed"
    if not is_ours:
        return Reads.ALL, _NOT_OURS
    place = "the join's key" if any(in_key) else "its rows"
    return Reads.DUE, f"the time is in {place}"


_RULES: dict[str, Callable[[Fields, Fields], Found]] = {
    "stateStoreSave": _of_aggregate,
    "dedupe": _of_duplicates,
    "dedupeWithinWatermark": lambda key, value: (Reads.DUE, "the time is in its value"),
    "sessionWindowStateStoreSaveExec": lambda key, value: (
        Reads.DUE, f"the session's end is in its value; {_COMPLETE}",
    ),
    "flatMapGroupsWithState": _of_groups,
    "applyInPandasWithState": _of_groups,
    LIMIT: lambda key, value: (Reads.NONE, "it keeps one count"),
}  # fmt: skip
