"""Keys of records: numbers for them, and which of them are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cec_store.format.columns import flags_of
from cec_store.format.schema import RecordSchema
from cec_store.inspector.decoding.plain_values import rows_of
from cec_store.operators.keys.encoder import KeyEncoder

Flags = NDArray[np.bool_]
_WITHOUT_TEXT = (pa.types.is_time, pa.types.is_duration, pa.types.is_interval)
"""Arrow casts no text to these types."""


def key_columns(keys: pa.StructArray) -> list[pa.Array]:
    """Return the columns that tell keys apart: their validity, then each field.

    A null key is a key of its own, distinct from a key whose fields are all null.
    """
    return [keys.is_valid(), *keys.flatten()]


def key_encoder(schema: RecordSchema) -> KeyEncoder:
    """Numbers for keys as :func:`key_columns` gives them.

    Raises:
        ValueError: a key column of a type that no operator makes.
    """
    return KeyEncoder(pa.schema([pa.field("_is_key", pa.bool_()), *(schema.key or [])]))


class KeyTest:
    """Keys whose columns have these values; of bare text, those with it in any column."""

    def __init__(self, text: str) -> None:
        """JSON, as ``{"tailnum": "N123"}``, or bare text."""
        self.text = text
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = text
        self._values: dict[str, Any] | None = parsed if isinstance(parsed, dict) else None

    @property
    def is_bare(self) -> bool:
        """True if the test is bare text, which names no columns."""
        return self._values is None

    def unknown_columns(self, kind: pa.StructType) -> list[str]:
        """Columns that are asked for, and that such keys do not have."""
        return sorted({*(self._values or {})} - {field.name for field in kind})

    def rows(self, keys: pa.StructArray) -> Flags:
        """Return one flag for each key: True if the test is met."""
        if self._values is not None:
            return flags_of(_equals(keys, self._values))
        none = pa.array(np.zeros(len(keys), np.bool_))
        matches = (_equals(leaf, self.text).fill_null(False) for leaf in _leaves(keys))
        return flags_of(reduce(pc.or_, matches, none))


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    if not pa.types.is_struct(column.type):
        yield column
        return
    for part in column.flatten():
        yield from _leaves(part)


def _equals(column: pa.Array, value: Any) -> pa.BooleanArray:
    kind = column.type
    nothing = pa.array(np.zeros(len(column), np.bool_))
    if value is None:
        return column.is_null()
    if pa.types.is_struct(kind):
        if not isinstance(value, dict) or set(value) - {field.name for field in kind}:
            return nothing
        parts = dict(zip((field.name for field in kind), column.flatten(), strict=True))
        matches = (_equals(parts[name], part).fill_null(False) for name, part in value.items())
        return reduce(pc.and_, matches, column.is_valid())
    if pa.types.is_duration(kind) and isinstance(value, int):
        return pc.equal(column.cast(pa.int64()), pa.scalar(value, pa.int64()))
    if pa.types.is_nested(kind) or any(is_one(kind) for is_one in _WITHOUT_TEXT):
        return _is_printed_as(column, value)
    values = _as_type(value, kind)
    return pc.is_in(column, pa.array(values, kind)) if values else nothing


def _is_printed_as(column: pa.Array, value: Any) -> pa.BooleanArray:
    """Values of types that Arrow reads from no text are found by what is printed of them."""
    if isinstance(value, str) and pa.types.is_nested(column.type):
        with suppress(ValueError):  # text that is no JSON is compared as it is
            value = json.loads(value)
    printed = _without_zeros(value)
    return pa.array([_without_zeros(row) == printed for row in rows_of(column)], pa.bool_())


def _without_zeros(value: Any) -> str:
    """The text of a value; zeros at the end of a fraction of a second say nothing."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _as_type(value: Any, kind: pa.DataType) -> list[Any]:
    """Return the value that a word or number of JSON has in a column; empty where it has none."""
    if pa.types.is_binary(kind):
        return _as_bytes(str(value))
    text = json.dumps(value) if isinstance(value, bool) else str(value)
    texts = [text, f"{text}Z"] if pa.types.is_timestamp(kind) else [text]
    for candidate in texts:
        try:
            return [pa.scalar(candidate).cast(kind)]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    return []


def _as_bytes(text: str) -> list[bytes]:
    try:
        return [text.encode(), bytes.fromhex(text)]
    except ValueError:
        return [text.encode()]
