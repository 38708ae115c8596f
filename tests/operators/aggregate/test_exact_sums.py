"""Sums of integers are exact, and their averages right to the last bit."""

import random
from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from cec_store.errors import SchemaMismatch
from cec_store.operators.aggregate import exact_sums
from cec_store.operators.aggregate.accumulators import Accumulators
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.operators.contract import Step
from support.models.reference_operators import make_rows, make_steps
from support.runs.counts import crash_count

INTEGERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(),
    pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
]  # fmt: skip
FLOATS = [pa.float32(), pa.float64()]
NUMBERS = [*INTEGERS, *FLOATS]
FUNCTIONS = ("sum", "avg", "min", "max", "count")


def aggregated(values: pa.Array, functions: Sequence[str] = FUNCTIONS) -> dict[str, object]:
    """Return the results of one window of these values."""
    schema = pa.schema({"k": pa.int64(), "v": values.type})
    places = range(len(values))
    rows = make_rows(0, schema, {"k": [1] * len(values), "v": values}, places, places)
    operator = Aggregate(
        group_by=["k"],
        aggregates={name: (name, "v") for name in functions},
        window=CountWindow(len(values)),
        input_schema=schema,
    )
    results = []
    for step in make_steps([rows], [schema], random.Random(len(values)), (0,)):
        results += operator.apply(step).rows.to_pylist()
    (result,) = results
    return result


def limits(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def samples(kind: pa.DataType) -> list[list[int]]:
    least, most = limits(kind)
    rng = random.Random(kind.bit_width)
    return [
        [most] * 2, [most] * 9, [least] * 9, [least, most] * 5, [most - 1, most], [most, 0, most],
        *([rng.randint(least, most) for _ in range(rng.randint(1, 40))] for _ in range(20)),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integers_at_their_limits_equal_those_of_duckdb(kind):
    database = duckdb.connect()
    for values in samples(kind):
        column = pa.array([*values, None], kind)
        rows = pa.table({"v": column})
        ((total, mean, least, most, count),) = (
            database.register("rows", rows)
            .execute("SELECT sum(v), avg(v), min(v), max(v), count(v) FROM rows")
            .fetchall()
        )
        is_whole = fits(kind, total)
        result = aggregated(column, FUNCTIONS if is_whole else FUNCTIONS[1:])
        expected = {"sum": total, "min": least, "max": most, "count": count}
        assert {name: result[name] for name in expected if name in result} == {
            name: value for name, value in expected.items() if is_whole or name != "sum"
        }
        # Python divides integers exactly; DuckDB divides floats, and may be one bit off.
        assert result["avg"] == total / count
        assert abs(result["avg"] - mean) <= np.spacing(abs(mean))


@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_floats_at_their_limits_equal_those_of_duckdb(kind):
    most = np.finfo(kind.to_pandas_dtype()).max.item()
    for values in ([most, -most], [most / 4] * 3, [0.0, most], [1e-30, 1.0]):
        rows = pa.table({"v": pa.array(values, kind)})
        sql = "SELECT sum(v), avg(v), min(v), max(v) FROM rows"
        (expected,) = duckdb.connect().register("rows", rows).execute(sql).fetchall()
        result = aggregated(rows["v"].combine_chunks())
        assert [result[name] for name in ("sum", "avg", "min", "max")] == pytest.approx(expected)


def drawn(kind: pa.DataType, rows: int, rng: random.Random) -> list[float | None]:
    """Return values at the limits of a type, near to them, and of a drawn size; some are null."""
    nulls = rng.choice([0, 0, 0.2])
    if kind in FLOATS:
        most = np.finfo(kind.to_pandas_dtype()).max.item() / (4 * rows)
        choices = [most, -most, 0.0, -0.0, 1.0]
    else:
        least, most = limits(kind)
        scale = rng.randint(0, kind.bit_width)
        choices = [least, most, 0, least >> scale, most >> scale]
    return [None if rng.random() < nulls else rng.choice(choices) for _ in range(rows)]


def results_of(
    table: pa.Table, aggregates: dict[str, tuple[str, str]], rows: int, seed: int
) -> dict[int, dict[str, object]]:
    """Return the results of windows of so many rows, by key; the input comes in random cuts."""
    places = range(table.num_rows)
    columns = {name: table[name].combine_chunks() for name in table.schema.names}
    operator = Aggregate(
        group_by=["k"],
        aggregates=aggregates,
        window=CountWindow(rows),
        input_schema=table.schema,
    )
    made = make_rows(0, table.schema, columns, places, places)
    results = {}
    for step in make_steps([made], [table.schema], random.Random(seed), (0,)):
        results |= {row["k"]: row for row in operator.apply(step).rows.to_pylist()}
    return results


@pytest.mark.crash
def test_windows_of_all_numbers_equal_those_of_duckdb():
    compared = 0
    for seed in range(crash_count(10, 1_000)):
        rng = random.Random(seed)
        rows, keys = rng.randint(1, 40), rng.randint(1, 30)
        columns = {str(kind): pa.array(drawn(kind, rows * keys, rng), kind) for kind in NUMBERS}
        order = [key for key in range(keys) for _ in range(rows)]
        rng.shuffle(order)
        table = pa.table({"k": pa.array(order, pa.int64()), **columns})
        names = [f"{name}_{kind}" for kind in columns for name in FUNCTIONS]
        terms = [f"{name}({kind})" for kind in columns for name in FUNCTIONS]
        places = {name: place for place, name in enumerate(names, 1)}
        sql = f"SELECT k, {', '.join(terms)} FROM rows GROUP BY k"
        expected = duckdb.connect().register("rows", table).execute(sql).fetchall()
        leaving = {f"sum_{kind}" for kind in INTEGERS for row in expected
                   if not fits(kind, row[places[f"sum_{kind}"]])}  # fmt: skip
        aggregates = {
            f"{name}_{kind}": (name, kind)
            for kind in columns for name in FUNCTIONS if f"{name}_{kind}" not in leaving
        }  # fmt: skip
        results = results_of(table, aggregates, rows, seed)
        assert len(results) == keys
        for row in expected:
            for name in aggregates:
                value, other = results[row[0]][name], row[places[name]]
                is_rounded = name.startswith("avg") or name in ("sum_float", "sum_double")
                assert value == (pytest.approx(other) if is_rounded else other), (seed, name)
                compared += 1
    print(f"{compared} results compared")
    assert compared > 1_000


def fits(kind: pa.DataType, total: int | None) -> bool:
    """Return True if a sum is within the type of sums of this type."""
    limits = np.iinfo(np.uint64 if kind == pa.uint64() else np.int64)
    return total is None or limits.min <= total <= limits.max


def test_sums_can_be_summed_again():
    schema = pa.schema([(str(kind), kind) for kind in INTEGERS])
    sums = Accumulators({name: ("sum", name) for name in schema.names}, schema)
    found = {field.name: field.type for field in sums.output_fields}
    assert {name for name, kind in found.items() if kind != pa.int64()} == {"uint64"}
    of_sums = Accumulators(
        {name: ("sum", name) for name in schema.names}, pa.schema(sums.output_fields)
    )
    assert of_sums.output_fields == sums.output_fields


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [2**63 - 1, 1]),
        (pa.int64(), [-(2**63), -1]),
        (pa.uint64(), [2**64 - 1, 1]),
    ],
    ids=str,
)
def test_a_sum_that_leaves_its_type_is_refused_by_name(kind, values):
    with pytest.raises(SchemaMismatch, match=f"sum of column 'v' leaves {kind}; take its average"):
        aggregated(pa.array(values, kind))


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()], ids=str)
def test_a_sum_may_leave_its_type_on_the_way(kind):
    most = 2**63 - 1 if kind == pa.int64() else 2**64 - 1
    values = [most, most, -most, -most, 5] if kind == pa.int64() else [most, 0]
    assert aggregated(pa.array(values, kind))["sum"] == sum(values)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_sums_are_those_of_python_and_come_back_from_their_words(dtype):
    rng = random.Random(1)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    for _ in range(500):
        windows = rng.randint(1, 4)
        at = [rng.randrange(windows) for _ in range(rng.randint(1, 12))]
        bits = rng.randint(1, 64)
        draws = [rng.choice([-1, 1]) * rng.getrandbits(bits) for _ in at]
        values = [rng.choice([min(max(draw, low), high), low, high]) for draw in draws]
        sums, adder = np.zeros(windows, exact_sums.EXACT), exact_sums.Adder()
        cut = rng.randrange(len(at))
        for part in (slice(cut), slice(cut, None)):
            adder.add(sums, np.array(at[part], np.int64), np.array(values[part], dtype))
        expected = [0] * windows
        for place, value in zip(at, values, strict=True):
            expected[place] += value
        words = exact_sums.to_words(exact_sums.from_words(exact_sums.to_words(sums)))
        found = [(int(h) << 64) + (int(f) & 2**64 - 1) for f, h in zip(*words, strict=True)]
        assert found == expected


