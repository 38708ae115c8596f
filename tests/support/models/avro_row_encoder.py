"""Writes rows in Avro value by value, as Spark keeps them: what the reader is compared with.

Values stand as `pa.array` takes them, times and dates as whole numbers. Written from Avro's
specification, without its library: a field is a union of null and its type.
"""

import struct
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from support.models.ordered_field_encoder import parted

_INTEGERS = (
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
)  # fmt: skip


def value(kind: pa.StructType, number: int, row: dict[str, Any]) -> bytes:
    """A value, or a key without a prefix, of the schema with this number."""
    return b"\0" + struct.pack("<H", number) + record(kind, row)


def key(kind: pa.StructType, row: dict[str, Any], prefix: int, number: int = 0) -> bytes:
    """As a state store keeps a key: of two parts, where there is a prefix, the first is bare."""
    if not prefix:
        return value(kind, number, row)
    first, rest = (pa.struct(part) for part in (list(kind)[:prefix], list(kind)[prefix:]))
    head = b"\0" + record(first, row)
    return struct.pack("<i", len(head)) + head + value(rest, number, row)


def ordered_key(kind: pa.StructType, row: dict[str, Any], ordered: tuple[int, ...]) -> bytes:
    """A key of which some fields, by their numbers, are kept in order and stand first."""
    fields, others = parted(kind, row, ordered)
    head = b"\0" + b"".join(_whole(1) + _bytes(part) for field in fields for part in field)
    rest = value(others, 0, row) if others.num_fields else b""
    return struct.pack("<i", len(head)) + head + rest


def record(kind: pa.StructType, row: dict[str, Any]) -> bytes:
    return b"".join(_field(field.type, row[field.name]) for field in kind)


def _field(kind: pa.DataType, at: Any) -> bytes:
    if pa.types.is_null(kind):
        return b""
    return _whole(0) if at is None else _whole(1) + _plain(kind, at)


def _element(kind: pa.DataType, at: Any) -> bytes:
    """Of a list or a map: only what has parts of its own may be null there, and what is void."""
    may_be_null = pa.types.is_nested(kind) or pa.types.is_null(kind)
    return _field(kind, at) if may_be_null else _plain(kind, at)


def _plain(kind: pa.DataType, at: Any) -> bytes:
    if pa.types.is_struct(kind):
        return record(kind, at)
    if pa.types.is_list(kind):
        return _blocks([_element(kind.value_type, part) for part in at])
    if pa.types.is_map(kind):
        return _blocks(
            [_bytes(name.encode()) + _element(kind.item_type, part) for name, part in at]
        )
    if pa.types.is_decimal(kind):
        unscaled = int(Decimal(at).scaleb(kind.scale, Context(prec=77)))
        size = next(n for n in range(1, 17) if 2 ** (8 * n - 1) >= 10**kind.precision)
        return unscaled.to_bytes(size, "big", signed=True)
    if pa.types.is_boolean(kind):
        return bytes([at])
    if pa.types.is_floating(kind):
        return struct.pack("<f" if kind == pa.float32() else "<d", at)
    if pa.types.is_string(kind):
        return _bytes(at.encode())
    if pa.types.is_binary(kind):
        return _bytes(at)
    assert kind in _INTEGERS, kind
    return _whole(at)


def _blocks(parts: list[bytes]) -> bytes:
    """As Java writes them: one block with all parts, if there are any, and the end."""
    return (_whole(len(parts)) + b"".join(parts) if parts else b"") + _whole(0)


def _bytes(data: bytes) -> bytes:
    return _whole(len(data)) + data


def _whole(number: int) -> bytes:
    """Zigzag, seven bits at a time."""
    left = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
