"""Queries of `transformWithState` say the same whether they are taken elsewhere or not."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pandas as pd
from pyspark.errors import StreamingQueryException

from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.setup.settings import AVRO, ENCODING_KEY
from cec_store.errors import MoveRefused
from support.runs.counts import CRASH_FULL
from support.spark.clocked import STEP_MS, run_clocked
from support.spark.moves import Leg, go, state_of, without_partitions
from support.spark.queries import StreamQuery
from support.spark.runs import Job, Kept
from support.spark.session import CEC, ROCKSDB
from support.spark.transforms import (
    FORMS,
    chained,
    evolving,
    of_fields,
    pandas_of_python,
    rows_of_python,
    scala,
)

pytestmark = [
    pytest.mark.crash,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
PANDAS = pandas_of_python()
QUERIES = [rows_of_python(), PANDAS, chained(), scala("none", "no timers")]
# By a clock that the test moves: timers of processing time, and times to live that are over.
BY_THE_CLOCK = [rows_of_python(STEP_MS + 1, is_event_time=False)]
MORE_BY_THE_CLOCK = [scala("processing", ttl) for ttl in ("none", "value", "list", "map")]
LIVES = 4


@pytest.mark.skipif(not CRASH_FULL, reason="at full size only: the queries below show as much")
@pytest.mark.parametrize("query", QUERIES, ids=lambda each: each.name)
@pytest.mark.parametrize("version", [1, 2])
def test_each_batch_is_as_without_the_moves(
    spark: Any, tmp_path: Path, query: StreamQuery, version: int
) -> None:
    kept, files = Kept(ROCKSDB, version), (2, 2, 1, 1)
    due = go(spark, query, tmp_path / "stays", kept, [Leg(each) for each in files])
    moves = [
        Leg(files[0]),
        Leg(files[1], "adopt"),
        # In pandas there is state that cannot be moved so: see below.
        Leg(files[2], "" if query.name == PANDAS.name else "repartition", partitions=3),
        Leg(files[3], "release", provider="rocksdb"),
    ]
    got = go(spark, query, tmp_path / "moves", kept, moves)
    assert sum(map(len, due.run.rows.values())) > 100
    assert got.run.rows == due.run.rows
    assert got.states[:2] == due.states[:2]
    assert [*map(without_partitions, got.states)] == [*map(without_partitions, due.states)]
    assert sum(map(bool, got.states[-1].values())) >= 3


@pytest.mark.parametrize(
    "query", [*BY_THE_CLOCK, *(MORE_BY_THE_CLOCK if CRASH_FULL else [])], ids=lambda each: each.name
)
def test_times_go_on_where_they_were(spark: Any, tmp_path: Path, query: StreamQuery) -> None:
    """A value that is over by the next batch is so in the new place, and a timer fires there."""

    def move(life: int, checkpoint: Path) -> Path:
        new = tmp_path / f"moved-{life}"
        if life == 1:
            cec_spark.adopt(spark, checkpoint, new)
        elif life == 2:
            cec_spark.repartition(spark, checkpoint, new, partitions=3)
        else:
            cec_spark.release(spark, checkpoint, new)
        before, after = (without_partitions(state_of(spark, each)) for each in (checkpoint, new))
        assert after == before
        assert any(before.values())
        return new

    kept = Kept(ROCKSDB, 1)
    [due] = run_clocked(spark, Job(query, tmp_path / "stays", kept, lives=LIVES))
    [got] = run_clocked(spark, Job(query, tmp_path / "moves", kept, lives=LIVES), move=move)
    assert got.rows == due.rows
    assert "".join(row for rows in due.rows.values() for row in rows).count('"what":"timer"') > 10


# Before the query gets its other form, or after. What the last form does not declare is refused.
EVOLUTIONS = [("more", 2), *([("more", 1), ("another", 1)] if CRASH_FULL else [])]


@pytest.mark.parametrize(("form", "moved"), EVOLUTIONS)
def test_other_variables_are_taken_as_without_the_move(
    spark: Any, tmp_path: Path, form: str, moved: int
) -> None:
    kept, forms = Kept(ROCKSDB, 1), [evolving("first"), *[evolving(form)] * 2]

    def legs(move: int) -> list[Leg]:
        return [
            Leg(2, "adopt" if number == move else "", query=query)
            for number, query in enumerate(forms)
        ]

    due = go(spark, forms[0], tmp_path / "stays", kept, legs(-1))
    got = go(spark, forms[0], tmp_path / "moves", kept, legs(moved))
    assert sum(map(bool, due.run.rows.values())) == 6
    assert got.run.rows == due.run.rows
    assert got.states == due.states


def test_a_variable_that_does_not_fit_is_refused_after_the_move(spark: Any, tmp_path: Path) -> None:
    query, kept = evolving("first"), Kept(ROCKSDB, 1)
    legs = [Leg(1), Leg(1, "adopt"), Leg(1, query=evolving("wider"))]
    with pytest.raises(StreamingQueryException) as refused:
        go(spark, query, tmp_path, kept, legs)
    named = re.findall(r"\[([A-Z_.]+)\]", str(refused.value))
    assert named[-1] == "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"


def test_state_that_stands_where_its_key_is_not_of_is_not_moved_to_other_partitions(
    spark: Any, tmp_path: Path
) -> None:
    """From pandas 3 on a null key is kept as a text, in the partition of the null."""
    if int(pd.__version__.split(".")[0]) < 3:
        pytest.skip("pandas before 3 keeps a null key as a null")
    done = go(spark, PANDAS, tmp_path, Kept(CEC, 2), [Leg(1)])
    with pytest.raises(MoveRefused, match="under a key that Spark's exchange sends elsewhere"):
        cec_spark.repartition(spark, done.checkpoints[0], tmp_path / "new", partitions=3)
    assert not (tmp_path / "new").exists()


def test_ours_have_no_provider_to_go_to_that_knows_no_families(spark: Any, tmp_path: Path) -> None:
    query = scala("none", "no timers")
    done = go(spark, query, tmp_path, Kept(CEC, 1), [Leg(1)])
    with pytest.raises(MoveRefused, match="transformWithState"):
        cec_spark.release(spark, done.checkpoints[0], tmp_path / "new", provider="hdfs")
    assert not (tmp_path / "new").exists()


def test_state_in_avro_is_taken_along_between_forms(spark: Any, tmp_path: Path) -> None:
    """Rows of older forms are in the newest one after a move; what comes next reads either."""
    pytest.importorskip("fastavro")
    kept = Kept(ROCKSDB, 2, {ENCODING_KEY: AVRO})
    queries = [of_fields(form) for form in FORMS]
    moves = ["", "", "adopt", "repartition", "release"]
    legs = [
        Leg(1, move, partitions=3, provider="rocksdb", query=query)
        for move, query in zip(moves, queries, strict=True)
    ]
    due = go(spark, queries[0], tmp_path / "stays", kept, [replace(leg, move="") for leg in legs])
    got = go(spark, queries[0], tmp_path / "moves", kept, legs)
    assert sum(map(bool, due.run.rows.values())) == len(FORMS)
    assert got.run.rows == due.run.rows
    assert [*map(without_partitions, got.states)] == [*map(without_partitions, due.states)]
    assert cec_spark.compare(spark, got.checkpoints[-1], due.checkpoints[-1]).is_same
