"""Queues as tables: from SQL, by the session's catalog, and by Spark Connect."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cec_store.opening import queue_at, read_queue
from support.drivers import connect_job
from support.runs.counts import CRASH_FULL
from support.runs.minors import needs_python_sources
from support.spark.jvm_sink import refused

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
    rows = spark.readStream.option("startingOffsets", "earliest").table(table)
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "c"))
    spark.sql(f"CREATE TABLE copy ({COLUMNS}) USING cec LOCATION '{tmp_path}/copy'")
    try:
        query = writer.trigger(availableNow=True).toTable("copy")
        assert query.awaitTermination(120)
        assert numbers(spark.table("copy")) == [1, 2]
    finally:
        spark.sql("DROP TABLE copy")


def test_what_a_queue_cannot_do_is_refused(spark: Any, table: str, tmp_path: Path) -> None:
    spark.sql(f"INSERT INTO {table} VALUES {VALUES}")
    over = f"INSERT OVERWRITE {table} VALUES {VALUES}"
    assert "only appended to" in refused(lambda: spark.sql(over))
    for statement in (f"TRUNCATE TABLE {table}", f"DELETE FROM {table} WHERE n = 1"):
        assert "does not support" in refused(lambda statement=statement: spark.sql(statement))
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
