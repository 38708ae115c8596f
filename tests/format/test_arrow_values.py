"""One rule for writers and readers: what a column may hold."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cec_store import SchemaMismatch, open_queue, read_queue
from cec_store.format import arrow_values
from cec_store.format.arrow_values import as_stored, check_column, readable, stored_field
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.contract import Operator
from cec_store.operators.inputs.sources import ArrowSource
from cec_store.operators.join.join import WindowJoin
from cec_store.operators.join.resample import Resample
from cec_store.operators.ordering.sort import BSort
from cec_store.operators.runner import Runner, record_schema
from cec_store.operators.stateless import Filter, Map, Union
from cec_store.terminal.formats import Format, write_batches

LATIN_1 = b"caf\xe9"
WHOLE_DAY_US = 86_400_000_000


def strings(*texts: bytes | None, kind: pa.DataType | None = None) -> pa.Array:
    """Strings of any bytes."""
    stored = pa.array(texts, pa.binary())
    if kind == pa.large_string():
        stored = stored.cast(pa.large_binary())
    if kind == pa.string_view():
        return pa.array(texts, pa.binary_view()).view(kind)
    return stored.view(kind or pa.string())


def as_bytes(column: pa.Array | pa.ChunkedArray) -> list[bytes | None]:
    return column.cast(pa.large_binary()).to_pylist()


def numbers_as(kind: pa.DataType, *numbers: int) -> pa.Array:
    """Numbers as values of a type that may have none for them."""
    width = kind.bit_width // 8
    data = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(data)])


BAD = {
    "time32": (numbers_as(pa.time32("s"), 0, 86_399, 86_400), 2),
    "time64": (numbers_as(pa.time64("us"), 0, -1, WHOLE_DAY_US), 1),
    "date64": (numbers_as(pa.date64(), 86_400_000, 0, 1), 2),
    "decimal128": (numbers_as(pa.decimal128(3, 0), 999, 1000, 0), 1),
    "decimal256": (numbers_as(pa.decimal256(3, 0), -1000, 999, 0), 0),
    "list": (
        pa.ListArray.from_arrays([0, 1, 1, 3], numbers_as(pa.time64("ns"), 0, 0, -1)), 2,
    ),
    "struct": (
        pa.StructArray.from_arrays([numbers_as(pa.date64(), 0, 0, 1)], ["day"]), 2,
    ),
    "map": (
        pa.MapArray.from_arrays(
            [0, 0, 1, 2], pa.array(["a", "b"]), numbers_as(pa.decimal128(1, 0), 9, 10)
        ), 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("options", [{}, {"partitions": 2}], ids=["plain", "partitioned"])
def test_values_that_readers_refuse_are_not_written(
    tmp_path: Path, name: str, options: dict[str, int]
) -> None:
    column, row = BAD[name]
    table = pa.table({"n": pa.array([1, 2, 3]), "v": column})
    with open_queue(tmp_path / "q", "a", schema=table.schema, **options) as queue:
        queue.append(table.slice(0, 0))
        with pytest.raises(SchemaMismatch, match=rf"column 'v', row {row}: "):
            queue.append(table)
        queue.append(pa.concat_tables([table.slice(0, row), table.slice(row + 1)][:1]))
    found = read_queue(tmp_path / "q").read_all()
    assert found.column("n").to_pylist() == [1, 2, 3][:row]


def test_the_row_is_counted_over_the_batches_of_a_table(tmp_path: Path) -> None:
    good = pa.table({"v": numbers_as(pa.date64(), 0, 0)})
    bad = pa.table({"v": numbers_as(pa.date64(), 0, 7)})
    with (
        open_queue(tmp_path / "q", "a", schema=good.schema) as queue,
        pytest.raises(SchemaMismatch, match="column 'v', row 3: "),
    ):
        queue.append(pa.concat_tables([good, bad]))


def test_values_that_no_row_has_are_left_out(tmp_path: Path) -> None:
    items = numbers_as(pa.date64(), 0, 1, 0)
    lists = pa.ListArray.from_arrays([0, 1, 2, 3], items)
    table = pa.table({"v": lists.take(pa.array([0, 2])), "n": pa.array([1, 2])})
    hidden = pa.ListArray.from_buffers(
        lists.type, 3, [pa.py_buffer(b"\x05"), lists.buffers()[1]], children=[items]
    )
    assert hidden.null_count == 1
    with open_queue(tmp_path / "q", "a", schema=table.schema) as queue:
        queue.append(table)
        queue.append(pa.table({"v": hidden, "n": pa.array([3, 4, 5])}))
    assert read_queue(tmp_path / "q").read_all().column("n").to_pylist() == [1, 2, 3, 4, 5]


def test_arrays_that_point_outside_their_buffers_are_not_written() -> None:
    ends = pa.py_buffer(np.array([0, 255, 2], np.int32))
    column = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"ab")])
    with pytest.raises(SchemaMismatch, match="column 'v' is no sound Arrow array of string"):
        readable(pa.record_batch({"v": column}))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("options", [{}, {"partitions": 2, "key_columns": ["v"]}], ids=str)
@pytest.mark.parametrize("rows", [1, 5000])
def test_bytes_of_strings_are_kept_as_they_are(
    tmp_path: Path, kind: pa.DataType, options: dict[str, object], rows: int
) -> None:
    texts = [LATIN_1, None, b"plain", b"\xff\xfe", "grün".encode()] * rows
    table = pa.table({"v": strings(*texts, kind=kind), "n": pa.array(range(len(texts)))})
    with open_queue(tmp_path / "q", "a", schema=table.schema, **options) as queue:
        queue.append(table)
    found = read_queue(tmp_path / "q").read_all().sort_by("n")
    assert as_bytes(found.column("v")) == texts
    assert read_queue(tmp_path / "q", columns=["n"]).read_all().num_rows == len(texts)


def test_bytes_of_strings_in_lists_structs_and_maps_are_kept(tmp_path: Path) -> None:
    texts = strings(LATIN_1, b"plain", b"\xff")
    table = pa.table({
        "list": pa.ListArray.from_arrays([0, 2, 2, 3], texts),
        "struct": pa.StructArray.from_arrays([texts], ["text"]),
        "map": pa.MapArray.from_arrays([0, 1, 2, 3], texts, texts),
        "json": pa.ExtensionArray.from_storage(pa.json_(), texts),
    })  # fmt: skip
    with open_queue(tmp_path / "q", "a", schema=table.schema) as queue:
        queue.append(table)
    found = read_queue(tmp_path / "q").read_all()
    assert found.equals(table)
    with pytest.raises(UnicodeDecodeError):
        found.column("list").to_pylist()


@pytest.mark.parametrize("form", [Format.TABLE, Format.JSONL, Format.JSON, Format.CSV])
def test_bytes_that_are_no_text_are_shown_escaped(form: Format) -> None:
    texts = strings(LATIN_1, None, b"plain")
    batch = pa.record_batch({"v": texts, "l": pa.ListArray.from_arrays([0, 1, 2, 3], texts)})
    out = StringIO()
    assert write_batches([batch], batch.schema, form, out) == 3
    assert out.getvalue().count("caf\\xe9") + out.getvalue().count(r"caf\\xe9") >= 2


def test_views_and_run_ends_are_stored_as_plain_columns(tmp_path: Path) -> None:
    words = ["a word that is longer than twelve bytes", None, "b", "b"]
    runs = pa.RunEndEncodedArray.from_arrays([2, 4], pa.array(["ab", None], pa.string_view()))
    table = pa.table({
        "text": pa.array(words, pa.string_view()),
        "bytes": pa.array([b"x", None, b"y" * 20, b""], pa.binary_view()),
        "struct": pa.StructArray.from_arrays([pa.array(words, pa.string_view())], ["d"]),
        "list": pa.array([["x"], [], None, [None, "y"]], pa.list_(pa.string_view())),
        "runs": runs,
    })  # fmt: skip
    plain = [pa.string(), pa.binary(), pa.struct([("d", pa.string())]), pa.list_(pa.string())]
    for options in ({}, {"partitions": 2, "key_columns": ["text"]}):
        path = tmp_path / f"q{len(options)}"
        for _ in range(2):  # the second opening finds the columns as it made them
            with open_queue(path, "a", schema=table.schema, **options) as queue:
                queue.append(table)
                queue.append(table.slice(1, 2))
        found = read_queue(path).read_all()
        assert found.schema.types == [*plain, pa.string()]
        once = table.to_pylist() + table.slice(1, 2).to_pylist()
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, 2 * once))


def test_types_that_no_reader_can_select_are_refused_when_the_queue_is_made(tmp_path: Path) -> None:
    for kind in (
        pa.list_(pa.run_end_encoded(pa.int32(), pa.int8())),
        pa.sparse_union([pa.field("a", pa.string_view())]),
        pa.list_view(pa.string_view()),
    ):
        with pytest.raises(SchemaMismatch, match=r"column 'v' is .*cast it to another type"):
            open_queue(tmp_path / "q", "a", schema=pa.schema([("v", kind)]))
    assert not (tmp_path / "q").exists()


def test_unions_of_too_few_members_are_refused_before_pyarrow_works_on_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the limit that counts pyarrow ends the process, so another one is set here."""
    two = pa.union([pa.field("n", pa.int64()), pa.field("s", pa.string())], "dense")
    field = pa.field("u", pa.list_(two))
    assert stored_field(field) == field
    monkeypatch.setattr(arrow_values, "_UNION_MEMBERS_MIN", 3)
    monkeypatch.setattr(arrow_values, "_lacks_kernels", None)
    with pytest.raises(SchemaMismatch, match="column 'u' is list<item: dense_union<n: int64=0"):
        stored_field(field)


