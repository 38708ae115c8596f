"""What cannot be moved is refused by name before anything is written, and the old one stays."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.moving import moving
from cec_store.connectors.spark.moving.stored_rows import StoredRows
from cec_store.connectors.spark.setup.settings import PROVIDER_KEY
from cec_store.errors import CorruptLog, LeaseHeld, MoveRefused, NotACheckpoint, StorageError
from cec_store.storage.stores.folders import folder_at
from support.places.checkpoints import tree_of
from support.runs.minors import needs_newest
from support.spark.moves import Leg, go, without_partitions
from support.spark.queries import QUERIES
from support.spark.runs import Job, Kept, Run, start
from support.spark.session import CEC, HDFS, ROCKSDB
from support.spark.transforms import evolving, run_life

QUERY = QUERIES["aggregate_update"]


@pytest.fixture(scope="module")
def checkpoints(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of each provider, by its name; nobody changes these."""
    folder = tmp_path_factory.mktemp("kept")
    kept = {"hdfs": Kept(HDFS), "cec": Kept(CEC), "cec 2": Kept(CEC, 2)}
    return {
        name: go(spark, QUERY, folder / name.replace(" ", ""), each, [Leg(2)]).checkpoints[0]
        for name, each in kept.items()
    }


def with_conf(checkpoint: Path, new: Path, change: Callable[[dict[str, str]], None]) -> Path:
    """A copy, with other words in its offset logs."""
    shutil.copytree(checkpoint, new)
    for path in (new / "offsets").iterdir():
        if path.name.isdigit():
            version, said, *rest = path.read_text().split("\n")
            offsets = json.loads(said)
            change(offsets["conf"])
            path.write_text("\n".join([version, json.dumps(offsets), *rest]))
        else:
            path.unlink()
    return new


def with_begun_repartition(checkpoint: Path, new: Path) -> Path:
    """A copy in which Spark's own repartition has logged a batch, and was killed."""
    shutil.copytree(checkpoint, new)
    newest = Checkpoint(new).newest_batch()
    version, said, *rest = (new / "offsets" / str(newest)).read_text().split("\n")
    offsets = json.loads(said)
    offsets["conf"]["spark.sql.shuffle.partitions"] = "5"
    text = "\n".join([version, json.dumps(offsets), *rest])
    (new / "offsets" / str(newest + 1)).write_text(text)
    return new


