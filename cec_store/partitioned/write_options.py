"""The options of who writes batches to a queue, by name and as texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cec_store.format.retention import Retention
from cec_store.partitioned.read_options import by_lower_name
from cec_store.storage.names import checked_transaction

_NAMES = ("path", "timestampColumn", "keyColumns", "segmentBytes", "retention")
_OF_TRANSACTION = ("txnAppId", "txnVersion")
_SEGMENT_BYTES = (4 << 10, 64 << 20, 1 << 30)
"""Least, default and most."""


@dataclass(frozen=True)
class WriteOptions:
    """Options of a write, checked as far as they can be without the queue."""

    path: str
    storage: dict[str, Any]
    timestamp_column: str | None
    key_columns: tuple[str, ...]
    segment_bytes: int
    """Bytes of an object at which a task begins another one."""
    retention: Retention | None
    """Retention of the queue if this write makes it; ``None`` for the default."""
    transaction: tuple[str, int] | None
    """Name of the writer and number of its batch, if the caller gives both."""


def parse(options: Mapping[str, str], *, is_stream: bool) -> WriteOptions:
    """Names may be in any case.

    Raises:
        ValueError: an unknown name, or a value that is not allowed; says what is.
    """
    known = _NAMES if is_stream else _NAMES + _OF_TRANSACTION
    given, storage = by_lower_name(options, known)
    keys = tuple(filter(None, map(str.strip, given.get("keycolumns", "").split(","))))
    retention = given.get("retention")
    return WriteOptions(
        given["path"], storage, given.get("timestampcolumn"), keys,
        _segment_bytes(given.get("segmentbytes")),
        None if retention is None else Retention.of(retention), _transaction(given),
    )  # fmt: skip


def _segment_bytes(text: str | None) -> int:
    least, default, most = _SEGMENT_BYTES
    if text is None:
        return default
    if not text.strip().isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"segmentBytes is {least} to {most}, in bytes, not {text!r}")
    return int(text)


def _transaction(given: Mapping[str, str]) -> tuple[str, int] | None:
    app, version = (given.get(name.lower()) for name in _OF_TRANSACTION)
    if app is None and version is None:
        return None
    if app is None or version is None or not version.isdecimal():
        raise ValueError(
            f"txnAppId and txnVersion (the batch's id) go together, not {app!r} and {version!r}"
        )
    return checked_transaction(app, int(version))
