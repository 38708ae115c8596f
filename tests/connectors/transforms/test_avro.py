"""State in Avro is as on RocksDB, while the variables of a query get other fields."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("fastavro")

from pyspark.errors import AnalysisException, StreamingQueryException

from cec_store import fork, read_state
from cec_store.connectors.spark.setup.settings import ENCODING_KEY
from support.command_line import verify
from support.command_line.variables import require_agreement
from support.places.checkpoints import tree_of
from support.runs.counts import CRASH_FULL
from support.runs.minors import READS_ROCKSDB_IN_V2, needs_transform_in_rows
from support.spark.clocked import run_clocked
from support.spark.queries import QUERIES, StreamQuery
from support.spark.runs import (
    FEW_RECORDS,
    NO_HEAP,
    Job,
    Kept,
    Run,
    differences,
    format_of,
    run,
    run_files,
    unproven,
)
from support.spark.session import CEC, HDFS, ROCKSDB
from support.spark.transforms import (
    FORMS,
    INITIAL,
    of_fields,
    of_fields_in_pandas,
    of_fields_in_rows,
    rows_of_python,
    run_life,
    run_transforms,
    scala,
)

pytestmark = [
    pytest.mark.crash,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
AVRO = {ENCODING_KEY: "avro"}
UNCHECKED = "spark.sql.streaming.unsupportedOperationCheck"
LIVES = len(FORMS) + 1
FIRST = ["n", "text", "gone", "inner", "tags"]
VARIABLES = ("last", "all", "parts")
Form = Callable[[str], StreamQuery]


def kept_by(provider: str, version: int = 1, **more: str) -> Kept:
    return Kept(provider, version, {**AVRO, **more})


def evolved(spark: Any, query: Form, folder: Path, kept: Kept) -> tuple[Run, str]:
    """A run over all forms, and Spark's condition for the one that cannot be next."""
    job = Job(query(FORMS[0]), folder, kept, lives=LIVES)
    done = Run(folder / "checkpoint")
    for life, form in enumerate(FORMS):
        run_life(spark, replace(job, query=query(form)), life, done)
    state = tree_of(done.checkpoint / "state")
    with pytest.raises(StreamingQueryException) as refused:
        run_life(spark, replace(job, query=query("refused")), LIVES - 1, done)
    assert tree_of(done.checkpoint / "state") == state
    run_life(spark, replace(job, query=query(FORMS[-1])), LIVES - 1, done)
    return done, re.findall(r"\[([A-Z_.]+)\]", str(refused.value))[-1]


def both(spark: Any, query: Form, folder: Path, version: int, **more: str) -> tuple[Run, Run]:
    """The same over all forms on RocksDB and on ours, which say the same in each batch."""
    theirs, said = evolved(spark, query, folder / "rocksdb", kept_by(ROCKSDB, version))
    kept = kept_by(CEC, version, **more)
    ours, ours_said = evolved(spark, query, folder / "cec", kept)
    assert said == ours_said == "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"
    text = repr(theirs.rows)
    assert all(f"'{form}'" in text for form in FORMS)
    assert text.count("'before'") > 50
    assert differences(ours, theirs) == []
    assert unproven(ours, kept) == []
    return theirs, ours


@pytest.mark.parametrize(("version", "more"), [(1, NO_HEAP), (2, FEW_RECORDS)])
def test_fields_that_come_go_widen_and_move_say_what_they_say_on_rocksdb(
    spark: Any, tmp_path: Path, version: int, more: dict[str, str]
) -> None:
    theirs, ours = both(spark, of_fields, tmp_path, version, **more)
    batches = sorted(batch for batch, rows in theirs.rows.items() if rows)
    assert len(batches) == LIVES
    # Format V2 as it began, in the middle and at its end.
    for batch in batches if CRASH_FULL else batches[::3] + batches[-1:] if version == 2 else []:
        require_readers_to_agree(spark, theirs.checkpoint, ours.checkpoint, batch)


def require_readers_to_agree(spark: Any, theirs: Path, ours: Path, batch: int) -> None:
    """Spark's reader on either store, and ours without Spark, of the state as a batch left it."""
    for variable in VARIABLES:
        mine = read_state(ours, variable=variable, version=batch + 1)
        assert mine.num_rows > 3
        is_v2 = (theirs / "commits" / "0").read_text("utf-8").startswith("v2")
        checkpoints = (theirs, ours) if READS_ROCKSDB_IN_V2 or not is_v2 else (ours,)
        for checkpoint in checkpoints:
            reader = spark.read.format("statestore").option("stateVarName", variable)
            with format_of(spark, checkpoint):
                frame = reader.option("batchId", batch).load(str(checkpoint)).toArrow()
            due = frame.select(mine.column_names)
            assert due.schema.types == mine.schema.types
            assert in_order(due.to_pylist()) == in_order(mine.to_pylist())


def variables_of(query: StreamQuery) -> tuple[str, ...]:
    is_scala = query.name.startswith("scala")
    return ("total", "items", "parts") if is_scala else ("count", "numbers", "parts")


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    """By key; the values of a list stay in their order."""
    return [repr(row) for row in sorted(rows, key=lambda row: repr((row["key"], *others(row))))]


def others(row: dict[str, Any]) -> list[Any]:
    return [] if "list_element" in row else [row[name] for name in row if name != "key"]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(of_fields_in_rows, marks=needs_transform_in_rows),
        pytest.param(
            of_fields_in_pandas,
            marks=pytest.mark.skipif(not CRASH_FULL, reason="at full size only: rows show as much"),
        ),
    ],
    ids=["rows", "pandas"],
)
def test_fields_in_python_say_what_they_say_on_rocksdb(
    spark: Any, tmp_path: Path, query: Form
) -> None:
    """With a state to begin with, which the last form still shows."""
    theirs, ours = both(spark, query, tmp_path, 2)
    told = [repr(rows).count(f"'text': '{INITIAL}'") for rows in theirs.rows.values() if rows]
    assert told[-1] > 0
    last = max(batch for batch, rows in theirs.rows.items() if rows)
    require_readers_to_agree(spark, theirs.checkpoint, ours.checkpoint, last)