def test_places_and_providers_that_do_not_fit(
    spark: Any, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    hdfs, ours = checkpoints["hdfs"], checkpoints["cec"]
    unknown = with_conf(hdfs, tmp_path / "a", lambda c: c.update({PROVIDER_KEY: "org.Other"}))
    silent = with_conf(hdfs, tmp_path / "b", lambda c: c.pop(PROVIDER_KEY) and None)
    lax = "spark.sql.streaming.statefulOperator.useStrictDistribution"
    old = with_conf(ours, tmp_path / "c", lambda c: c.update({lax: "false"}))
    lost, first_lost = tmp_path / "e", tmp_path / "f"
    for number, each in ((1, lost), (0, first_lost)):
        shutil.copytree(hdfs, each)
        shutil.rmtree(each / "state" / "0" / str(number))
    unnoted = tmp_path / "u"
    shutil.copytree(hdfs, unnoted)
    shutil.rmtree(unnoted / "state" / "0" / "_metadata")
    begun = with_begun_repartition(hdfs, tmp_path / "g")
    refused = with_begun_repartition(ours, tmp_path / "h")
    way_out = rf"starts no query on it: `cec-store fork {refused} NEW --batch [0-9]+`"
    new, taken = tmp_path / "new", tmp_path / "taken"
    taken.mkdir()
    before = tree_of(tmp_path)
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: cec_spark.adopt(spark, unknown, new), MoveRefused, "kept by org.Other"),
        (lambda: cec_spark.adopt(spark, silent, new), MoveRefused, "does not say which provider"),
        (lambda: cec_spark.adopt(spark, ours, new), MoveRefused, "by cec-store already"),
        (lambda: cec_spark.adopt(spark, lost, new), CorruptLog, "state/0/1.*missing"),
        (lambda: cec_spark.adopt(spark, first_lost, new), CorruptLog, "Spark cannot read"),
        (lambda: cec_spark.compare(spark, first_lost, hdfs), CorruptLog, "Spark cannot read"),
        (lambda: cec_spark.compare(spark, unnoted, unnoted), MoveRefused, "has noted nothing"),
        (lambda: cec_spark.adopt(spark, unnoted, new), MoveRefused, "has noted nothing"),
        (lambda: StoredRows(spark, Checkpoint(folder_at(unnoted)), 1), MoveRefused, "has noted"),
        (
            lambda: StoredRows(spark, Checkpoint(folder_at(hdfs)), 1).table(0, "old", 0),
            CorruptLog,
            "no store 'old'",
        ),
        (lambda: cec_spark.adopt(spark, begun, new), MoveRefused, "begun to repartition"),
        (lambda: cec_spark.release(spark, refused, new), MoveRefused, way_out),
        (lambda: cec_spark.repartition(spark, refused, new, partitions=3), MoveRefused, way_out),
        (lambda: cec_spark.adopt(spark, hdfs, taken), FileExistsError, "is there already"),
        (lambda: cec_spark.adopt(spark, hdfs, hdfs / "new"), StorageError, "is inside"),
        (lambda: cec_spark.adopt(spark, tmp_path, new), NotACheckpoint, "no checkpoint"),
        (lambda: cec_spark.release(spark, hdfs, new), MoveRefused, "not by cec-store"),
        (lambda: cec_spark.release(spark, ours, new, provider="other"), ValueError, "one of hdfs"),
        (
            lambda: cec_spark.release(spark, checkpoints["cec 2"], new, provider="hdfs"),
            MoveRefused,
            "format V2",
        ),
        (lambda: cec_spark.repartition(spark, hdfs, new, partitions=3), MoveRefused, "adopt it"),
        (lambda: cec_spark.repartition(spark, old, new, partitions=3), MoveRefused, "fewer"),
        *(
            (lambda n=n: cec_spark.repartition(spark, ours, new, partitions=n), ValueError, said)
            for n, said in [
                (0, "1 to 100,000"), (100_001, "1 to 100,000"), (True, "whole"), (2, "already"),
            ]
        ),
    ]  # fmt: skip
    for call, error, said in cases:
        with pytest.raises(error, match=said):
            call()
        assert tree_of(tmp_path) == before, said


