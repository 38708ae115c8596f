"""`transformWithState` says in each batch what it says on RocksDB, restarts included."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cec_store import read_state
from support.command_line.variables import require_agreement
from support.runs.counts import CRASH_FULL
from support.runs.minors import needs_transform_in_rows
from support.spark.clocked import STEP_MS, run_clocked
from support.spark.queries import StreamQuery
from support.spark.runs import FEW_RECORDS, Job, Kept, Run, differences, unproven
from support.spark.session import CEC, ROCKSDB
from support.spark.transforms import (
    chained,
    evolving,
    pandas_of_python,
    rows_of_python,
    run_life,
    run_transforms,
    scala,
)

pytestmark = [
    pytest.mark.crash,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
SCALA = [scala("event")]
MORE = [scala("none", "no timers")]
# In processing time such a query always wants another batch, and `availableNow` never ends: these
# run by a clock that the test moves. Of one variable all is over by the next batch.
BY_THE_CLOCK = [scala("processing", "list")]
MORE_BY_THE_CLOCK = [
    scala("processing"), scala("processing", "value"), scala("processing", "map"),
    rows_of_python(is_event_time=False), rows_of_python(STEP_MS + 1, is_event_time=False),
]  # fmt: skip


Runner = Callable[..., list[Run]]


def both(
    spark: Any, query: StreamQuery, folder: Path, version: int, runner: Runner = run_transforms,
    **more: Any,
) -> list[Run]:  # fmt: skip
    ours = Kept(CEC, version, **more)
    jobs = [
        Job(query, folder / "rocksdb", Kept(ROCKSDB, version)),
        Job(query, folder / "cec", ours),
    ]
    reference, run = runner(spark, *jobs)
    assert sum(map(len, reference.rows.values())) > 100
    assert differences(run, reference) == []
    assert unproven(run, ours) == []
    return [reference, run]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("query", [*SCALA, *(MORE if CRASH_FULL else [])], ids=lambda q: q.name)
def test_scala_says_what_it_says_on_rocksdb(
    spark: Any, tmp_path: Path, query: StreamQuery, version: int
) -> None:
    more = {"settings": FEW_RECORDS} if version == 2 else {}
    reference, _ = both(spark, query, tmp_path, version, **more)
    said = Counter(row[1] for rows in reference.rows.values() for row in rows)
    assert max(int(what.split()[1]) for what in said if what.startswith("item")) > 10
    assert said["part"] > 10
    assert (said["timer"] > 10) is (query.name != "scala_none_no_timers")
    if query.name == "scala_event":
        require_readers_to_agree(spark, tmp_path)


def require_readers_to_agree(spark: Any, folder: Path) -> None:
    """Spark's reader on either store, ours without Spark, and the verbs of the command line."""
    require_agreement(folder / "cec" / "checkpoint", "total", "items", "parts")
    for variable, columns in (
        ("total", ["key", "value"]),
        ("items", ["key", "list_element"]),
        ("parts", ["key", "user_map_key", "user_map_value"]),
        ("timers", ["key", "expiration_timestamp_ms"]),
    ):
        named = (
            ("readRegisteredTimers", "true") if variable == "timers" else ("stateVarName", variable)
        )
        answers = []
        for store in ("rocksdb", "cec"):
            reader = spark.read.format("statestore").option(*named)
            frame = reader.load(str(folder / store / "checkpoint")).select("partition_id", *columns)
            answers.append([row.asDict(recursive=True) for row in frame.collect()])
        ours = read_state(folder / "cec" / "checkpoint", variable=variable).to_pylist()
        assert len(ours) > 3
        for answer in answers:
            assert sorted(map(by_name, answer)) == sorted(map(by_name, ours))
        if variable == "items":  # in the order of the list
            assert of_lists(ours) == of_lists(answers[0]) == of_lists(answers[1])


def by_name(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


def of_lists(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(repr(row["key"]), []).append(repr(row["list_element"]))
    return found


@pytest.mark.parametrize(
    "build", [pytest.param(rows_of_python, marks=needs_transform_in_rows), pandas_of_python],
    ids=["rows_of_python", "pandas_of_python"],
)  # fmt: skip
def test_python_says_what_it_says_on_rocksdb(spark: Any, tmp_path: Path, build: Any) -> None:
    both(spark, build(), tmp_path, 2)


@pytest.mark.skipif(not CRASH_FULL, reason="at full size only: the other queries show as much")
def test_an_operator_behind_it_says_what_it_says_on_rocksdb(spark: Any, tmp_path: Path) -> None:
    both(spark, chained(), tmp_path, 1)


@pytest.mark.parametrize(
    "query", [*BY_THE_CLOCK, *(MORE_BY_THE_CLOCK if CRASH_FULL else [])], ids=lambda q: q.name
)
def test_processing_time_says_what_it_says_on_rocksdb(
    spark: Any, tmp_path: Path, query: StreamQuery
) -> None:
    """Timers that fire, one that sets itself again for a moment that is over, times to live."""
    reference, _ = both(spark, query, tmp_path, 2, run_clocked)
    text = "".join(row for rows in reference.rows.values() for row in rows)
    assert text.count('"what":"timer"') > 10
    assert len(reference.rows) == 10


# By what the second form does: adds a list, drops the value and adds a list, and makes of the
# value one of more columns, or a list.
NOT_COMPATIBLE = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
EVOLUTIONS = {"more": None, "another": None, "wider": NOT_COMPATIBLE, "list": NOT_COMPATIBLE}


@pytest.mark.parametrize("form", EVOLUTIONS if CRASH_FULL else ["more", "wider"])
def test_other_variables_are_taken_or_refused_as_on_rocksdb(
    spark: Any, tmp_path: Path, form: str
) -> None:
    said = [evolved(spark, tmp_path / store, kept, form)
            for store, kept in (("rocksdb", Kept(ROCKSDB, 1)), ("cec", Kept(CEC, 1)))]  # fmt: skip
    assert said[0] == said[1]
    rows, condition = said[1]
    assert sum(map(bool, rows.values())) == (3 if EVOLUTIONS[form] else 6)
    assert condition == EVOLUTIONS[form]


def evolved(
    spark: Any, folder: Path, kept: Kept, form: str
) -> tuple[dict[int, list[Any]], str | None]:
    """The rows of a query that comes back in another form, and Spark's condition if it fails."""
    from pyspark.errors import StreamingQueryException

    job = Job(evolving("first"), folder, kept)
    done = Run(folder / "checkpoint")
    run_life(spark, job, 0, done)
    try:
        run_life(spark, replace(job, query=evolving(form)), 1, done)
    except StreamingQueryException as error:
        return done.rows, re.findall(r"\[([A-Z_.]+)\]", str(error))[-1]
    return done.rows, None
