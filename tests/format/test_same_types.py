"""A queue keeps what its schema says, whoever appends; nulls, names and metadata do not differ."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cec_store import SchemaMismatch, open_queue, read_queue
from cec_store.format.arrow_values import retyped
from cec_store.format.same_types import is_same_field
from cec_store.format.schema import RecordSchema

GEOMETRY = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": '{"crs": "x"}'}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "7"}),
        pa.field("shape", pa.binary(), metadata=GEOMETRY),
        pa.field("parts", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("names", pa.map_(pa.field("keys", pa.string(), nullable=False), pa.int64())),
    ],
    metadata={"owner": "somebody"},
)
ROWS = {"id": [1, 2], "shape": [b"a", None], "parts": [[1], None], "names": [None, [("n", 1)]]}
KINDS = [{}, {"partitions": 2, "key_columns": ["id"]}]


def plain_rows(**changed: object) -> pa.Table:
    """Return rows whose schema says nothing but the types."""
    bare = pa.schema([pa.field(name, kind) for name, kind in zip(SCHEMA.names, (
        pa.int64(), pa.binary(), pa.list_(pa.int32()), pa.map_(pa.string(), pa.int64()),
    ), strict=True)])  # fmt: skip
    return pa.table({**ROWS, **changed}, bare)


def said(schema: pa.Schema) -> list[object]:
    """Return what is kept; Arrow's messages have no names for the fields of maps."""
    fields = [(field.name, field.nullable, field.metadata or None) for field in schema]
    return [*fields, schema.metadata, schema.field("parts").type.value_field.name]


