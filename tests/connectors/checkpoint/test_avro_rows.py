"""Rows that Spark keeps in Avro become Arrow columns, whatever form they were written in."""

import string
import sys
from contextlib import suppress
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastavro")

from cec_store import SchemaMismatch
from cec_store.connectors.spark.checkpoint.avro_rows import AvroRows
from cec_store.connectors.spark.checkpoint.family_rows import FamilyRows
from cec_store.connectors.spark.checkpoint.unsafe_rows import BadRow
from cec_store.connectors.spark.checkpoint.variables import Variable
from cec_store.errors import SparkUnavailable
from support.models import avro_row_encoder as encoder

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.null(): st.none(),
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): INT32,
    pa.int64(): INT64,
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=20),
    pa.binary(): st.binary(max_size=20),
    pa.date32(): INT32,
    pa.timestamp("us", "UTC"): INT64,
    pa.timestamp("us"): INT64,
}
for digits, behind in ((1, 0), (9, 2), (18, 6), (19, 4), (38, 0), (38, 38)):
    limit = 10**digits - 1
    VALUES[pa.decimal128(digits, behind)] = st.integers(-limit, limit).map(
        lambda number, scale=-behind: Decimal(number).scaleb(scale, Context(prec=38))
    )
# The types that a field may get next, and what becomes of a value there.
WIDENED = {
    pa.int8(): [pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()],
    pa.int16(): [pa.int8(), pa.int32(), pa.int64(), pa.float64()],
    pa.int32(): [pa.int16(), pa.int64(), pa.float64()],
    pa.date32(): [pa.int32(), pa.int64()],
    pa.int64(): [pa.float64(), pa.timestamp("us")],
    pa.float32(): [pa.float64()],
    pa.string(): [pa.binary()],
}
BITS = {pa.int8(): 8, pa.int16(): 16}


def struct_of(kinds: list[pa.DataType]) -> pa.StructType:
    names = [*string.ascii_lowercase, "größe", "a b", "$x", "A"]
    return pa.struct([(names[-1 - at], kind) for at, kind in enumerate(kinds)])


def nested(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(kinds, max_size=4).map(struct_of)
    lists = kinds.filter(lambda kind: not pa.types.is_null(kind)).map(
        lambda kind: pa.list_(pa.field("element", kind))
    )
    return st.one_of(structs, lists, kinds.map(lambda kind: pa.map_(pa.string(), kind)))


KINDS = st.recursive(st.sampled_from(list(VALUES)), nested, max_leaves=6)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if kind in VALUES:
        return VALUES[kind]
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: maybe(field.type) for field in kind})
    if pa.types.is_list(kind):
        return st.lists(part_of(kind.value_type), max_size=5)
    return st.dictionaries(st.text(max_size=5), part_of(kind.item_type), max_size=4).map(
        lambda pairs: list(pairs.items())
    )


def maybe(kind: pa.DataType) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values_of(kind))


def part_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    return maybe(kind) if pa.types.is_nested(kind) else values_of(kind)


def rows_of(kind: pa.StructType) -> st.SearchStrategy[list[Any]]:
    return st.lists(values_of(kind), max_size=6)


@given(st.data())
def test_rows_come_back_as_they_were_written(data: st.DataObject) -> None:
    kind = struct_of(data.draw(st.lists(KINDS, max_size=5)))
    rows = data.draw(st.lists(st.one_of(st.none(), values_of(kind)), max_size=6))
    number = data.draw(st.integers(0, 2**15 - 1))
    stored = [None if row is None else encoder.value(kind, number, row) for row in rows]
    decoded = AvroRows(kind, {number: kind}, "schema").decode(stored)
    assert decoded.equals(pa.array(rows, kind))


@given(st.data())
def test_keys_come_back_in_one_part_or_in_two(data: st.DataObject) -> None:
    kind = struct_of(data.draw(st.lists(KINDS, min_size=1, max_size=4)))
    prefix = data.draw(st.integers(0, kind.num_fields))
    rows = data.draw(rows_of(kind))
    stored = pa.chunked_array([[encoder.key(kind, row, prefix) for row in rows]], pa.binary())
    variable = Variable("schema", "v", kind, kind, prefix, is_list=False, forms={0: kind})
    decoded = FamilyRows(variable).keys(stored).combine_chunks()
    assert decoded.equals(pa.array(rows, kind))


