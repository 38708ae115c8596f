"""Writes UnsafeRows value by value, as Spark lays them out: what the reader is compared with.

Values stand as `pa.array` takes them, times and dates as whole numbers.
"""

import struct
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from support.models.ordered_field_encoder import parted

_FORMATS = {
    pa.bool_(): "?", pa.int8(): "b", pa.int16(): "h", pa.int32(): "i", pa.int64(): "q",
    pa.float32(): "f", pa.float64(): "d", pa.date32(): "i", pa.timestamp("us"): "q",
    pa.timestamp("us", "UTC"): "q", pa.duration("us"): "q", pa.time64("ns"): "q",
}  # fmt: skip


def row(kind: pa.StructType, value: dict[str, Any]) -> bytes:
    fields = [(kind.field(i).type, value[kind.field(i).name]) for i in range(kind.num_fields)]
    bit_bytes = (len(fields) + 63) // 64 * 8
    bits = sum(1 << at for at, (_, each) in enumerate(fields) if each is None)
    return bits.to_bytes(bit_bytes, "little") + _words(fields, bit_bytes, 8)


def key(kind: pa.StructType, value: dict[str, Any], prefix: int) -> bytes:
    """As a state store with scans by prefix keeps a key, in two parts, or else in one."""
    if not prefix:
        return b"\0" + row(kind, value)
    first, rest = (pa.struct(part) for part in (list(kind)[:prefix], list(kind)[prefix:]))
    head = b"\0" + row(first, value)
    return struct.pack("<i", len(head)) + head + b"\0" + row(rest, value)


def ordered_key(kind: pa.StructType, value: dict[str, Any], ordered: tuple[int, ...]) -> bytes:
    """A key of which some fields, by their numbers, are kept in order and stand first."""
    fields, others = parted(kind, value, ordered)
    names = [str(number) for number in range(len(fields))]
    first = pa.struct([(name, pa.binary()) for name in names])
    head = b"\0" + row(
        first, {name: b"".join(field) for name, field in zip(names, fields, strict=True)}
    )
    rest = b"\0" + row(others, value) if others.num_fields else b""
    return struct.pack("<i", len(head)) + head + rest


def _words(fields: list[tuple[pa.DataType, Any]], before: int, width: int) -> bytes:
    """A word for each, and behind them what does not fit; `before` bytes stand before."""
    words, parts = b"", b""
    behind = before + -(-len(fields) * width // 8) * 8
    for kind, value in fields:
        if value is None:
            words += bytes(width)
        elif (there := _in_word(kind, value)) is not None:
            words += there.ljust(width, b"\0")
        else:
            part = _part(kind, value)
            words += struct.pack("<Q", behind + len(parts) << 32 | len(part))
            parts += part.ljust(16 if pa.types.is_decimal(kind) else -(-len(part) // 8) * 8, b"\0")
    return words.ljust(behind - before, b"\0") + parts


def _in_word(kind: pa.DataType, value: Any) -> bytes | None:
    if kind in _FORMATS:
        return struct.pack("<" + _FORMATS[kind], value)
    if pa.types.is_interval(kind):
        return struct.pack("<i", value[0])
    if pa.types.is_decimal(kind) and kind.precision <= 18:
        return struct.pack("<q", _unscaled(kind, value))
    return None


def _part(kind: pa.DataType, value: Any) -> bytes:
    if pa.types.is_string(kind):
        return bytes(value.encode())
    if pa.types.is_binary(kind):
        return bytes(value)
    if pa.types.is_decimal(kind):
        number = _unscaled(kind, value)
        return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
    if pa.types.is_struct(kind):
        return row(kind, value)
    if pa.types.is_list(kind):
        return _array(kind.value_type, value)
    keys = _array(kind.key_type, [each for each, _ in value])
    return struct.pack("<q", len(keys)) + keys + _array(kind.item_type, [each for _, each in value])


def _array(kind: pa.DataType, values: list[Any]) -> bytes:
    bit_bytes = (len(values) + 63) // 64 * 8
    bits = sum(1 << at for at, each in enumerate(values) if each is None)
    head = struct.pack("<q", len(values)) + bits.to_bytes(bit_bytes, "little")
    return head + _words([(kind, each) for each in values], len(head), _width(kind))


def _width(kind: pa.DataType) -> int:
    if pa.types.is_null(kind):
        return 1
    if pa.types.is_interval(kind):
        return 4
    return struct.calcsize(_FORMATS[kind]) if kind in _FORMATS else 8


def _unscaled(kind: pa.DataType, value: Decimal) -> int:
    return int(Decimal(value).scaleb(kind.scale, Context(prec=38)))
