"""Columns that a query names: parts of structs, names in another case, tables of other columns."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cec_store
from support.spark.jvm_sink import queue_at, refused

NESTED = (
    "id", "named_struct('x', id, 'y', 2, 'z', named_struct('deep', cast(id as string))) s",
    "array(named_struct('a', id, 'b', 1)) l", "map('k', named_struct('p', id, 'q', 1)) m",
)  # fmt: skip


@pytest.fixture(scope="module")
def nested(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows as a queue and as Parquet."""
    path = tmp_path_factory.mktemp("nested")
    rows = spark.range(3).selectExpr(*NESTED)
    rows.write.format("cec").mode("append").save(str(path / "cec"))
    rows.write.parquet(str(path / "parquet"))
    return path


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    yield spark
    spark.conf.unset("spark.sql.caseSensitive")
    for table in ("t_cec", "t_parquet"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, s.z FROM {} WHERE s.x > 0",
        "SELECT s.z.deep, id FROM {}",
        "SELECT id FROM {} ORDER BY s.x DESC, id",
        "SELECT s.x, count(*) FROM {} GROUP BY s.x",
        "SELECT l.a, id FROM {}",
        "SELECT e.b, e.a + id FROM (SELECT id, explode(l) e FROM {})",
        "SELECT m['k'].p, m['k'].q FROM {} WHERE S.X < 2",
        "SELECT map_values(m).q, s FROM {}",
    ],
)
def test_a_field_of_a_struct_is_read_as_from_parquet(
    session: Any, nested: Path, query: str
) -> None:
    found = [
        sorted(map(str, session.sql(query.format(f"{name}.`{nested}/{name}`")).collect()))
        if name == "parquet"
        else sorted(map(str, of_queue(session, nested / name, query)))
        for name in ("cec", "parquet")
    ]
    assert found[0] == found[1]
    assert found[0]


def of_queue(session: Any, path: Path, query: str) -> list[Any]:
    session.read.format("cec").load(str(path)).createOrReplaceTempView("nested_queue")
    rows: list[Any] = session.sql(query.format("nested_queue")).collect()
    return rows


def test_only_the_fields_that_are_asked_for_are_read(session: Any, nested: Path) -> None:
    rows = session.read.format("cec").load(str(nested / "cec")).select("s.z.deep")
    scan = rows._jdf.queryExecution().optimizedPlan().collectLeaves().head()
    assert scan.schema().simpleString() == "struct<s:struct<z:struct<deep:string>>>"
    assert sorted(row.deep for row in rows.collect()) == ["0", "1", "2"]


@pytest.mark.parametrize("kind", ["cec", "parquet"])
@pytest.mark.parametrize(
    ("columns", "values", "row"),
    [
        ("s STRUCT<x: INT NOT NULL, y: STRING>", "named_struct('x', 1, 'y', 'z')", ((1, "z"),)),
        ("s STRUCT<x: INT COMMENT 'why'>", "named_struct('x', 1)", ((1,),)),
        ("id BIGINT NOT NULL COMMENT 'key'", "1", (1,)),
        ("s STRUCT<c: CHAR(3)>", "named_struct('c', 'a')", (("a  ",),)),
    ],
)
def test_what_was_inserted_is_selected_whatever_the_columns_say(
    session: Any, kind: str, columns: str, values: str, row: tuple[object, ...]
) -> None:
    session.sql(f"CREATE TABLE t_{kind} ({columns}) USING {kind}")
    session.sql(f"INSERT INTO t_{kind} VALUES ({values})")
    assert session.table(f"t_{kind}").collect() == [row]