@pytest.mark.parametrize(
    "query", [scala("event"), *([rows_of_python()] if CRASH_FULL else [])], ids=lambda q: q.name
)
def test_timers_and_a_state_to_begin_with_say_what_they_say_on_rocksdb(
    spark: Any, tmp_path: Path, query: StreamQuery
) -> None:
    kept = kept_by(CEC)
    theirs = Job(query, tmp_path / "rocksdb", kept_by(ROCKSDB))
    reference, ours = run_transforms(spark, theirs, Job(query, tmp_path / "cec", kept))
    assert sum(map(len, reference.rows.values())) > 100
    assert differences(ours, reference) == []
    assert unproven(ours, kept) == []
    require_agreement(ours.checkpoint, *variables_of(query))
    timers = read_state(ours.checkpoint, variable="timers").to_pylist()
    reader = spark.read.format("statestore").option("readRegisteredTimers", "true")
    due = reader.load(str(reference.checkpoint)).toArrow().select(list(timers[0])).to_pylist()
    assert len(due) > 3
    assert sorted(map(repr, timers)) == sorted(map(repr, due))


@pytest.mark.parametrize("ttl", ["list", *(["value", "map"] if CRASH_FULL else [])])
def test_times_to_live_say_what_they_say_on_rocksdb(spark: Any, tmp_path: Path, ttl: str) -> None:
    query, kept = scala("processing", ttl), kept_by(CEC)
    theirs = Job(query, tmp_path / "rocksdb", kept_by(ROCKSDB))
    reference, ours = run_clocked(spark, theirs, Job(query, tmp_path / "cec", kept))
    assert "".join(row for rows in reference.rows.values() for row in rows).count("timer") > 10
    assert differences(ours, reference) == []
    require_agreement(ours.checkpoint, *variables_of(query))


def test_operators_that_spark_gives_no_schemas_keep_plain_rows(spark: Any, tmp_path: Path) -> None:
    """Spark refuses them itself, on every store; and without its check of the plan they go on."""
    query, kept = QUERIES["deduplicate_then_aggregate"], kept_by(CEC, **FEW_RECORDS)
    with pytest.raises(AnalysisException, match="encoding format as avro is not supported"):
        run(spark, Job(query, tmp_path / "refused", kept))
    assert not (tmp_path / "refused" / "checkpoint" / "state").exists()
    kept = kept_by(CEC, **FEW_RECORDS, **{UNCHECKED: "false"})
    hdfs = Job(query, tmp_path / "hdfs", Kept(HDFS))
    reference, ours = run(spark, hdfs, Job(query, tmp_path / "cec", kept))
    assert differences(ours, reference) == []
    assert unproven(ours, kept) == []
    assert read_state(ours.checkpoint, operator=0).num_rows > 0


def test_a_fork_from_before_a_new_form_has_nothing_of_it(spark: Any, tmp_path: Path) -> None:
    first, kept = of_fields(FORMS[0]), kept_by(CEC)
    job = Job(first, tmp_path / "old", kept)
    old = Run(job.folder / "checkpoint")
    for file, form in enumerate(FORMS[:3]):
        run_files(spark, replace(job, query=of_fields(form)), 0, range(file, file + 1), old)
    forked, other = Run(tmp_path / "fork"), Run(tmp_path / "rocksdb" / "checkpoint")
    other_job = Job(first, tmp_path / "rocksdb", kept_by(ROCKSDB))
    run_files(spark, other_job, 0, range(1), other)
    fork(old.checkpoint, forked.checkpoint, batch=max(other.rows))
    for files in (range(1, 3), range(3, 4)):
        run_files(spark, job, 0, files, forked)
        run_files(spark, other_job, 0, files, other)
    assert {batch: other.rows[batch] for batch in forked.rows} == forked.rows
    assert sum(map(bool, forked.rows.values())) == 3
    newest = max(forked.rows)
    for variable in VARIABLES:
        rows = read_state(forked.checkpoint, variable=variable)
        assert rows.column(1 if variable != "parts" else 2).type.names == FIRST
    require_readers_to_agree(spark, other.checkpoint, forked.checkpoint, newest)
    assert verify.run("verify", "--deep", forked.checkpoint).exit_code == 0


def test_a_schema_that_no_file_has_is_named(spark: Any, tmp_path: Path) -> None:
    """Spark gives its stores the files that the metadata of an operator list."""
    job = Job(of_fields(FORMS[0]), tmp_path, kept_by(CEC), lives=3)
    done = Run(tmp_path / "checkpoint")
    for life, form in enumerate(FORMS[:2]):
        run_life(spark, replace(job, query=of_fields(form)), life, done)
    folder = done.checkpoint / "state" / "0" / "_metadata" / "v2"
    newest = max(folder.glob("[0-9]*"), key=lambda path: int(path.name))
    text = re.sub(r'("stateSchemaFilePaths":\[)"[^"]*",', r"\1", newest.read_text("utf-8"))
    newest.write_text(text, "utf-8")
    newest.with_name(f".{newest.name}.crc").unlink()
    named = "column family .* was written with schema 0, which no schema file"
    with pytest.raises(StreamingQueryException, match=named):
        run_life(spark, replace(job, query=of_fields(FORMS[1])), 2, done)