@pytest.mark.parametrize("kind", KINDS, ids=["plain", "partitions"])
def test_what_the_schema_says_is_kept(tmp_path: Path, kind: dict[str, object]) -> None:
    keys = [] if kind else [None]  # the keys of one with partitions are columns of a schema
    for opened in (SCHEMA, SCHEMA, SCHEMA.remove_metadata(), plain_rows().schema, SCHEMA, *keys):
        options = kind if opened else {}
        with open_queue(tmp_path / "q", "a", schema=opened, **options) as queue:  # type: ignore[call-overload]
            queue.append(plain_rows())
    reader = read_queue(tmp_path / "q")
    assert said(reader.schema) == said(SCHEMA)
    assert reader.read_all().num_rows == 2 * (6 - len(kind) // 2)
    with open_queue(tmp_path / "copy", "a", schema=read_queue(tmp_path / "q").schema) as copy:
        copy.append(plain_rows())
    assert said(read_queue(tmp_path / "copy").schema) == said(SCHEMA)


@pytest.mark.parametrize("kind", KINDS, ids=["plain", "partitions"])
@pytest.mark.parametrize(
    ("changed", "row"), [({"id": [1, None]}, 1), ({"parts": [[1, None], None]}, 0)]
)
def test_a_null_where_there_is_none_is_refused_by_name(
    tmp_path: Path, kind: dict[str, object], changed: dict[str, object], row: int
) -> None:
    (name,) = changed
    with open_queue(tmp_path / "q", "a", schema=SCHEMA, **kind) as queue:  # type: ignore[call-overload]
        with pytest.raises(SchemaMismatch, match=f"column '{name}', row {row}: a null"):
            queue.append(plain_rows(**changed))
        queue.append(plain_rows())
    assert read_queue(tmp_path / "q").read_all().num_rows == 2


NUMBER = pa.field("n", pa.int32(), nullable=False)
TEXT = pa.field("t", pa.string(), nullable=False)
MAP = pa.map_(pa.int32(), NUMBER)
TEXTS = pa.map_(pa.string(), TEXT)


def union_of(mode: str) -> pa.Array:
    """Return rows of which only the third has a null, in a member that allows none."""
    codes = pa.array([0, 1, 0, 1], pa.int8())
    if mode == "dense":
        numbers = pa.array([5, None], pa.int32())
        offsets = pa.array([0, 0, 1, 1], pa.int32())
        made = pa.UnionArray.from_dense(codes, offsets, [numbers, pa.array(["x", None])])
    else:
        numbers = pa.array([5, None, None, 6], pa.int32())
        texts = pa.array([None, "x", None, None])
        made = pa.UnionArray.from_sparse(codes, [numbers, texts])
    kind = pa.union([NUMBER, pa.field("t", pa.string())], mode)
    children = [made.field(place) for place in range(2)]
    buffers = made.buffers()[: 3 if mode == "dense" else 2]
    return pa.Array.from_buffers(kind, 4, buffers, children=children)


def rows_as(kind: pa.DataType, rows: list[object], plain: pa.DataType) -> pa.Array:
    """Return rows in a type that allows no such nulls."""
    return retyped(pa.array(rows, plain), kind)


NULLS = {
    "map": (
        rows_as(MAP, [None, [(1, 1)], [(1, 2), (2, None)]], pa.map_(pa.int32(), pa.int32())), 2,
    ),
    "map of texts": (
        rows_as(TEXTS, [[], None, [("a", None)]], pa.map_(pa.string(), pa.string())), 2,
    ),
    "list of maps": (
        rows_as(pa.list_(MAP), [[[(1, 1)]], [[], [(1, None)]]],
                pa.list_(pa.map_(pa.int32(), pa.int32()))), 1,
    ),
    "list view": (
        pa.Array.from_buffers(
            pa.list_view(NUMBER), 2,
            [None, *(pa.py_buffer(np.array(at, np.int32)) for at in ([0, 1], [1, 2]))],
            children=[pa.array([1, 2, None], pa.int32())],
        ), 1,
    ),
    "dense union": (union_of("dense"), 2),
    "sparse union": (union_of("sparse"), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", NULLS)
@pytest.mark.parametrize("start", [0, 1])
def test_a_null_in_any_part_that_has_none_is_refused_by_row(
    tmp_path: Path, name: str, start: int
) -> None:
    column, row = NULLS[name]
    table = pa.table({"v": column}).slice(start)
    with open_queue(tmp_path / "q", "a", schema=table.schema) as queue:
        with pytest.raises(SchemaMismatch, match=rf"column 'v', row {row - start}: a null, and"):
            queue.append(table)
        queue.append(table.slice(0, row - start))
    reader = read_queue(tmp_path / "q")
    assert reader.schema.field("v").type == column.type
    assert reader.read_all().num_rows == row - start


@pytest.mark.parametrize("kind", KINDS, ids=["plain", "partitions"])
def test_another_extension_is_refused(tmp_path: Path, kind: dict[str, object]) -> None:
    other = pa.field("shape", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkt"})
    with open_queue(tmp_path / "q", "a", schema=SCHEMA, **kind) as queue:  # type: ignore[call-overload]
        rows = plain_rows()
        with pytest.raises(SchemaMismatch, match=r"binary with the extension geoarrow\.wkt"):
            queue.append(rows.cast(rows.schema.set(1, other)))
    with pytest.raises(SchemaMismatch, match="the queue's columns are"):
        open_queue(tmp_path / "q", "a", schema=SCHEMA.set(1, other), **kind)  # type: ignore[call-overload]


REGISTERED = """
import sys, pyarrow as pa
from cec_store import open_queue, read_queue

class Celsius(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.float64(), "example.celsius")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, data):
        return cls()

pa.register_extension_type(Celsius())
nested = pa.struct([pa.field("t", Celsius())])
storage = pa.array([{"t": 2.5}], pa.struct([("t", pa.float64())]))
rows = pa.table({"t": pa.ExtensionArray.from_storage(Celsius(), pa.array([1.5])), "in": storage})
schema = pa.schema([("t", Celsius()), ("in", nested)])
with open_queue(sys.argv[1], "a", schema=schema) as queue:
    queue.append(rows)
table = read_queue(sys.argv[1]).read_all()
assert table.schema == schema, table.schema
print(table["t"].combine_chunks().storage.to_pylist(), len(table))
"""
UNREGISTERED = """
import sys, pyarrow as pa
from cec_store import open_queue
with open_queue(sys.argv[1], "a") as queue:
    queue.append(pa.table({"t": [3.5], "in": [{"t": 4.5}]}))
"""


def run_python(program: str, place: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, place], check=True, capture_output=True, text=True
    )
    return done.stdout


def test_a_process_without_the_extension_type_leaves_it_to_the_queue(tmp_path: Path) -> None:
    place = str(tmp_path / "q")
    assert run_python(REGISTERED, place).split() == ["[1.5]", "1"]
    run_python(UNREGISTERED, place)
    assert run_python(REGISTERED, place).split() == ["[1.5,", "3.5,", "1.5]", "3"]


def test_columns_of_an_operator_have_nulls_in_its_footprints() -> None:
    data = pa.schema([pa.field("n", pa.int64(), nullable=False, metadata={"a": "b"})])
    state = pa.schema([pa.field("rows", pa.int64())])
    schema = RecordSchema(data, state, state, inputs=1)
    assert schema.data.field("n") == pa.field("n", pa.int64())
    assert schema.data.field("n").metadata == {b"a": b"b"}


@pytest.mark.parametrize("kind", [{}, {"partitions": 1}], ids=["plain", "partitions"])
def test_rows_without_columns_are_refused(tmp_path: Path, kind: dict[str, object]) -> None:
    with pytest.raises(SchemaMismatch, match="a queue needs a column"):
        open_queue(tmp_path / "q", "a", schema=pa.schema([]), **kind)  # type: ignore[call-overload]
    assert not (tmp_path / "q").exists()


INT = pa.field("f", pa.int64())


@pytest.mark.parametrize(
    ("stored", "other"),
    [
        (pa.list_(INT), pa.list_(pa.field("element", pa.int64(), nullable=False))),
        (pa.list_(INT, 2), pa.list_(pa.int64(), 2)),
        (pa.struct([INT]), pa.struct([INT.with_nullable(False)])),
        (pa.map_(pa.string(), INT), pa.map_(pa.string(), pa.int64(), keys_sorted=True)),
        (pa.uuid(), pa.binary(16)),
        (pa.list_(pa.uuid()), pa.list_(pa.binary(16))),
        (pa.sparse_union([INT]), pa.sparse_union([INT.with_nullable(False)])),
    ],
    ids=str,
)
def test_types_of_one_storage_are_the_same(stored: pa.DataType, other: pa.DataType) -> None:
    assert is_same_field(pa.field("a", stored), pa.field("a", other))


@pytest.mark.parametrize(
    ("stored", "other"),
    [
        (pa.int64(), pa.int32()),
        (pa.list_(pa.int64()), pa.large_list(pa.int64())),
        (pa.list_(pa.int64(), 2), pa.list_(pa.int64(), 3)),
        (pa.struct([INT]), pa.struct([("g", pa.int64())])),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32())),
        (pa.binary(16), pa.uuid()),
        (pa.list_(pa.binary(16)), pa.list_(pa.uuid())),
        (pa.sparse_union([INT]), pa.dense_union([INT])),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    ],
    ids=str,
)
def test_types_of_other_storage_or_extension_differ(
    stored: pa.DataType, other: pa.DataType
) -> None:
    assert not is_same_field(pa.field("a", stored), pa.field("a", other))
