"""Keys of a column family are decoded in every layout and encoding; those in order, too."""

import json
import struct
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastavro")

from cec_store import SchemaMismatch
from cec_store.connectors.spark.checkpoint.family_rows import FamilyRows, elements_of
from cec_store.connectors.spark.checkpoint.unsafe_rows import BadRow
from cec_store.connectors.spark.checkpoint.variable_rows import rows_by_name
from cec_store.connectors.spark.checkpoint.variables import Variable
from cec_store.state_logs.state_log import StateLog
from support.models import avro_row_encoder, unsafe_row_encoder
from support.models.ordered_field_encoder import FORMATS, marked
from support.places.state_folders import STATE_CASES, log_in
from support.vectors import variables
from support.vectors.make import FOLDER

ENCODERS = {False: unsafe_row_encoder, True: avro_row_encoder}
NUMBERS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **{
        kind: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        for kind, bits in ((pa.int8(), 8), (pa.int16(), 16), (pa.int32(), 32), (pa.int64(), 64))
    },
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.float64(): st.floats(allow_nan=False),
}
VALUES = {**NUMBERS, pa.string(): st.text(max_size=9)}
in_both = pytest.mark.parametrize("in_avro", [False, True], ids=["plain", "avro"])


def variable_of(key: pa.StructType, *, in_avro: bool, **more: Any) -> Variable:
    prefix, ordered = more.get("prefix", 0), more.get("ordered", ())
    forms = {0: key} if in_avro else None
    return Variable("schema", "v", key, key, prefix, is_list=False, forms=forms, ordered=ordered)


def chunked(keys: list[bytes]) -> pa.ChunkedArray:
    return pa.chunked_array([keys], pa.binary())


@in_both
@given(data=st.data())
def test_keys_come_back_whichever_fields_are_in_order(in_avro: bool, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=5))
    key = pa.struct([(f"f{number}", kind) for number, kind in enumerate(kinds)])
    may_be = [number for number, kind in enumerate(kinds) if kind in NUMBERS]
    ordered = tuple(data.draw(st.permutations(may_be)))[: data.draw(st.integers(0, len(may_be)))]
    row = st.fixed_dictionaries({f.name: st.none() | VALUES[f.type] for f in key})
    rows = data.draw(st.lists(row, max_size=6))
    encoder = ENCODERS[in_avro]
    encode = (
        partial(encoder.ordered_key, ordered=ordered) if ordered else partial(encoder.key, prefix=0)
    )
    stored = chunked([encode(key, each) for each in rows])
    variable = variable_of(key, in_avro=in_avro, ordered=ordered)
    assert FamilyRows(variable).keys(stored).combine_chunks().equals(pa.array(rows, key))


@given(st.sampled_from(list(NUMBERS)), st.data())
def test_what_the_model_writes_sorts_as_numbers_do(kind: pa.DataType, data: st.DataObject) -> None:
    """Otherwise the reader would be held against another format than Spark's."""
    numbers = data.draw(st.lists(NUMBERS[kind], max_size=9))
    assert sorted(numbers) == sorted(numbers, key=lambda number: b"".join(marked(kind, number)))


KEY = pa.struct([("at", pa.int64()), ("user", pa.string())])
ROW = {"at": -5, "user": "ann"}


def keys_of(*keys: bytes, in_avro: bool, key: pa.StructType = KEY) -> list[Any]:
    variable = variable_of(key, in_avro=in_avro, ordered=(0,))
    return FamilyRows(variable).keys(chunked(list(keys))).to_pylist()  # type: ignore[no-any-return]


@in_both
def test_a_key_in_order_that_is_none_is_refused(in_avro: bool) -> None:
    whole = ENCODERS[in_avro].ordered_key(KEY, ROW, (0,))
    marker, number = marked(pa.int64(), -5)
    assert whole.count(number) == 1
    at = whole.index(number)
    assert keys_of(whole, in_avro=in_avro) == [ROW]
    place = whole.rindex(marker, 0, at)
    above = whole[:place] + b"\1" + whole[place + 1 :]
    unknown = whole[:place] + b"\3" + whole[place + 1 :]
    for wrong, reason in (
        (above, "a marker that does not go with the number"),
        (unknown, "a marker that does not go with the number"),
        (struct.pack("<i", len(whole)) + whole[4:], "a first part longer than its key"),
    ):
        with pytest.raises(BadRow, match=reason):
            keys_of(whole, wrong, in_avro=in_avro)
    for size in range(whole.index(b"ann") + 3):  # a plain row may lack the zeros behind its text
        with pytest.raises(BadRow):
            keys_of(whole[:size], in_avro=in_avro)


