"""Rows as Spark writes them become Arrow columns; bytes that are no rows are refused."""

import string
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store.connectors.spark.checkpoint import unsafe_rows
from cec_store.connectors.spark.checkpoint.unsafe_rows import BadRow, decode_rows
from support.models import unsafe_row_encoder as encoder

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
MONTHS = INT32.map(lambda months: pa.MonthDayNano([months, 0, 0]))
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.null(): st.none(),
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): INT32,
    pa.int64(): INT64,
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.float64(): FLOATS,
    pa.string(): st.text(max_size=20),
    pa.binary(): st.binary(max_size=20),
    pa.date32(): INT32,
    pa.timestamp("us", "UTC"): INT64,
    pa.timestamp("us"): INT64,
    pa.duration("us"): INT64,
    pa.time64("ns"): st.integers(0, 86_399_999_999_999),
    pa.month_day_nano_interval(): MONTHS,
}


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    every = Context(prec=38)
    return st.integers(-limit, limit).map(lambda number: Decimal(number).scaleb(-scale, every))


for digits, behind in ((1, 0), (18, 6), (19, 4), (38, 0), (38, 38)):
    VALUES[pa.decimal128(digits, behind)] = decimals(digits, behind)


def nested(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(kinds, max_size=4).map(struct_of)
    keys = st.sampled_from([kind for kind in VALUES if not pa.types.is_null(kind)])
    lists = kinds.map(lambda kind: pa.list_(pa.field("element", kind)))
    return st.one_of(structs, lists, st.builds(pa.map_, keys, kinds))


def struct_of(kinds: list[pa.DataType]) -> pa.StructType:
    names = string.ascii_lowercase
    return pa.struct([(names[at], kind) for at, kind in enumerate(kinds)])


KINDS = st.recursive(st.sampled_from(list(VALUES)), nested, max_leaves=6)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if kind in VALUES:
        return VALUES[kind]
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: maybe(field.type) for field in kind})
    if pa.types.is_list(kind):
        return st.lists(maybe(kind.value_type), max_size=5)
    pairs = st.tuples(values_of(kind.key_type), maybe(kind.item_type))
    return st.lists(pairs, max_size=4)


def maybe(kind: pa.DataType) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values_of(kind))


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.StructType, list[dict[str, Any]]]:
    kind = struct_of(draw(st.lists(KINDS, max_size=5)))
    return kind, draw(st.lists(values_of(kind), max_size=7))


def stored(rows: list[bytes | None]) -> pa.ChunkedArray:
    """As a log gives them: not at the beginning of what Arrow holds."""
    return pa.chunked_array([pa.array([b"before", *rows], pa.binary()).slice(1)])


@given(tables(), st.data())
def test_rows_are_what_was_encoded(table: Any, data: st.DataObject) -> None:
    kind, rows = table
    prefix = data.draw(st.integers(0, kind.num_fields))
    encoded: list[bytes | None] = [encoder.key(kind, row, prefix) for row in rows]
    assert_equal(decode_rows(stored(encoded), kind, prefix), pa.array(rows, kind))


@given(tables(), st.data())
def test_nulls_between_rows_stay(table: Any, data: st.DataObject) -> None:
    kind, rows = table
    mixed = [row if data.draw(st.booleans()) else None for row in rows]
    encoded = [None if row is None else encoder.key(kind, row, 0) for row in mixed]
    assert_equal(decode_rows(stored(encoded), kind), pa.array(mixed, kind))


def assert_equal(found: pa.ChunkedArray, due: pa.Array) -> None:
    assert found.type == due.type
    assert found.combine_chunks().equals(due) or found.to_pylist() == due.to_pylist()


@pytest.mark.parametrize("rows_at_a_time", [1, 3, 1000])
def test_rows_are_the_same_however_many_are_decoded_at_a_time(
    rows_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsafe_rows, "ROWS_AT_A_TIME", rows_at_a_time)
    kind = pa.struct([("n", pa.int64()), ("text", pa.string())])
    rows = [{"n": n, "text": None if n % 3 == 0 else "x" * (n % 5)} for n in range(40)]
    encoded = [encoder.key(kind, row, 0) for row in rows]
    found = decode_rows(pa.chunked_array([encoded[:13], encoded[13:]]), kind)
    assert found.to_pylist() == rows


@pytest.mark.parametrize("fields", [0, 1, 63, 64, 65, 130])
def test_nulls_of_many_columns(fields: int) -> None:
    kind = pa.struct([(f"c{at}", pa.int32()) for at in range(fields)])
    rows = [
        {f"c{at}": None if (at * 7 + row) % 5 == 0 else at - row for at in range(fields)}
        for row in range(9)
    ]
    found = decode_rows(stored([encoder.key(kind, row, 0) for row in rows]), kind)
    assert found.to_pylist() == rows


def test_array_with_more_nulls_than_a_word_holds() -> None:
    kind = pa.struct([("all", pa.list_(pa.field("element", pa.int16())))])
    values = [None if at % 3 else at for at in range(200)]
    rows: list[dict[str, Any]] = [{"all": values}, {"all": None}, {"all": values[:64]}]
    found = decode_rows(stored([encoder.key(kind, row, 0) for row in rows]), kind)
    assert found.to_pylist() == rows


