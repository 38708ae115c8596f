"""Queues as tables: from SQL, by the session's catalog, by Spark Connect, and column by column."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cec_store
from cec_store.format import same_types
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from cec_store.opening import queue_at, read_queue
from cec_store.storage.stores.by_url import store_at
from support.drivers import connect_job
from support.runs.counts import CRASH_FULL
from support.runs.minors import HAS_NANOS, needs_nanos, needs_python_sources, needs_times
from support.spark.jvm_sink import refused
from support.stores.copies import contents, in_memory

TIMEOUT_S = 300
COLUMNS = "n INT, item STRING, at TIMESTAMP"
OPTIONS = "OPTIONS (timestampColumn 'at', keyColumns 'item')"
VALUES = "(1, 'x', TIMESTAMP'2026-01-01 00:00:00'), (2, 'y', TIMESTAMP'2026-01-02 00:00:00')"


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Iterator[str]:
    """A table without a row, at `q` of this test's folder."""
    spark.sql(f"CREATE TABLE trades ({COLUMNS}) USING cec {OPTIONS} LOCATION '{tmp_path}/q'")
    yield "trades"
    spark.sql("DROP TABLE trades")


def numbers(rows: Any) -> list[int]:
    return sorted(row.n for row in rows.collect())


def test_a_table_has_no_rows_before_the_first_insert(
    spark: Any, table: str, tmp_path: Path
) -> None:
    assert spark.sql("SELECT * FROM trades").collect() == []
    assert not (tmp_path / "q").exists()
    stream = spark.readStream.table(table).writeStream.format("noop")
    query = stream.option("checkpointLocation", str(tmp_path / "c")).start()
    with pytest.raises(Exception, match="no queue here yet: insert into the table first"):
        query.awaitTermination(60)
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "notes.txt").write_text("mine")
    assert "no queue here" in refused(lambda: spark.sql("SELECT * FROM trades").collect())


def test_what_is_inserted_is_selected_and_is_a_queue(
    spark: Any, table: str, tmp_path: Path
) -> None:
    spark.sql(f"INSERT INTO {table} VALUES {VALUES}")
    spark.sql(f"INSERT INTO {table} SELECT 3, 'x', TIMESTAMP'2026-01-03 00:00:00'")
    assert numbers(spark.table(table)) == [1, 2, 3]
    late = spark.sql(f"SELECT n FROM {table} WHERE at >= TIMESTAMP'2026-01-02'")
    assert numbers(late) == [2, 3]
    assert read_queue(tmp_path / "q").read_all().num_rows == 3
    schema = queue_at(tmp_path / "q").schema
    assert (schema.timestamp_column, schema.key_columns) == ("at", ("item",))
    assert numbers(spark.read.format("cec").load(str(tmp_path / "q"))) == [1, 2, 3]


def test_a_table_is_described_with_its_options(spark: Any, table: str, tmp_path: Path) -> None:
    columns = [tuple(row)[:2] for row in spark.sql(f"DESCRIBE {table}").collect()]
    assert columns == [("n", "int"), ("item", "string"), ("at", "timestamp")]
    said = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {table}").collect()}
    assert (said["Provider"], said["Location"]) == ("cec", f"file:{tmp_path}/q")
    made_by = spark.sql(f"SHOW CREATE TABLE {table}").first()[0]
    assert "'timestampColumn' = 'at'" in made_by
    assert "USING cec" in made_by


def test_the_columns_of_a_queue_that_is_there_need_not_be_said(
    spark: Any, table: str, tmp_path: Path
) -> None:
    spark.sql(f"INSERT INTO {table} VALUES {VALUES}")
    path = f"OPTIONS (path '{tmp_path}/q', includeMetadata 'true')"
    spark.sql(f"CREATE TABLE places USING cec {path}")
    try:
        rows = spark.sql("SELECT n, _offset, _kind FROM places").collect()
        assert sorted(map(tuple, rows)) == [(1, 0, "data"), (2, 0, "data")]
    finally:
        spark.sql("DROP TABLE places")
    assert numbers(spark.table(table)) == [1, 2], "it is not the table's"
    spark.sql(f"CREATE TEMPORARY VIEW seen USING cec OPTIONS (path '{tmp_path}/q')")
    assert numbers(spark.table("seen")) == [1, 2]
    spark.catalog.dropTempView("seen")
    none = f"CREATE TABLE places USING cec LOCATION '{tmp_path}/none'"
    assert "[PATH_NOT_FOUND] Path does not exist: file:" in refused(lambda: spark.sql(none))