def test_nulls_in_lists_and_maps_are_sound_beside_strings() -> None:
    texts = strings(LATIN_1, b"b", b"c", b"d")
    of_nulls = pa.MapArray.from_arrays([0, 1, 3, 4], texts, pa.nulls(4))
    pairs = pa.StructArray.from_arrays([pa.nulls(4), texts], ["x", "y"])
    for column in (
        of_nulls,
        of_nulls.slice(1),
        pa.StructArray.from_arrays([of_nulls], ["x"]).slice(1),
        pa.ListArray.from_arrays([0, 1, 4], pairs),
        pa.FixedSizeListArray.from_arrays(pairs, 2),
    ):
        check_column(column)
        records = pa.record_batch([column], ["v"])
        assert readable(records).equals(records)


def test_a_run_that_is_cut_keeps_its_values() -> None:
    runs = pa.RunEndEncodedArray.from_arrays([2, 4, 5], [1, None, 3])
    assert as_stored(runs.slice(1, 3)).to_pylist() == [1, None, None]
    assert stored_field(pa.field("v", runs.type)).type == pa.int64()


def test_inputs_of_operators_are_as_queues_have_them() -> None:
    times = pa.array([1, 2], pa.timestamp("us"))
    views = pa.table({"at": times, "v": pa.array(["a", None], pa.string_view())})
    source = ArrowSource(views, "at")
    assert source.schema.field("v").type == pa.string()
    assert [batch.batch.schema for batch in source.read(0)] == [source.schema]
    bad = pa.table({"at": times, "v": numbers_as(pa.date64(), 0, 1)})
    with pytest.raises(SchemaMismatch, match="column 'v', row 1: "):
        list(ArrowSource(bad, "at").read(0))


