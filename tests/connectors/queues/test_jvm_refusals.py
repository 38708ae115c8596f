"""What the sink in the JVM refuses, in the words of the one in Python, and before it writes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException

import cec_store
from support.runs.minors import needs_nanos
from support.spark.jvm_sink import JVM, frame, objects, queue_at, refused, writer


def test_what_is_no_queue_by_reference_is_refused_and_stays(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    assert "not empty" in refused(lambda: writer(frame(spark)).save(str(tmp_path / "full")))
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["notes.txt"]
    with cec_store.open_queue(tmp_path / "plain", "x", schema=pa.schema([("n", pa.int64())])):
        pass
    said = refused(lambda: writer(frame(spark)).save(str(tmp_path / "plain")))
    assert "a queue without partitions" in said


def test_no_queue_is_made_over_rows_whose_commits_are_lost(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "q"
    writer(frame(spark)).save(str(path))
    shutil.rmtree(path / "log")
    before = objects(path)
    said = refused(lambda: writer(frame(spark)).save(str(path)))
    assert "the commit that made the queue is missing, and data/" in said
    assert "restore log/ from a copy" in said
    assert objects(path) == before
    for name in before:
        (path / name).unlink()
    writer(frame(spark)).save(str(path))
    assert queue_at(path).ends()


def test_other_columns_are_refused_and_change_nothing(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "q"
    writer(frame(spark), timestampColumn="at").save(str(path))
    before = sorted(path.rglob("*"))
    said = refused(lambda: writer(spark.range(5), timestampColumn="id").save(str(path)))
    assert "n: not in the query; item: not in the query; at: not in the query" in said
    assert "id: not in the queue; timestampColumn: at in the queue, id in the query" in said
    rows = spark.range(5).selectExpr("id n", "1 item", "timestamp_seconds(id) at")
    said = refused(lambda: writer(rows, timestampColumn="at").save(str(path)))
    assert said.splitlines()[0].endswith("item: STRING in the queue, INT in the query")
    said = refused(lambda: writer(frame(spark), timestampColumn="n").save(str(path)))
    assert "differ from the queue's: timestampColumn: at in the queue, n in the query" in said
    assert sorted(path.rglob("*")) == before


def test_one_column_is_not_two_of_the_queue(spark: Any, tmp_path: Path) -> None:
    """Names that differ in case only are the same for most sessions."""
    path = tmp_path / "q"
    schema = pa.schema([("a", pa.int32()), ("A", pa.int32())])
    cec_store.open_queue(path, "a", schema=schema, partitions=1)
    said = refused(lambda: writer(spark.sql("SELECT 7 a")).save(str(path)))
    assert "A: not in the query" in said
    said = refused(lambda: writer(spark.sql("SELECT 7 A")).save(str(path)))
    assert "a: not in the query" in said
    assert cec_store.read_queue(path).read_all().num_rows == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timestampColumn": "when"}, "no timestamp column 'when'"),
        ({"timestampColumn": "item"}, "timestamps are an Arrow timestamp or int64 microseconds"),
        ({"keyColumns": "item, who"}, "no key column 'who'"),
        ({"compression": "x"}, "no option 'compression'"),
        ({"segmentBytes": "100"}, "segmentBytes is 4096 to 1073741824, in bytes, not '100'"),
        ({"retention": "soon"}, "no retention: 'soon'"),
        ({"txnAppId": "a/b", "txnVersion": "1"}, "go together, not 'a/b' and '1'"),
        ({"singleWriter": "yes"}, "singleWriter is true or false, not 'yes'"),
    ],
)
def test_bad_options_are_refused(
    spark: Any, tmp_path: Path, options: dict[str, str], words: str
) -> None:
    assert words in refused(lambda: writer(frame(spark), **options).save(str(tmp_path / "q")))
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("id as _n", "names that start with _ are reserved"),
        ("make_ym_interval(1, 2) as i", "column 'i' is interval year to month, which a queue"),
        ("interval '1' month as i", "write the number of months as an INT"),
        ("array(named_struct('v', interval '1' month)) as a", "write the number of months"),
        ("'x' collate UNICODE_CI as c", "write a cast to STRING"),
        ("named_struct('a', 1, 'a', 2) as s", "write other names for the fields"),
    ],
)
def test_columns_that_would_not_come_back_are_refused(
    spark: Any, tmp_path: Path, sql: str, words: str
) -> None:
    rows = spark.range(1).selectExpr(sql)
    assert words in refused(lambda: writer(rows).save(str(tmp_path / "q")))
    assert not (tmp_path / "q").exists()


@needs_nanos  # which came with geometries
def test_geometries_are_refused_by_name(spark: Any, tmp_path: Path) -> None:
    point = "X'0101000000000000000000F03F0000000000000040'"
    for kind in ("geom", "geog"):
        rows = spark.range(1).selectExpr(f"st_{kind}fromwkb({point}) as g")
        said = refused(lambda rows=rows: writer(rows).save(str(tmp_path / "q")))
        assert f"column 'g' is {kind}" in said
        assert "write `st_asbinary(column)`" in said
    assert not (tmp_path / "q").exists()


def test_overwriting_is_refused(spark: Any, tmp_path: Path) -> None:
    rows = frame(spark).write.format(JVM)
    assert "only appended to" in refused(lambda: rows.mode("overwrite").save(str(tmp_path / "q")))
    assert "there is no path" in refused(lambda: writer(frame(spark)).save())


def test_a_null_timestamp_fails_the_write_and_shows_nothing(spark: Any, tmp_path: Path) -> None:
    rows = spark.sql("select 1 as n, cast(null as timestamp) as at")
    said = refused(lambda: writer(rows, timestampColumn="at").save(str(tmp_path / "q")))
    assert "1 timestamps are null" in said
    assert queue_at(tmp_path / "q").ends() == {0: 0}
    assert objects(tmp_path / "q") == set()


def condition_of(act: Callable[[], Any]) -> str | None:
    with pytest.raises(PySparkException) as caught:
        act()
    condition: str | None = caught.value.getCondition()
    assert f"[{condition}]" in str(caught.value).splitlines()[0]
    return condition


def test_errors_are_pysparks_own_with_a_condition_of_each_kind(spark: Any, tmp_path: Path) -> None:
    path, none, other = str(tmp_path / "q"), str(tmp_path / "none"), str(tmp_path / "other")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    writer(frame(spark)).save(path)
    read, follow = spark.read.format(JVM), spark.readStream.format(JVM)
    for act, condition in (
        (lambda: read.load(none), "PATH_NOT_FOUND"),
        (lambda: follow.load(none), "PATH_NOT_FOUND"),
        (lambda: read.load(other), "CEC_NOT_A_QUEUE"),
        (lambda: writer(frame(spark)).save(other), "CEC_NOT_A_QUEUE"),
        (lambda: spark.read.format(JVM).option("from", "1").load(path), "CEC_OPTION"),
        (lambda: writer(frame(spark), to="1").save(path), "CEC_OPTION"),
        (lambda: writer(spark.range(1)).save(path), "CEC_COLUMNS"),
        (lambda: spark.read.format(JVM).schema("m INT").load(path).collect(), "CEC_COLUMNS"),
        (lambda: writer(frame(spark)).mode("overwrite").save(path), "CEC_ONLY_APPEND"),
        (lambda: spark.read.parquet(none), "PATH_NOT_FOUND"),
    ):
        assert condition_of(act) == condition
    with pytest.raises(AnalysisException) as caught:
        writer(spark.range(1)).save(path)
    assert caught.value.getMessageParameters()["queue"] == path
    commit = max((tmp_path / "q" / "log").rglob("*.commit"))
    commit.write_bytes(commit.read_bytes()[:-1] + b"x")
    assert condition_of(lambda: spark.read.format(JVM).load(path).collect()) == "CEC_DAMAGED"
    commit.unlink()
    commit.symlink_to(tmp_path / "nowhere")
    with pytest.raises(AnalysisException) as caught:
        spark.read.format(JVM).load(path).collect()
    said = dict(caught.value.getMessageParameters())
    assert (caught.value.getCondition(), said["path"]) == ("CEC_LOG", str(commit))


def test_errors_say_which_option_column_or_path_it_was(spark: Any, tmp_path: Path) -> None:
    path, other = str(tmp_path / "q"), str(tmp_path / "other")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    writer(frame(spark)).save(path)

    def read(**options: str) -> Any:
        return spark.read.format(JVM).options(**options).load(path).collect()

    columns = "n, item, at, id"
    beyond = json.dumps({str(number): 10**9 for number in queue_at(path).ends()})
    reserved = spark.sql("select 1 as _n")
    for act, condition, wanted in (
        (lambda: read(fro="1"), "CEC_OPTION", {"option": "fro"}),
        (lambda: read(minPartitions="x"), "CEC_OPTION", {"option": "minPartitions"}),
        (
            lambda: writer(frame(spark), segmentBytes="1").save(path),
            "CEC_OPTION",
            {"option": "segmentBytes"},
        ),
        (lambda: spark.read.format(JVM).load(other), "CEC_NOT_A_QUEUE", {"path": other}),
        (
            lambda: writer(spark.range(1)).save(path),
            "CEC_COLUMNS",
            {"queue": path, "columns": columns},
        ),
        (
            lambda: spark.read.format(JVM).schema("m INT").load(path).collect(),
            "CEC_COLUMNS",
            {"queue": path, "columns": "m"},
        ),
        (lambda: writer(reserved).save(path + "2"), "CEC_COLUMNS", {"columns": "_n"}),
        (
            lambda: read(startingOffsets=beyond),
            "CEC_DATA_LOSS",
            {"queue": path, "partition": "0"},
        ),
    ):
        with pytest.raises(PySparkException) as caught:
            act()
        said = dict(caught.value.getMessageParameters())
        assert said.pop("reason") in str(caught.value)
        assert (caught.value.getCondition(), said) == (condition, wanted)