def test_a_table_of_the_warehouse_goes_with_its_queue(spark: Any) -> None:
    spark.sql("CREATE TABLE kept USING cec AS SELECT id AS n FROM range(7)")
    try:
        spark.range(7, 10).toDF("n").write.format("cec").mode("append").saveAsTable("kept")
        assert numbers(spark.table("kept")) == list(range(10))
        said = {row[0]: row[1] for row in spark.sql("DESCRIBE EXTENDED kept").collect()}
        path = Path(said["Location"].removeprefix("file:"))
        assert sum(queue_at(path).ends().values()) == 10
    finally:
        spark.sql("DROP TABLE kept")
    assert not path.exists()


def test_tables_are_streams_as_well(spark: Any, table: str, tmp_path: Path) -> None:
    spark.sql(f"INSERT INTO {table} VALUES {VALUES}")
    rows = spark.readStream.table(table)
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "c"))
    spark.sql(f"CREATE TABLE copy ({COLUMNS}) USING cec LOCATION '{tmp_path}/copy'")
    try:
        query = writer.trigger(availableNow=True).toTable("copy")
        assert query.awaitTermination(120)
        assert numbers(spark.table("copy")) == [1, 2]
    finally:
        spark.sql("DROP TABLE copy")


def streamed(rows: Any, path: Path) -> list[int]:
    """Return the numbers that a run of a stream takes, by the checkpoint `path`."""
    taken: list[int] = []
    writer = rows.writeStream.foreachBatch(lambda batch, _: taken.extend(numbers(batch)))
    query = writer.option("checkpointLocation", str(path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return sorted(taken)


def test_a_stream_of_a_table_begins_with_its_first_row_and_one_of_a_path_at_the_end(
    spark: Any, table: str, tmp_path: Path
) -> None:
    spark.sql(f"INSERT INTO {table} VALUES {VALUES}")
    assert streamed(spark.readStream.table(table), tmp_path / "table") == [1, 2]
    assert streamed(spark.sql(f"SELECT * FROM STREAM {table}"), tmp_path / "sql") == [1, 2]
    late = spark.readStream.option("STARTINGOFFSETS", "latest").table(table)
    assert streamed(late, tmp_path / "late") == []
    moment = spark.readStream.option("startingTimestamp", "1767312000000")
    moment = moment.option("startingOffsetsByTimestampStrategy", "latest").table(table)
    assert streamed(moment, tmp_path / "moment") == [2]
    path = spark.readStream.format("cec").load(str(tmp_path / "q"))
    assert streamed(path, tmp_path / "path") == []
    options = "OPTIONS (startingOffsets 'latest')"
    spark.sql(f"CREATE TABLE end_of_it ({COLUMNS}) USING cec {options} LOCATION '{tmp_path}/q'")
    try:
        assert streamed(spark.readStream.table("end_of_it"), tmp_path / "end") == []
    finally:
        spark.sql("DROP TABLE end_of_it")


def test_a_truncated_table_has_no_rows_and_its_offsets_go_on(
    spark: Any, table: str, tmp_path: Path
) -> None:
    spark.sql(f"TRUNCATE TABLE {table}")
    assert not (tmp_path / "q").exists(), "nothing to take away, and nothing made"
    spark.sql(f"INSERT INTO {table} VALUES {VALUES}")
    done, behind = tmp_path / "done", tmp_path / "behind"
    assert streamed(spark.readStream.table(table), done) == [1, 2]
    shutil.copytree(done, behind)
    spark.sql(f"INSERT INTO {table} SELECT 3, 'x', TIMESTAMP'2026-01-03 00:00:00'")
    assert streamed(spark.readStream.table(table), done) == [3]
    before = queue_at(tmp_path / "q").ends()
    spark.sql(f"TRUNCATE TABLE {table}")
    assert numbers(spark.table(table)) == []
    assert queue_at(tmp_path / "q").ends() == before
    assert verify_place(place_at(tmp_path / "q"), records=True).is_sound
    spark.sql(f"INSERT INTO {table} SELECT 4, 'x', TIMESTAMP'2026-01-04 00:00:00'")
    assert numbers(spark.table(table)) == [4]
    assert streamed(spark.readStream.table(table), done) == [4], "it had read all"
    told = refused(lambda: streamed(spark.readStream.table(table), behind))
    assert "it is trimmed. Some data may have been lost" in told
    lenient = spark.readStream.option("failOnDataLoss", "false").table(table)
    assert streamed(lenient, behind) == [4]


def test_truncating_waits_for_no_consumer_and_tells_it(
    spark: Any, table: str, tmp_path: Path
) -> None:
    spark.sql(f"INSERT INTO {table} VALUES {VALUES}")
    with cec_store.open_queue(tmp_path / "q") as queue:
        queue.consumer("slow")
    spark.sql(f"TRUNCATE TABLE {table}")
    assert numbers(spark.table(table)) == []
    held = spark.readStream.option("consumer", "slow").table(table)
    assert "consumer 'slow' needs records" in refused(lambda: streamed(held, tmp_path / "slow"))


def test_a_queue_without_partitions_is_not_truncated(spark: Any, tmp_path: Path) -> None:
    with cec_store.open_queue(tmp_path / "q", "x", schema=pa.schema([("n", pa.int32())])) as queue:
        queue.append(pa.table({"n": pa.array([1], pa.int32())}))
    spark.sql(f"CREATE TABLE plain USING cec LOCATION '{tmp_path}/q'")
    try:
        said = refused(lambda: spark.sql("TRUNCATE TABLE plain"))
        assert "a queue without partitions" in said
        assert numbers(spark.table("plain")) == [1]
    finally:
        spark.sql("DROP TABLE plain")


def test_a_queue_of_one_writer_in_a_store_is_not_truncated(spark: Any, tmp_path: Path) -> None:
    """Its writer would give numbers of frames again, and take its input from the beginning."""
    url = in_memory()
    with cec_store.open_queue(url, "a", schema=pa.schema([("n", pa.int32())])) as queue:
        queue.append(pa.table({"n": pa.array([1, 2], pa.int32())}))
    for name, data in contents(store_at(url)).items():
        (tmp_path / "q" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "q" / name).write_bytes(data)
    spark.sql(f"CREATE TABLE single USING cec LOCATION '{tmp_path}/q'")
    try:
        assert numbers(spark.table("single")) == [1, 2]
        assert "cannot be truncated" in refused(lambda: spark.sql("TRUNCATE TABLE single"))
        assert numbers(spark.table("single")) == [1, 2]
    finally:
        spark.sql("DROP TABLE single")


def test_what_a_queue_cannot_do_is_refused(spark: Any, table: str, tmp_path: Path) -> None:
    spark.sql(f"INSERT INTO {table} VALUES {VALUES}")
    over = f"INSERT OVERWRITE {table} VALUES {VALUES}"
    assert "only appended to" in refused(lambda: spark.sql(over))
    delete = f"DELETE FROM {table} WHERE n = 1"
    assert "does not support" in refused(lambda: spark.sql(delete))
    made = f"CREATE TABLE bad (n INT) USING cec LOCATION '{tmp_path}/bad'"
    said = refused(lambda: spark.sql(f"{made} OPTIONS (retain '7d')"))
    assert "no option 'retain' of a table; there are path, timestampColumn" in said
    said = refused(lambda: spark.sql(f"{made} PARTITIONED BY (n)"))
    assert "leave out PARTITIONED BY" in said
    other = f"CREATE TABLE bad (m STRING) USING cec LOCATION '{tmp_path}/q'"
    spark.sql(other)
    try:
        assert "m: not in the queue" in refused(lambda: spark.table("bad").collect())
        said = refused(lambda: spark.sql("INSERT INTO bad VALUES ('x')"))
        assert "item: not in the query" in said
    finally:
        spark.sql("DROP TABLE bad")
    assert numbers(spark.table(table)) == [1, 2]


@needs_python_sources
@pytest.mark.crash
@pytest.mark.parametrize("server", ["jar", *(["none"] if CRASH_FULL else [])])
def test_a_client_of_spark_connect_reads_and_writes(server: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc_status")
    done = subprocess.run(
        [sys.executable, "-m", connect_job.__name__, str(tmp_path), server],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("kind") == "pyspark.sql.connect.session"
    conditions = ["PATH_NOT_FOUND", "CEC_COLUMNS", "CEC_OPTION"]
    with_table = (
        {"table": 150, "copied": 150, "conditions": conditions}
        if server == "jar"
        else {"copied": 100}
    )
    assert found == {"rows": 100, "python": 100, **with_table}


# -- columns that a query names --------------------------------------------------------------------

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
    for setting in ("caseSensitive", "timeType.enabled", "timestampNanosTypes.enabled"):
        spark.conf.unset(f"spark.sql.{setting}")
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


INTERVALS = (
    "DAY", "HOUR", "MINUTE", "SECOND", "DAY TO HOUR", "DAY TO MINUTE", "DAY TO SECOND",
    "HOUR TO MINUTE", "HOUR TO SECOND", "MINUTE TO SECOND",
)  # fmt: skip


@needs_times
def test_times_of_every_precision_and_intervals_of_every_range_come_back(session: Any) -> None:
    """The same rows, as text and with the types that were declared, as of Parquet."""
    times = [f"TIME({digits})" for digits in range(10 if HAS_NANOS else 7)]
    kinds = times + [f"INTERVAL {each}" for each in INTERVALS]
    columns = [f"c{n} {kind}" for n, kind in enumerate(kinds)] + ["l ARRAY<INTERVAL HOUR>"]
    values = [f"CAST('23:59:58.123456789' AS {kind})" for kind in times]
    values += [
        f"CAST(INTERVAL '-1 02:03:04.5' DAY TO SECOND AS {kind})" for kind in kinds[len(times) :]
    ]
    values.append("ARRAY(INTERVAL '5' HOUR, NULL)")
    found = []
    session.conf.set("spark.sql.timeType.enabled", "true")
    for format_ in ("cec", "parquet"):
        session.sql(f"CREATE TABLE t_{format_} ({', '.join(columns)}) USING {format_}")
        session.sql(f"INSERT INTO t_{format_} SELECT {', '.join(values)}")
        rows = session.table(f"t_{format_}")
        texts = rows.selectExpr(*(f"CAST({name} AS STRING)" for name in rows.columns)).first()
        found.append((rows.schema.simpleString(), tuple(texts)))
    assert found[0] == found[1]
    assert found[0][1][3] == "23:59:58.123"


@needs_times
def test_a_path_gives_times_as_many_digits_as_they_are_stored_with(
    session: Any, tmp_path: Path
) -> None:
    session.conf.set("spark.sql.timeType.enabled", "true")
    kinds = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    table = pa.table({f"t{n}": pa.array([3600], kind) for n, kind in enumerate(kinds)})
    with cec_store.open_queue(tmp_path / "q", "x", schema=table.schema) as queue:
        queue.append(table)
    rows = session.read.format("cec").load(str(tmp_path / "q"))
    most = 9 if HAS_NANOS else 6
    types = [field.dataType.simpleString() for field in rows.schema]
    assert types == ["time(0)", "time(3)", "time(6)", f"time({most})"]


FINE = "CAST('2026-01-01 12:34:56.123456789' AS {})"
EARLY = "CAST('1969-12-31 23:59:59.999999999' AS {})"


@needs_nanos
def test_timestamps_of_nanoseconds_come_back(session: Any, tmp_path: Path) -> None:
    """The same rows, as text, with the types that were declared, and as of Parquet."""
    for setting in ("timeType", "timestampNanosTypes"):
        session.conf.set(f"spark.sql.{setting}.enabled", "true")
    kinds = [f"TIMESTAMP_{zone}({digits})" for zone in ("NTZ", "LTZ") for digits in (7, 8, 9)]
    nested = {"ARRAY<{}>": "array({0}, NULL, {1})", "STRUCT<x: {}>": "struct({0})"}
    fine, early = (text.format(kinds[2]) for text in (FINE, EARLY))
    columns = kinds + [kind.format(kinds[2]) for kind in nested]
    values = [FINE.format(kind) for kind in kinds]
    values += [value.format(fine, early) for value in nested.values()]
    names = ", ".join(f"c{n} {kind}" for n, kind in enumerate(columns))
    texts = [f"CAST(c{n} AS STRING)" for n in range(len(columns))]
    rows = []
    for form in ("cec", "parquet"):
        session.sql(f"CREATE TABLE t_{form} ({names}) USING {form} LOCATION '{tmp_path / form}'")
        session.sql(f"INSERT INTO t_{form} SELECT {', '.join(values)}")
        session.sql(f"INSERT INTO t_{form} SELECT {', '.join(['NULL'] * len(columns))}")
        some = session.table(f"t_{form}").where(f"c2 >= {fine} OR c2 IS NULL").selectExpr(*texts)
        rows.append(sorted(map(tuple, some.collect()), key=str))
    assert rows[0] == rows[1]
    assert rows[0][0][:3] == tuple(f"2026-01-01 12:34:56.1234567{more}" for more in ("", 8, 89))
    stored = read_queue(tmp_path / "cec").schema
    assert [str(stored.field(n).type) for n in (0, 3)] == ["timestamp[ns]", "timestamp[ns, tz=UTC]"]
    cut = session.read.format("cec").load(str(tmp_path / "cec")).selectExpr("CAST(c2 AS STRING)")
    assert ("2026-01-01 12:34:56.123456",) in cut.collect()


@needs_nanos
def test_a_time_that_nanoseconds_do_not_reach_is_refused(session: Any, tmp_path: Path) -> None:
    session.conf.set("spark.sql.timestampNanosTypes.enabled", "true")
    session.sql(
        f"CREATE TABLE t_cec (n INT, at TIMESTAMP_NTZ(9)) USING cec LOCATION '{tmp_path}/q'"
    )
    for text in ("0001-01-01", "9999-12-31"):
        insert = f"INSERT INTO t_cec SELECT 1, CAST('{text}' AS TIMESTAMP_NTZ(9))"
        said = refused(lambda insert=insert: session.sql(insert))
        assert "row 0 of its task has a time before 1677 or after 2262, in a column of at (" in said
    assert queue_at(tmp_path / "q").ends() == {0: 0}


@needs_nanos
def test_a_column_of_nanoseconds_says_when_a_row_is(session: Any, tmp_path: Path) -> None:
    session.conf.set("spark.sql.timestampNanosTypes.enabled", "true")
    options = "OPTIONS (timestampColumn 'at')"
    columns = f"(at TIMESTAMP_NTZ(9)) USING cec {options}"
    session.sql(f"CREATE TABLE t_cec {columns} LOCATION '{tmp_path}/q'")
    for text in (FINE, EARLY):
        session.sql(f"INSERT INTO t_cec SELECT {text.format('TIMESTAMP_NTZ(9)')}")
    rows = session.read.format("cec").option("includeMetadata", True).load(f"{tmp_path}/q")
    micros = sorted(row[0] for row in rows.selectExpr("unix_micros(_timestamp)").collect())
    stored = read_queue(tmp_path / "q").read_all()["at"].cast(pa.timestamp("us"), safe=False)
    assert micros == sorted(stored.cast(pa.int64()).to_pylist())


VARIANTS = {
    "v": "if(id = 1, NULL, parse_json('{\"a\":' || id || ',\"b\":[true,null]}'))",
    "a": "array(parse_json('1'), NULL)",
    "s": "named_struct('x', parse_json('\"t\"'), 'y', id)",
    "m": "map('k', parse_json('2.5'))",
}


def test_variants_come_back_and_are_arrow_s_extension_type(session: Any, tmp_path: Path) -> None:
    """The same rows, as text, as of Parquet; a stream takes them on."""
    shown = ["id", "to_json(v)", "variant_get(v, '$.a', 'int')", "CAST(a AS STRING)"]
    shown += ["to_json(s)", "to_json(m)", "CAST(s.x AS STRING)", "CAST(m['k'] AS STRING)"]
    rows = session.range(4).selectExpr("id", *(f"{term} {name}" for name, term in VARIANTS.items()))
    texts = []
    for form in ("cec", "parquet"):
        rows.write.format(form).mode("append").save(f"{tmp_path}/{form}")
        stored = session.read.format(form).load(f"{tmp_path}/{form}")
        assert stored.schema.simpleString() == rows.schema.simpleString()
        texts.append(sorted(map(tuple, stored.where("id > 0").selectExpr(*shown).collect())))
    assert texts[0] == texts[1]
    field = read_queue(tmp_path / "cec").schema.field("v")
    assert same_types.extension_name(field) == "arrow.parquet.variant"
    session.sql(f"CREATE TABLE t_cec USING cec LOCATION '{tmp_path}/cec'")
    writer = (
        session.readStream.table("t_cec")
        .writeStream.format("cec")
        .option("checkpointLocation", f"{tmp_path}/checkpoint")
    )
    writer.trigger(availableNow=True).start(f"{tmp_path}/out").awaitTermination()
    taken = session.read.format("cec").load(f"{tmp_path}/out").where("id > 0").selectExpr(*shown)
    assert sorted(map(tuple, taken.collect())) == texts[0]


def test_the_parts_of_variants_stand_in_either_order(session: Any, tmp_path: Path) -> None:
    parts = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    variant = {"ARROW:extension:name": "arrow.parquet.variant", "ARROW:extension:metadata": ""}
    schema = pa.schema([pa.field("v", parts, metadata=variant)])
    with cec_store.open_queue(tmp_path / "q", "x", schema=schema, partitions=1):
        pass
    rows = session.sql("SELECT parse_json('{\"z\":1}') v")
    rows.write.format("cec").mode("append").save(f"{tmp_path}/q")
    stored = session.read.format("cec").load(f"{tmp_path}/q")
    assert [tuple(row) for row in stored.selectExpr("to_json(v)").collect()] == [('{"z":1}',)]
    assert read_queue(tmp_path / "q").schema.equals(schema, check_metadata=True)
    other = session.sql("SELECT named_struct('value', X'00', 'metadata', X'00') v").write
    said = refused(lambda: other.format("cec").mode("append").save(f"{tmp_path}/q"))
    assert "v: VARIANT in the queue, STRUCT<value: BINARY, metadata: BINARY> in the query" in said


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


def test_a_null_in_such_a_column_is_told_where_nobody_reads_the_column(
    session: Any, tmp_path: Path
) -> None:
    """Spark makes a count of all rows of it. `IS NULL` it answers without looking."""
    path = str(tmp_path / "q")
    rows = "SELECT * FROM VALUES (1, 'a'), (2, null) AS t(id, item)"
    session.sql(rows).write.format("cec").mode("append").save(path)
    columns = "id INT, item STRING NOT NULL"
    session.sql(f"CREATE TABLE t_counted ({columns}) USING cec LOCATION '{path}'")
    for query in (
        "SELECT count(item) FROM t_counted",
        "SELECT id FROM t_counted WHERE item IS NOT NULL",
        "SELECT item FROM t_counted",
    ):
        said = refused(lambda query=query: session.sql(query).collect())
        assert "1 nulls in column 'item', which the table says is NOT NULL" in said
    session.sql(f"CREATE TABLE t_sound (id INT NOT NULL, item STRING) USING cec LOCATION '{path}'")
    assert session.sql("SELECT count(item), count(id), count(*) FROM t_sound").first() == (1, 2, 2)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (
            "STRUCT<x: INT NOT NULL, y: INT>",
            "named_struct('x', 1, 'y', 2)",
            "named_struct('x', null, 'y', 2)",
        ),
        ("ARRAY<STRUCT<x: INT NOT NULL>>", "array(null)", "array(named_struct('x', null))"),
        ("MAP<INT, STRUCT<x: INT NOT NULL>>", "map()", "map(1, named_struct('x', null))"),
        (
            "STRUCT<s: STRUCT<x: INT NOT NULL>>",
            "null",
            "named_struct('s', named_struct('x', null))",
        ),
    ],
)
def test_a_null_in_a_part_that_a_table_calls_not_null_is_told(
    session: Any, tmp_path: Path, kind: str, good: str, bad: str
) -> None:
    """Spark's code would take it for a zero."""
    plain = kind.replace(" NOT NULL", "")
    for name, value in (("good", good), ("bad", bad)):
        rows = session.sql(f"SELECT CAST({value} AS {plain}) AS c")
        rows.write.format("cec").mode("append").save(f"{tmp_path}/{name}")
        session.sql(f"CREATE TABLE t_cec (c {kind}) USING cec LOCATION '{tmp_path}/{name}'")
        if name == "good":
            assert session.table("t_cec").count() == len(session.table("t_cec").collect()) == 1
            session.sql("DROP TABLE t_cec")
    said = refused(lambda: session.table("t_cec").collect())
    assert "a null in a part of column 'c', which the table says is NOT NULL" in said
    assert session.read.format("cec").schema(f"c {kind}").load(f"{tmp_path}/bad").count() == 1


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


# -- a queue by its path ---------------------------------------------------------------------------


@pytest.fixture
def queue_path(spark: Any, table: str, tmp_path: Path) -> str:
    """The path of a queue with two rows, as SQL names it."""
    spark.sql(f"INSERT INTO {table} VALUES {VALUES}")
    return f"`{tmp_path}/q`"


def test_a_path_has_the_columns_and_rows_of_read_queue(
    spark: Any, queue_path: str, tmp_path: Path
) -> None:
    rows = spark.sql(f"SELECT * FROM cec.{queue_path}")
    arrow = read_queue(tmp_path / "q").read_all()
    assert rows.columns == arrow.column_names
    assert numbers(rows) == sorted(arrow.column("n").to_pylist()) == [1, 2]
    assert numbers(spark.table(f"CEC.{queue_path}")) == [1, 2]


def test_a_path_stands_wherever_a_table_does(spark: Any, queue_path: str) -> None:
    at = f"cec.{queue_path}"
    assert numbers(spark.sql(f"SELECT q.n FROM {at} q WHERE q.at >= TIMESTAMP'2026-01-02'")) == [2]
    joined = f"SELECT a.n FROM {at} a JOIN {at} b ON a.n = b.n + 1"
    assert numbers(spark.sql(joined)) == [2]
    within = f"SELECT n FROM trades WHERE n IN (SELECT max(n) FROM {at})"
    assert numbers(spark.sql(within)) == [2]
    assert numbers(spark.sql(f"WITH q AS (SELECT * FROM {at}) SELECT * FROM q")) == [1, 2]
    spark.sql(f"CREATE VIEW seen AS SELECT n FROM {at}")
    try:
        spark.sql("INSERT INTO trades VALUES (3, 'x', TIMESTAMP'2026-01-03 00:00:00')")
        assert numbers(spark.table("seen")) == [1, 2, 3]
    finally:
        spark.sql("DROP VIEW seen")


def test_a_path_takes_options_and_is_a_stream_as_well(
    spark: Any, queue_path: str, tmp_path: Path
) -> None:
    at = f"cec.{queue_path}"
    late = "'startingTimestamp' = '2026-01-02', 'startingOffsetsByTimestampStrategy' = 'latest'"
    assert numbers(spark.sql(f"SELECT * FROM {at} WITH ({late}, 'includeMetadata' = 'true')")) == [
        2
    ]
    said = refused(lambda: spark.sql(f"SELECT * FROM {at} WITH ('begin' = '1')"))
    assert "begin" in said
    earliest = spark.readStream.option("startingOffsets", "earliest").table(at)
    assert streamed(earliest, tmp_path / "stream") == [1, 2]


def test_a_path_without_a_queue_is_refused_by_its_name(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    for name in ("notes", "none"):
        said = refused(lambda name=name: spark.sql(f"SELECT * FROM cec.`{tmp_path}/{name}`"))
        assert f"{tmp_path}/{name}" in said
    assert not (tmp_path / "none").exists()


def test_a_table_of_a_database_goes_before_a_path(spark: Any, queue_path: str) -> None:
    spark.sql("CREATE DATABASE cec")
    try:
        spark.sql("CREATE TABLE cec.other USING parquet AS SELECT 7 AS n")
        assert numbers(spark.sql("SELECT * FROM cec.other")) == [7]
        assert numbers(spark.sql(f"SELECT * FROM cec.{queue_path}")) == [1, 2]
    finally:
        spark.sql("DROP DATABASE cec CASCADE")
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    try:
        assert "TABLE_OR_VIEW_NOT_FOUND" in refused(
            lambda: spark.sql(f"SELECT * FROM cec.{queue_path}")
        )
    finally:
        spark.conf.unset("spark.sql.runSQLOnFiles")
