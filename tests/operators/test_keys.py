"""Keys of any type have dense codes, the same from batch to batch, until they are trimmed."""

import datetime
import decimal
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cec_store import open_queue
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema
from cec_store.operators.keys.dictionary import Dictionary
from cec_store.operators.keys.encoder import DEAD_MIN, KeyEncoder
from cec_store.operators.keys.words import WordTable
from support.models.reference_operators import group_value

NAN = float("nan")
DAY = datetime.date(1970, 1, 1)
NOON = datetime.datetime(2013, 1, 1, 12)
VALUES = {
    pa.bool_(): [True, False],
    pa.int8(): [-1, 0, 127],
    pa.int64(): [-(2**63), -1, 0, 2**63 - 1],
    pa.uint16(): [0, 65_535],
    pa.uint64(): [0, 2**64 - 1],
    pa.float32(): [0.0, -0.0, 1.5, NAN],
    pa.float64(): [0.0, -0.0, 0.1, -0.1, NAN, float("inf")],
    pa.date32(): [DAY, DAY - datetime.timedelta(1)],
    pa.date64(): [DAY, DAY + datetime.timedelta(1)],
    pa.time32("s"): [datetime.time(1), datetime.time(2)],
    pa.timestamp("us", "UTC"): [NOON.replace(tzinfo=datetime.timezone.utc)],
    pa.timestamp("s"): [NOON, NOON - datetime.timedelta(1)],
    pa.duration("ms"): [datetime.timedelta(1), -datetime.timedelta(1)],
    pa.decimal32(9, 2): [decimal.Decimal("1.20"), decimal.Decimal("-2.50")],
    pa.decimal64(18, 2): [decimal.Decimal("1.20"), decimal.Decimal("-2.50")],
    pa.decimal128(20, 2): [decimal.Decimal("1.00"), decimal.Decimal("-1.00")],
    pa.decimal256(50, 0): [decimal.Decimal(10**45), decimal.Decimal(10**45 + 1)],
    pa.binary(3): [b"abc", b"abd", b"\0\0\0"],
    pa.binary(11): [b"abcdefghijk", b"abcdefghijl"],
    pa.string(): ["", "a", "b", "a\0", "\0a", "x" * 100],
    pa.large_string(): ["", "ä", "b"],
    pa.binary(): [b"", b"\0", b"\0\0", b"\xff"],
    pa.string_view(): ["", "a", "b" * 20],
}


def check(encoder: KeyEncoder, codes_of: dict, columns: list[pa.Array]) -> None:
    """Encode, and hold the codes against a dict."""
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
    keys = [tuple(map(group_value, row)) for row in rows]
    known = [codes_of.get(key, -1) for key in keys]
    assert encoder.lookup(columns).tolist() == known
    codes = encoder.encode(columns).tolist()
    for key, code in zip(keys, codes, strict=True):
        assert codes_of.setdefault(key, code) == code
    assert len(set(codes_of.values())) == len(codes_of) == encoder.size
    assert all(0 <= code < encoder.bound for code in codes)
    back = encoder.keys(np.array(codes, np.int64))
    back.validate(full=True)
    found = [tuple(map(group_value, key.values())) for key in back.to_pylist()]
    assert found == keys


@pytest.mark.parametrize("data_type", list(VALUES), ids=str)
def test_every_type_comes_back(data_type):
    encoder, codes_of = KeyEncoder(pa.schema({"k": data_type})), {}
    values = VALUES[data_type]
    column = pa.array([*values, *values, None, values[0], None], data_type)
    check(encoder, codes_of, [column[:1]])  # before the first null
    check(encoder, codes_of, [column])
    check(encoder, codes_of, [column[2:]])
    check(encoder, codes_of, [column[:0]])
    check(encoder, codes_of, [pa.nulls(3, data_type)])
    distinct = {group_value(value) for value in [*values, None]}
    assert encoder.size == len(distinct)


@given(st.integers(0, 2**32))
def test_codes_are_those_of_a_dict_while_keys_come_and_go(seed):
    rng = random.Random(seed)
    types = rng.sample(list(VALUES), rng.choice([1, 2, 3]))
    encoder, codes_of = KeyEncoder(pa.schema({str(n): t for n, t in enumerate(types)})), {}
    for _ in range(8):
        row_count = rng.choice([0, 1, 30])
        picks = [[rng.choice([None, *VALUES[t]]) for _ in range(row_count)] for t in types]
        check(encoder, codes_of, [pa.array(p, t) for p, t in zip(picks, types, strict=True)])
        if rng.random() < 0.3:
            kept = {key: code for key, code in codes_of.items() if rng.random() < 0.5}
            encoder.trim(np.array(sorted(kept.values()), np.int64))
            codes_of = kept