@needs_newest
def test_join_state_of_a_format_with_unknown_kinds(spark: Any, tmp_path: Path) -> None:
    """Spark's RocksDB provider alone is given format 4, in which a key has several values."""
    conf = {"spark.sql.streaming.join.stateFormatVersion": "4"}
    join = QUERIES["join_inner"]
    moved = go(spark, join, tmp_path, Kept(ROCKSDB, 1, conf), [Leg(1)], reads_state=False)
    with pytest.raises(MoveRefused, match="join state of format 4"):
        cec_spark.adopt(spark, moved.checkpoints[0], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_state_of_a_variable_that_is_not_declared_any_more(spark: Any, tmp_path: Path) -> None:
    """Spark keeps it, and whoever declares the variable again has it again."""
    kept = Kept(ROCKSDB)
    job = Job(evolving("first"), tmp_path / "job", kept)
    done = Run(job.folder / "checkpoint")
    for life, form in enumerate(("first", "another")):
        run_life(spark, replace(job, query=evolving(form)), life, done)
    with pytest.raises(MoveRefused, match=r"has state of .*, which the query has not declared"):
        cec_spark.adopt(spark, done.checkpoint, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["job"]


def test_a_query_that_runs(spark: Any, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(checkpoints["hdfs"], copy)
    # Where the checkpoint has had it from: with another one the query would not stay.
    inputs = Job(QUERY, checkpoints["hdfs"].parent, Kept(HDFS)).inputs
    frame = QUERY.build(spark, inputs).writeStream.outputMode("update").format("noop")
    running = frame.option("checkpointLocation", str(copy)).start()
    try:
        with pytest.raises(MoveRefused, match="its query is running: stop it first"):
            cec_spark.adopt(spark, copy, tmp_path / "new")
        assert running.isActive
    finally:
        running.stop()
    lease = cec_spark.keep_alive(spark, copy)
    try:
        with pytest.raises(LeaseHeld, match="its query is running"):
            cec_spark.adopt(spark, copy, tmp_path / "new")
    finally:
        lease.release()
        spark.conf.unset("spark.sql.streaming.checkpointFileManagerClass")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_a_query_that_goes_on_meanwhile(
    spark: Any, checkpoints: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another process, without a lease: it is seen by what it writes."""
    copy = tmp_path / "copy"
    shutil.copytree(checkpoints["hdfs"], copy)
    newest = Checkpoint(copy).newest_batch()
    run = moving.StateJob.run

    def goes_on(job: Any, into: Any) -> Any:
        for log in ("offsets", "commits"):
            shutil.copy(copy / log / str(newest), copy / log / str(newest + 1))
        return run(job, into)

    monkeypatch.setattr(moving.StateJob, "run", goes_on)
    with pytest.raises(MoveRefused, match="it has gone on while it was read"):
        cec_spark.adopt(spark, copy, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"], "and nothing hidden is left"


def test_a_dry_run_writes_nothing(spark: Any, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    report = cec_spark.adopt(spark, checkpoints["hdfs"], tmp_path / "new", dry_run=True)
    assert (report.provider, report.rows) == (CEC, None)
    assert [*tmp_path.iterdir()] == []


def test_the_old_one_stays_as_it_is(
    spark: Any, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    old = checkpoints["cec"]
    before = tree_of(old)
    cec_spark.repartition(spark, old, tmp_path / "three", partitions=3)
    cec_spark.release(spark, old, tmp_path / "rocksdb")
    assert tree_of(old) == before
    copied = tmp_path / "copied"
    shutil.copytree(tmp_path / "rocksdb", copied)
    before = tree_of(copied)
    cec_spark.adopt(spark, copied, tmp_path / "again")
    assert tree_of(copied) == before
    before = tree_of(checkpoints["hdfs"])
    cec_spark.adopt(spark, checkpoints["hdfs"], tmp_path / "adopted")
    assert tree_of(checkpoints["hdfs"]) == before


def test_a_batch_that_was_begun_is_run_again(spark: Any, tmp_path: Path) -> None:
    """It was killed after it had logged what to read, and before it was done."""
    kept = Kept(ROCKSDB)
    due = go(spark, QUERY, tmp_path / "due", kept, [Leg(3)])
    job = Job(QUERY, tmp_path / "killed", kept)
    done = Run(job.folder / "checkpoint")
    start(spark, job, 0, range(3), done).awaitTermination()
    (done.checkpoint / "commits" / "2").unlink()
    report = cec_spark.adopt(spark, done.checkpoint, tmp_path / "new")
    assert (report.batch, report.pending) == (1, 2)
    again = Run(tmp_path / "new")
    start(spark, job, 0, range(3), again).awaitTermination()
    assert again.rows == {2: due.run.rows[2]}


def test_state_without_a_variable_that_was_taken_away(spark: Any, tmp_path: Path) -> None:
    """Of a list that is taken away by `deleteIfExists` Spark leaves the counts of its values."""
    forms = [evolving(form) for form in ("more", "less", "less", "more")]
    moves = ["", "", "adopt", "repartition"]
    legs = [Leg(1, move, 3, query=form) for move, form in zip(moves, forms, strict=True)]
    kept = Kept(ROCKSDB)
    due = go(spark, forms[0], tmp_path / "stays", kept, [replace(leg, move="") for leg in legs])
    got = go(spark, forms[0], tmp_path / "moves", kept, legs)
    assert got.run.rows == due.run.rows
    assert [*map(without_partitions, got.states)] == [*map(without_partitions, due.states)]