def test_averages_are_rounded_once():
    rng = random.Random(2)
    totals, counts = [], []
    for _ in range(20_000):
        count = rng.randint(1, 2 ** rng.randint(1, 41) - 1)
        mean = rng.randint(-(2**63), 2**64 - 1) >> rng.randint(0, 60)
        total = mean * count + rng.randint(0, count - 1)
        if rng.random() < 0.3:  # halfway between two floats
            total = (2 ** rng.randint(53, 60) + rng.choice([1, 3])) * count // 2
        totals.append(total)
        counts.append(count)
    low = np.array([total & 2**64 - 1 for total in totals], np.uint64).view(np.int64)
    high = np.array([total >> 64 for total in totals], np.int64)
    means = exact_sums.averages(exact_sums.from_words([low, high]), np.array(counts))
    assert means.tolist() == [total / count for total, count in zip(totals, counts, strict=True)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.date32(), 2**31 - 1),
        (pa.date64(), 2**62),
        (pa.timestamp("s"), -(2**62)),
        (pa.timestamp("ms"), 2**62),
        (pa.uint64(), 2**63),
    ],
    ids=str,
)
def test_an_event_time_outside_64_bits_of_microseconds_is_refused(kind, value):
    raw = pa.int32() if kind == pa.date32() else pa.uint64() if value > 2**62 else pa.int64()
    column = pa.array([value], raw).view(kind)
    schema = pa.schema({"at": kind})
    operator = Aggregate(
        group_by=[],
        aggregates={"rows": ("count",)},
        window=TimeWindow(10),
        input_schema=schema,
        event_time="at",
    )
    batch = pa.record_batch([column], schema=schema)
    one = np.zeros(1, np.int64)
    step = Step((batch,), np.zeros(1, np.int8), one[:, None] + 1, one)
    with pytest.raises(SchemaMismatch, match="event time 'at': a time outside 64 bits"):
        operator.apply(step)
