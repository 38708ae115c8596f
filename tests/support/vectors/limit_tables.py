"""Random tables of all types that Arrow has, with values at their limits and just beyond."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

PLAIN = [
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
    pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(1, 0),
    pa.decimal128(18, 3), pa.decimal128(38, 10), pa.decimal256(76, 3), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("s"),
    pa.timestamp("ms", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns"),
    pa.duration("s"), pa.duration("ns"), pa.month_day_nano_interval(), pa.string(),
    pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(),
    pa.binary(3), pa.uuid(), pa.json_(),
]  # fmt: skip
_WORDS = [b"", b"a", b"caf\xe9", b"\xff\xfe\x80", "grün".encode(), b"\0" * 13, b"x" * 300]
_FLOATS = [0.0, -0.0, 1.5, 65504.0, float("inf"), float("-inf"), 6e-8]
_DAY_IN = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class Tables:
    """Draws tables; the same seed draws the same ones."""

    def __init__(self, seed: int, plain: list[pa.DataType] = PLAIN) -> None:
        self._rng = np.random.default_rng(seed)
        self._plain = plain
        self._beyond = 0.0
        self.has_beyond = False
        """Whether the last table has a value that its type has not."""

    def schema(self) -> pa.Schema:
        """Up to four columns."""
        count = int(self._rng.integers(1, 5))
        return pa.schema([(f"c{n}", self._type(2)) for n in range(count)])

    def table(self, schema: pa.Schema, rows: int, *, may_be_refused: bool = False) -> pa.Table:
        """Rows of these columns; some values are such as their types have not, if they may."""
        self._beyond = 0.01 if may_be_refused else 0.0
        self.has_beyond = False
        return pa.table([self.column(field.type, rows) for field in schema], schema=schema)

    def _type(self, depth: int) -> pa.DataType:
        draw = self._rng.random()
        if not depth or draw < 0.6:
            return self._plain[int(self._rng.integers(len(self._plain)))]
        below = self._type(depth - 1)
        if draw < 0.7:
            return pa.list_(below)
        if draw < 0.75:
            return pa.large_list(below)
        if draw < 0.8:
            return pa.list_(below, 2)
        if draw < 0.9:
            return pa.struct([("a", below), ("b", self._type(depth - 1))])
        return pa.map_(pa.string(), below)

    def column(self, kind: pa.DataType, rows: int) -> pa.Array:
        """Values of this type."""
        rng = self._rng
        if isinstance(kind, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(kind, self.column(kind.storage_type, rows))
        if pa.types.is_null(kind):
            return pa.nulls(rows)
        nulls = rng.random(rows) < rng.choice([0.0, 0.3])
        if pa.types.is_map(kind):
            offsets = self._offsets(rows)
            keys = self._texts(pa.string(), int(offsets[-1]), None)
            items = self.column(kind.item_type, int(offsets[-1]))
            return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind)
        if pa.types.is_struct(kind):
            parts = [self.column(field.type, rows) for field in kind]
            return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array(nulls))
        if pa.types.is_fixed_size_list(kind):
            below = self.column(kind.value_type, rows * kind.list_size)
            return pa.FixedSizeListArray.from_arrays(below, type=kind, mask=pa.array(nulls))
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            offsets = self._offsets(rows)
            below = self.column(kind.value_type, int(offsets[-1]))
            made = pa.ListArray if pa.types.is_list(kind) else pa.LargeListArray
            width = pa.int32() if pa.types.is_list(kind) else pa.int64()
            return made.from_arrays(pa.array(offsets, width, mask=np.append(nulls, False)), below)
        if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind):
            data = [None if n else rng.bytes(kind.byte_width) for n in nulls]
            return pa.array(data, kind)
        if kind.id in _TEXTS:
            return self._texts(kind, rows, nulls)
        return self._fixed(kind, rows, nulls)

    def _offsets(self, rows: int) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self._rng.integers(0, 3, rows))])

    def _texts(self, kind: pa.DataType, rows: int, nulls: np.ndarray | None) -> pa.Array:
        few = self._rng.random() < 0.5
        words = [
            word if few else word + bytes(self._rng.integers(0, 256, 4, np.uint8))
            for word in (_WORDS[i] for i in self._rng.integers(0, len(_WORDS), rows))
        ]
        stored = pa.array(words, _TEXTS[kind.id], mask=nulls)
        return stored if stored.type == kind else stored.view(kind)

    def _fixed(self, kind: pa.DataType, rows: int, nulls: np.ndarray) -> pa.Array:
        """Values of one width, at their limits half of the time, and beyond now and then."""
        rng, width = self._rng, max(kind.bit_width, 8) // 8
        if pa.types.is_floating(kind):
            floats = rng.choice(_FLOATS, rows).astype(kind.to_pandas_dtype())
            return pa.array(floats, kind, mask=nulls)
        low, high, step = _limits(kind)
        if low is None:
            data = rng.bytes(rows * width)
        else:
            numbers = []
            for _ in range(rows):
                draw = rng.random()
                if draw < self._beyond:
                    self.has_beyond = True
                    number = int(rng.choice([high + 1, low - 1])) if step == 1 else low + 1
                elif draw < 0.5:
                    number = [low, high, 0][int(rng.integers(3))]
                else:
                    number = int(rng.integers(max(low, -(2**62)), min(high, 2**62)))
                    number -= number % step
                numbers.append(number.to_bytes(width, "little", signed=True))
            data = b"".join(numbers)
        valid = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
        return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(data)])


_TEXTS = {
    pa.string().id: pa.binary(), pa.binary().id: pa.binary(),
    pa.large_string().id: pa.large_binary(), pa.large_binary().id: pa.large_binary(),
    pa.string_view().id: pa.binary_view(), pa.binary_view().id: pa.binary_view(),
}  # fmt: skip


def _limits(kind: pa.DataType) -> tuple[int | None, int, int]:
    """The least and the greatest value, and how far values are apart; no least where any do."""
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1, 1
    if pa.types.is_time(kind):
        return 0, _DAY_IN[kind.unit] - 1, 1
    if pa.types.is_date64(kind):
        return -(10**9) * 86_400_000, 10**9 * 86_400_000, 86_400_000
    return None, 0, 1