def test_sound_columns_are_not_copied() -> None:
    records = pa.record_batch({"v": pa.array(["a", "b"]), "n": pa.array([1, 2])})
    assert readable(records) is records
    for column in records.columns:
        check_column(column)


def outputs(operator: Operator, inputs: list[ArrowSource], path: Path) -> list[dict[str, object]]:
    with open_queue(path, "a", schema=record_schema(operator)) as queue:
        Runner(operator, inputs, queue).run()
    rows: list[dict[str, object]] = read_queue(path).read_all().to_pylist()
    return rows


def test_operators_take_views(tmp_path: Path) -> None:
    times = pa.array(range(4), pa.timestamp("us"))
    who = pa.array(["ann", "a name longer than twelve"] * 2, pa.string_view())
    views = pa.table({"at": times, "who": who, "n": [1, 2, 3, 4]})
    plain = views.cast(pa.schema([("at", times.type), ("who", pa.string()), ("n", pa.int64())]))

    def operators(schema: pa.Schema) -> list[Operator]:
        return [
            Filter(pc.field("n") > 1, schema),
            Map({"who": pc.field("who")}, schema),
            Union(schema, inputs=1),
            BSort("n", 2, schema),
            Aggregate(
                group_by=["who"], aggregates={"sum": ("sum", "n")}, window=CountWindow(2),
                input_schema=schema,
            ),
            WindowJoin(schema, schema, on=["who"], within_us=10),
        ]  # fmt: skip

    for number, (of_views, of_plain) in enumerate(
        zip(operators(views.schema), operators(plain.schema), strict=True)
    ):
        found, due = (
            outputs(operator, [ArrowSource(table, "at")] * operator.inputs, tmp_path / name)
            for operator, table, name in (
                (of_views, views, f"views-{number}"), (of_plain, plain, f"plain-{number}"),
            )
        )  # fmt: skip
        assert found == due
        assert found


DENSE = pa.UnionArray.from_dense(
    pa.array([0, 1, 0, 1], pa.int8()), pa.array([0, 0, 1, 1], pa.int32()),
    [pa.array([1, 2]), pa.array(["x", "y"])],
)  # fmt: skip
SPARSE = pa.UnionArray.from_sparse(
    pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, 3, 4]), pa.array(["w", "x", "y", "z"])]
)
TENSOR = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(16.0).reshape(4, 2, 2))


@pytest.mark.parametrize("untouched", [DENSE, SPARSE, TENSOR], ids=["dense", "sparse", "tensor"])
def test_operators_pass_over_columns_that_they_do_not_touch(
    tmp_path: Path, untouched: pa.Array
) -> None:
    times = pa.array(range(4), pa.timestamp("us"))
    rows = pa.table({"at": times, "k": [1] * 4, "n": [1, 2, 3, 4], "other": untouched})
    sums = {"sum": ("sum", "n")}
    schema = rows.schema
    operators: list[Operator] = [
        Filter(pc.field("n") > 0, schema),
        Map({"twice": pc.field("n") * 2}, schema),
        Union(schema, inputs=2),
        BSort("n", 2, schema),
        Aggregate(group_by=["k"], aggregates=sums, window=CountWindow(4), input_schema=schema),
        WindowJoin(schema, schema, on=["n"], within_us=0),
        Resample(schema, schema, on=["k"], within_us=1, aggregates=sums),
    ]
    counts = []
    for number, operator in enumerate(operators):
        inputs = [ArrowSource(rows, "at")] * operator.inputs
        counts.append(len(outputs(operator, inputs, tmp_path / str(number))))
    assert counts == [4, 4, 8, 2, 1, 4, 2]