@pytest.mark.parametrize("kind", ["cec", "parquet"])
def test_names_in_another_case_and_order_are_the_same_columns(
    session: Any, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / kind
    append = session.range(3).selectExpr("id", "'x' name").write.format(kind).mode
    append("append").save(str(path))
    session.sql(f"CREATE TABLE t_{kind} (Name STRING, ID BIGINT) USING {kind} LOCATION '{path}'")
    session.sql(f"INSERT INTO t_{kind} VALUES ('y', 9)")
    session.range(1).selectExpr("'z' NAME", "id + 20 ID").write.format(kind).mode("append").save(
        str(path)
    )
    rows = session.sql(f"SELECT id, name FROM t_{kind}").collect()
    assert sorted(map(tuple, rows)) == [(0, "x"), (1, "x"), (2, "x"), (9, "y"), (20, "z")]
    reader = session.read.format(kind).schema("iD BIGINT, NAME STRING").load(str(path))
    assert sorted(map(tuple, reader.filter("Id > 2").collect())) == [(9, "y"), (20, "z")]
    wider = session.read.format(kind).schema("name STRING").load(str(path))
    assert wider.count() == 5


def test_with_case_sensitive_names_those_in_another_case_are_others(
    session: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "q")
    session.range(3).write.format("cec").mode("append").save(path)
    session.conf.set("spark.sql.caseSensitive", "true")
    said = refused(lambda: session.read.format("cec").schema("ID BIGINT").load(path).count())
    assert "ID: not in the queue" in said
    write = session.range(3).toDF("ID").write.format("cec").mode("append")
    assert "id: not in the query; ID: not in the queue" in refused(lambda: write.save(path))


def test_numbers_are_read_as_wider_ones(session: Any, tmp_path: Path) -> None:
    rows = (
        "cast(id as byte) b",
        "cast(id as int) i",
        "cast(id as float) f",
        "array(cast(id as short)) l",
    )
    for kind in ("cec", "parquet"):
        path = f"{tmp_path}/{kind}"
        session.range(3).selectExpr(*rows).write.format(kind).mode("append").save(path)
        wide = session.read.format(kind).schema("i BIGINT, f DOUBLE, l ARRAY<INT>, b INT")
        found = sorted(map(str, wide.load(path).collect()))
        assert found == [f"Row(i={n}, f={float(n)}, l=[{n}], b={n})" for n in range(3)]
    said = refused(
        lambda: session.read.format("cec").schema("i STRING").load(f"{tmp_path}/cec").count()
    )
    assert "i: INT in the queue, STRING asked for" in said


def test_a_moment_in_another_case_still_narrows_what_is_read(session: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "q")
    rows = session.range(10, numPartitions=2).selectExpr("id", "timestamp_seconds(id) at")
    rows.write.format("cec").option("timestampColumn", "AT").mode("append").save(path)
    assert queue_at(tmp_path / "q").schema.timestamp_column == "at"
    found = session.read.format("cec").schema("At TIMESTAMP, ID BIGINT").load(path)
    found = found.filter("at >= timestamp_seconds(8)")
    assert "[At >=" in found._jdf.queryExecution().executedPlan().toString()
    assert sorted(row.ID for row in found.collect()) == [8, 9]


def test_a_null_in_a_column_that_a_table_calls_not_null_is_told(
    session: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "q")
    session.sql("SELECT cast(null as bigint) n").write.format("cec").mode("append").save(path)
    session.sql(f"CREATE TABLE t_cec (n BIGINT NOT NULL) USING cec LOCATION '{path}'")
    said = refused(lambda: session.table("t_cec").collect())
    assert "1 nulls in column 'n', which the table says is NOT NULL" in said
    reader = session.read.format("cec").schema("n BIGINT NOT NULL").load(path)
    assert [tuple(row) for row in reader.collect()] == [(None,)]


def test_a_table_with_a_location_is_external_and_its_location_is_whole(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.range(3).write.format("cec").mode("append").save(str(tmp_path / "q"))
    said = refused(lambda: session.sql("CREATE TABLE t_cec USING cec LOCATION 'relative/q'"))
    assert "LOCATION 'relative/q' is relative" in said
    session.sql(f"CREATE TABLE t_cec USING cec LOCATION '{tmp_path}/q'")
    described = {row[0]: row[1] for row in session.sql("DESCRIBE EXTENDED t_cec").collect()}
    assert described["Type"] == "EXTERNAL"
    assert session.table("t_cec").count() == 3
    session.sql("DROP TABLE t_cec")
    assert (tmp_path / "q").exists()
    session.sql("CREATE TABLE t_cec (n BIGINT) USING cec")
    described = {row[0]: row[1] for row in session.sql("DESCRIBE EXTENDED t_cec").collect()}
    assert described["Type"] == "MANAGED"


def test_columns_that_python_wrote_are_read_in_part(session: Any, tmp_path: Path) -> None:
    inner = pa.struct([("x", pa.uint8()), ("s", pa.large_string()), ("l", pa.list_(pa.int32(), 2))])
    schema = pa.schema([("s", inner), ("m", pa.map_(pa.string(), inner))])
    rows = [{"x": 7, "s": "a", "l": [1, 2]}, None, {"x": None, "s": None, "l": None}]
    table = pa.table(
        [pa.array(rows, inner), pa.array([[("k", r)] for r in rows], schema[1].type)], schema
    )
    with cec_store.open_queue(tmp_path / "q", "x", schema=schema) as queue:
        queue.append(table)
    found = session.read.format("cec").load(str(tmp_path / "q"))
    found = found.selectExpr("s.l", "m['k'].x x", "s is null n")
    assert [tuple(row) for row in found.collect()] == [
        ([1, 2], 7, False), (None, None, True), (None, None, False),
    ]  # fmt: skip