@in_both
def test_bytes_behind_a_key_with_all_fields_in_order_are_refused(in_avro: bool) -> None:
    kind = pa.struct([KEY.field(0)])
    whole = ENCODERS[in_avro].ordered_key(kind, ROW, (0,))
    assert keys_of(whole, in_avro=in_avro, key=kind) == [{"at": -5}]
    with pytest.raises(BadRow, match="of which all fields are in order"):
        keys_of(whole + b"\0", in_avro=in_avro, key=kind)


@in_both
def test_a_type_that_spark_keeps_in_no_order_is_named(in_avro: bool) -> None:
    kind = pa.struct([("text", pa.string())])
    whole = ENCODERS[in_avro].ordered_key(pa.struct([("text", pa.int64())]), {"text": 1}, (0,))
    with pytest.raises(SchemaMismatch, match="schema: string is not supported in a key"):
        keys_of(whole, in_avro=in_avro, key=kind)


@in_both
@given(key=st.binary(max_size=60), first=st.integers(0, 40))
def test_any_bytes_are_a_key_or_are_refused(in_avro: bool, key: bytes, first: int) -> None:
    with suppress(BadRow):
        assert len(keys_of(struct.pack("<i", first) + key, in_avro=in_avro)) == 1


def test_values_are_as_they_were_written_and_in_the_newest_form() -> None:
    forms = {
        0: pa.struct([("n", pa.int32())]),
        3: pa.struct([("text", pa.string()), ("n", pa.int64())]),
    }
    variable = Variable("schema", "v", KEY, forms[3], 0, is_list=False, forms=forms)
    rows = [(3, {"text": "x", "n": 2**40}), None, (0, {"n": 1}), (3, {"text": None, "n": 2})]
    stored = pa.array([row and avro_row_encoder.value(forms[row[0]], *row) for row in rows])
    decoded = FamilyRows(variable).values_as_written(stored)
    assert [(at.tolist(), part.to_pylist()) for at, part in decoded] == [
        ([2], [{"n": 1}]),
        ([0, 3], [{"text": "x", "n": 2**40}, {"text": None, "n": 2}]),
    ]
    newest = FamilyRows(variable).values(pa.chunked_array([stored]))
    assert newest.to_pylist() == [rows[0][1], None, {"text": None, "n": 1}, rows[3][1]]
    with pytest.raises(BadRow, match="schema 7, which no schema file"):
        FamilyRows(variable).values_as_written(pa.array([b"\0\7\0\2\2"]))


@given(st.lists(st.lists(st.binary(max_size=9), max_size=5), max_size=5))
def test_lists_are_cut_into_their_values(lists: list[list[bytes]]) -> None:
    joined = [
        b",".join(struct.pack("<I", len(value)) + value for value in values) for values in lists
    ]
    numbers, elements = elements_of(pa.array(joined, pa.binary()))
    due = [(number, value) for number, values in enumerate(lists) for value in values]
    assert [*zip(numbers.tolist(), elements.to_pylist(), strict=True)] == due


def decoded(family: str, stored: pa.Table) -> list[list[Any]]:
    """Keys and values of a family in the newest form; of a list all its values, in their order."""
    rows = FamilyRows(variables.FAMILIES[family])
    values: list[Any]
    keys = rows.keys(stored["key"]).to_pylist()
    if not rows.variable.is_list:
        values = rows.values(stored["value"]).to_pylist()
    else:
        numbers, elements = elements_of(stored["value"].combine_chunks())
        all_values = rows.values(pa.chunked_array([elements])).to_pylist()
        values = [[] for _ in keys]
        for number, value in zip(numbers.tolist(), all_values, strict=True):
            values[number].append(value)
    return [list(pair) for pair in zip(keys, values, strict=True)]


def test_python_reads_the_golden_variables() -> None:
    (case,) = [case for case in STATE_CASES if case["name"] == variables.NAME]
    log = StateLog(log_in(FOLDER / variables.NAME))
    assert [version["version"] for version in case["expect"]["versions"]] == [1, 2, 3]
    for version in case["expect"]["versions"]:
        found = log.rebuild(version["version"])
        (family, key), (value, _) = found.keys.flatten(), found.states.flatten()
        named = rows_by_name(pa.table({"family": family, "key": key, "value": value}), "log")
        told = {
            name: decoded(name, named.filter(pc.equal(named["family"], name)))
            for name in variables.FAMILIES
        }
        plain = json.loads(json.dumps(told, default=str))
        assert {name: sorted(rows, key=repr) for name, rows in plain.items()} == {
            name: sorted(rows, key=repr) for name, rows in version["rows"].items()
        }, version["version"]


assert FORMATS.keys() == NUMBERS.keys()