@pytest.mark.parametrize("make", [int, "{:06d}".format], ids=["int", "string"])
def test_memory_follows_the_live_keys(make):
    encoder, codes_of = KeyEncoder(pa.schema({"k": pa.array([make(0)]).type})), {}
    for first in range(0, 100_000, 5_000):
        check(encoder, codes_of, [pa.array([make(n) for n in range(first, first + 6_000)])])
        codes_of = dict(list(codes_of.items())[-1_000:])
        assert encoder.wants_trim(len(codes_of))
        encoder.trim(np.array(sorted(codes_of.values()), np.int64))
    assert not encoder.wants_trim(len(codes_of))
    assert encoder.bound < 7_000 + 1_000
    dictionary = encoder._dictionaries[0]
    assert dictionary is None or len(dictionary) <= 2 * DEAD_MIN


def test_values_with_one_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(Dictionary, "_hashes", lambda self, values: np.zeros(len(values), np.int64))
    encoder, codes_of = KeyEncoder(pa.schema({"k": pa.string()})), {}
    for first in range(0, 30, 7):
        values = [f"value {n}" for n in range(first, first + 12)]
        check(encoder, codes_of, [pa.array([*values, None, *reversed(values)])])


def test_keys_with_one_home_are_told_apart(monkeypatch):
    monkeypatch.setattr(
        WordTable, "_home", lambda self, words: np.full(len(words[0]), 1020, np.int64)
    )
    encoder, codes_of = KeyEncoder(pa.schema({"k": pa.int64(), "j": pa.int64()})), {}
    for first in range(0, 60, 7):
        values = pa.array([*range(first, first + 12), None, *range(first)])
        check(encoder, codes_of, [values, pa.array([n % 3 for n in range(len(values))])])
    codes = np.array(sorted(codes_of.values())[::2], np.int64)
    encoder.trim(codes)
    check(encoder, {key: c for key, c in codes_of.items() if c in set(codes)}, [values, values])


@pytest.mark.parametrize("size", [2, 4, 8])
def test_all_nans_are_one_key_and_both_zeros_are(size):
    ones = np.array([-1, -2], f"i{size}").view(f"f{size}")  # two NaNs of different bits
    values = np.array([*ones, 0.0, -0.0, np.nan], f"f{size}")
    values[:2] = ones
    column = pa.array(values)
    assert np.isnan(values).sum() == 3
    encoder = KeyEncoder(pa.schema({"k": column.type}))
    a, b, c, d, e = encoder.encode([column]).tolist()
    assert a == b == e != c == d
    assert [key["k"] for key in encoder.keys(np.array([c])).to_pylist()] == [0.0]


@pytest.mark.parametrize("data_type", VALUES, ids=str)
def test_an_operator_with_such_keys_starts_twice(tmp_path: Path, data_type: pa.DataType) -> None:
    keys = pa.array([*VALUES[data_type], None], data_type)
    times = pa.array(range(len(keys)), pa.timestamp("us"))
    rows = pa.table({"k": keys, "at": times})
    for start in (1, 2):
        operator = Aggregate(
            group_by=["k"],
            aggregates={"rows": ("count",)},
            window=CountWindow(5),
            input_schema=rows.schema,
        )
        schema = record_schema(operator)
        with open_queue(tmp_path / "q", "a" if start == 2 else "x", schema=schema) as queue:
            runner = Runner(operator, [ArrowSource(rows, "at")], queue)
            runner.run()
            assert queue.extent().open_windows == len(set(map(group_value, keys.to_pylist())))


def test_a_dictionary_column_is_keyed_by_its_values():
    column = pa.array(["b", "a", "b"]).dictionary_encode()
    encoder = KeyEncoder(pa.schema({"k": column.type}))
    assert encoder.schema == pa.schema({"k": pa.string()})
    assert encoder.encode([column]).tolist() == encoder.lookup([pa.array(["b", "a", "b"])]).tolist()


@pytest.mark.parametrize(
    "data_type", [pa.list_(pa.int8()), pa.null(), pa.struct([("a", "i1")]), pa.binary(0)]
)
def test_a_type_that_cannot_be_a_key_is_refused(data_type):
    with pytest.raises(ValueError, match="cannot group by a column of type"):
        KeyEncoder(pa.schema({"k": data_type}))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 66, 128, 129, 200])
def test_any_number_of_columns_may_hold_nulls(count: int) -> None:
    types = [(pa.int64(), pa.string(), pa.decimal128(30, 0))[place % 3] for place in range(count)]
    zeros = [0 if place % 3 == 0 else "" if place % 3 == 1 else 0 for place in range(count)]
    # All zero; all null; and for each column a row with a null there alone.
    rows = [zeros, [None] * count]
    rows += [[None if at == place else z for at, z in enumerate(zeros)] for place in range(count)]
    columns = [
        pa.array([row[place] for row in rows], data_type) for place, data_type in enumerate(types)
    ]
    names = [f"c{place}" for place in range(count)]
    encoder, codes_of = KeyEncoder(pa.schema(zip(names, types, strict=True))), {}
    check(encoder, codes_of, [column.slice(0, 1) for column in columns])  # no null so far
    check(encoder, codes_of, columns)
    assert len(codes_of) == len(set(map(tuple, rows))) == (2 if count == 1 else count + 2)
    encoder.trim(np.sort(encoder.lookup([column.slice(2) for column in columns])))
    assert encoder.size == (1 if count == 1 else count)