def other_form(draw: Any, kind: pa.StructType) -> pa.StructType:
    """Fields that are gone, wider, new, and in another order; of structs within it as well."""
    kept = [field for field in kind if draw(st.booleans())]
    fields = [pa.field(field.name, _next_type(draw, field.type)) for field in kept]
    fields += [pa.field(f"new {at}", draw(KINDS)) for at in range(draw(st.integers(0, 2)))]
    return pa.struct(draw(st.permutations(fields)))


def _next_type(draw: Any, kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return other_form(draw, kind)
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _next_type(draw, kind.value_type)))
    return draw(st.sampled_from([kind, *WIDENED.get(kind, [])]))


def as_read(value: Any, kind: pa.DataType, asked: pa.DataType) -> Any:
    """The plain model: what a value of one type is in the other."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        kinds = {field.name: field.type for field in kind}
        return {
            field.name: as_read(value[field.name], kinds[field.name], field.type)
            if field.name in kinds
            else None
            for field in asked
        }
    if pa.types.is_list(kind):
        return [as_read(part, kind.value_type, asked.value_type) for part in value]
    if kind == pa.string() and asked == pa.binary():
        return value.encode()
    if asked in BITS:  # as Java cuts an int
        return int.from_bytes(
            (value % 2**64).to_bytes(8, "little")[: BITS[asked] // 8], "little", signed=True
        )
    if pa.types.is_floating(asked):
        return float(value)
    return value


@given(st.data())
def test_rows_of_older_forms_are_read_into_the_newest(data: st.DataObject) -> None:
    forms = [struct_of(data.draw(st.lists(KINDS, max_size=4)))]
    forms.append(other_form(data.draw, forms[0]))
    numbered = [(number, row) for number in (0, 1) for row in data.draw(rows_of(forms[number]))]
    stored = [encoder.value(forms[number], number, row) for number, row in numbered]
    rows = AvroRows(forms[1], dict(enumerate(forms)), "schema").decode(stored)
    due = [as_read(row, forms[number], forms[1]) for number, row in numbered]
    assert rows.equals(pa.array(due, forms[1]))


KIND = pa.struct([("n", pa.int64()), ("text", pa.string())])
ROW = encoder.value(KIND, 0, {"n": 300, "text": "abc"})


def decoded(*rows: bytes) -> pa.StructArray:
    return AvroRows(KIND, {0: KIND}, "schema").decode(rows)


@pytest.mark.parametrize("size", range(len(ROW)))
def test_a_row_that_ends_early_is_refused(size: int) -> None:
    with pytest.raises(BadRow):
        decoded(ROW[:size])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (ROW + b"\0", "1 bytes behind"),
        (b"\1" + ROW[1:], "encoding that is not known"),
        (b"\0\1\0" + ROW[3:], "schema 1, which no schema file"),
        (b"\0\0\0\6" + ROW[4:], "not a row in Avro"),
        (ROW[:-3] + b"\xff\xfe\xfd", "not a row in Avro"),
    ],
    ids=["longer", "another version", "another schema", "another branch", "no text"],
)
def test_bytes_that_are_no_row_are_refused(row: bytes, reason: str) -> None:
    assert decoded(ROW).to_pylist() == [{"n": 300, "text": "abc"}]
    with pytest.raises(BadRow, match=reason):
        decoded(ROW, row)


@given(st.binary(max_size=40))
def test_any_bytes_are_decoded_or_refused(row: bytes) -> None:
    kind = pa.struct([("l", pa.list_(pa.string())), ("d", pa.decimal128(5, 2)), ("k", KIND)])
    with suppress(BadRow):
        assert len(AvroRows(kind, {0: kind}, "schema").decode([b"\0\0\0" + row])) == 1


@pytest.mark.parametrize(
    "kind",
    [
        pa.duration("us"), pa.month_day_nano_interval(), pa.list_(pa.null()),
        pa.map_(pa.int32(), pa.string()),
    ],
    ids=str,
)  # fmt: skip
def test_types_that_spark_keeps_not_in_avro_are_named(kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch, match=r"a/schema: .* is not supported"):
        AvroRows(pa.struct([("a", kind)]), {}, "a/schema")


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(SparkUnavailable, match=r"pip install 'cec-store\[avro\]'"):
        decoded(ROW)