def test_many_rows_of_longs_are_those_of_numpy() -> None:
    """Rows of one length go a way of their own."""
    numbers = np.random.default_rng(5).integers(-(2**63), 2**63 - 1, (300_000, 2))
    rows = np.zeros((len(numbers), 25), np.uint8)
    rows[:, 9:] = numbers.view(np.uint8).reshape(-1, 16)
    ends = np.arange(len(rows) + 1, dtype=np.int32) * 25
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(rows)]
    encoded = pa.chunked_array([pa.Array.from_buffers(pa.binary(), len(rows), buffers)])
    found = decode_rows(encoded, pa.struct([("a", pa.int64()), ("b", pa.int64())]))
    assert len(found.chunks) == 3
    for at, column in enumerate(found.flatten()):
        assert np.array_equal(column.to_numpy(), numbers[:, at])


# -- bytes that are no rows -------------------------------------------------------------------


@given(tables(), st.data())
def test_changed_bytes_are_refused_or_read_as_rows_of_the_schema(
    table: Any, data: st.DataObject
) -> None:
    kind, rows = table
    prefix = data.draw(st.integers(0, kind.num_fields))
    encoded = [bytearray(encoder.key(kind, row, prefix)) for row in rows]
    for row in encoded:
        for _ in range(data.draw(st.integers(0, 3))):
            row[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.integers(0, 255))
        if data.draw(st.booleans()):
            del row[data.draw(st.integers(0, len(row))) :]
    try:
        found = decode_rows(stored([bytes(row) for row in encoded]), kind, prefix)
    except BadRow:
        return
    found.validate(full=True)
    assert len(found) == len(rows)


LONG = pa.struct([("n", pa.int64())])
TEXT = pa.struct([("text", pa.string())])
LIST = pa.struct([("all", pa.list_(pa.field("element", pa.int64())))])
MAP = pa.struct([("map", pa.map_(pa.int64(), pa.int64()))])
TWO = {"map": [(1, 10), (2, 20)]}
WIDE = pa.struct([("number", pa.decimal128(38, 0))])


def patched(kind: pa.StructType, value: dict[str, Any], byte: int, data: bytes) -> bytes:
    row = bytearray(encoder.key(kind, value, 0))
    row[byte : byte + len(data)] = data
    return bytes(row)


@pytest.mark.parametrize(
    ("kind", "row", "reason"),
    [
        (LONG, b"", "nothing where a row should be"),
        (LONG, b"\0" + bytes(15), "too short for its fields"),
        (LONG, b"\1" + bytes(16), "an encoding that is not known"),
        (TEXT, patched(TEXT, {"text": "abc"}, 13, b"\x16"), "points beyond its row"),
        (TEXT, patched(TEXT, {"text": "abc"}, 16, b"\xff"), "points beyond its row"),
        (LIST, patched(LIST, {"all": [1, 2]}, 17, b"\x03"), "an array longer than its bytes"),
        (LIST, patched(LIST, {"all": [1, 2]}, 24, b"\x80"), "an impossible length"),
        (LIST, patched(LIST, {"all": [1, 2]}, 22, b"\x01"), "an impossible length"),
        (MAP, patched(MAP, TWO, 17, b"\xff"), "a map longer than its bytes"),
        (MAP, patched(MAP, TWO, 24, b"\xff"), "a map longer than its bytes"),
        (MAP, patched(MAP, TWO, 57, b"\x01"), "more keys than values"),
        (MAP, patched(MAP, TWO, 33, b"\x02"), "a null for a key"),
        (WIDE, patched(WIDE, {"number": Decimal(7)}, 9, b"\0"), "an impossible size"),
        (WIDE, patched(WIDE, {"number": Decimal(7)}, 9, b"\x11"), "points beyond its row"),
        (WIDE, patched(WIDE, {"number": Decimal(7)}, 9, b"\x10\0\0\0\x10\0\0\0\x7f"), "precision"),
    ],
)
def test_no_row_of_the_schema_is_refused_with_the_reason(
    kind: pa.StructType, row: bytes, reason: str
) -> None:
    with pytest.raises(BadRow, match=reason):
        decode_rows(stored([row]), kind)


def test_bytes_of_strings_are_read_as_they_are() -> None:
    row = patched(TEXT, {"text": "abc"}, 17, b"\xff")
    texts = decode_rows(stored([row]), TEXT).combine_chunks().field("text")
    assert texts.cast(pa.binary()).to_pylist() == [b"\xffbc"]


@pytest.mark.parametrize("rows", [[b""], [b"", b""], [b"", None]])
def test_nothing_at_all_is_no_row(rows: list[bytes | None]) -> None:
    with pytest.raises(BadRow, match="nothing where a row should be"):
        decode_rows(pa.chunked_array([pa.array(rows, pa.binary())]), LONG)


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 18, 200, 2**31 - 1])
def test_first_part_of_a_key_that_is_not_in_the_key_is_refused(size: int) -> None:
    two = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    key = encoder.key(two, {"a": 1, "b": 2}, 1)
    broken = size.to_bytes(4, "little", signed=True) + key[4:]
    after = encoder.key(two, {"a": 3, "b": 4}, 1)
    assert len(decode_rows(stored([key, after]), two, 1)) == 2
    for rows in ([broken], [key, broken, after]):
        with pytest.raises(BadRow):
            decode_rows(stored(list(rows)), two, 1)


def test_strings_of_an_array_that_are_not_in_order_are_refused() -> None:
    kind = pa.struct([("all", pa.list_(pa.field("element", pa.string())))])
    row = encoder.key(kind, {"all": ["a" * 8, "b" * 8]}, 0)
    first, second = row[33:41], row[41:49]
    swapped = row[:33] + second + first + row[49:]
    assert decode_rows(stored([row]), kind).to_pylist() == [{"all": ["a" * 8, "b" * 8]}]
    with pytest.raises(BadRow, match="not in order"):
        decode_rows(stored([swapped]), kind)
