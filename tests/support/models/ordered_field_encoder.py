"""Writes the fields of a key that Spark keeps in order, one by one: the sign, then the number."""

import struct
from typing import Any

import pyarrow as pa

FORMATS = {
    pa.int8(): ">b", pa.int16(): ">h", pa.int32(): ">i", pa.int64(): ">q", pa.float32(): ">f",
    pa.float64(): ">d",
}  # fmt: skip


def marked(kind: pa.DataType, value: Any) -> tuple[bytes, bytes]:
    """The marker, and the number behind it: as bytes they sort as the values do, nulls last."""
    size = struct.calcsize(FORMATS[kind])
    if value is None:
        return b"\2", bytes(size)
    data = struct.pack(FORMATS[kind], value)
    is_below = data[0] >= 0x80  # the sign's bit, of a floating-point zero as well
    if is_below and pa.types.is_floating(kind):
        data = bytes(byte ^ 0xFF for byte in data)
    return bytes([not is_below]), data


def parted(
    kind: pa.StructType, row: dict[str, Any], ordered: tuple[int, ...]
) -> tuple[list[tuple[bytes, bytes]], pa.StructType]:
    """The fields in order, each as `marked`, and the type of the others."""
    fields = [(kind.field(number).type, row[kind.field(number).name]) for number in ordered]
    others = [field for number, field in enumerate(kind) if number not in ordered]
    return [marked(*field) for field in fields], pa.struct(others)
