"""`transformWithState` says in each batch what it says on RocksDB, restarts included."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cec_store import read_state
from support.runs.counts import CRASH_FULL
from support.spark.queries import StreamQuery
from support.spark.runs import FEW_RECORDS, Job, Kept, Run, differences, unproven
from support.spark.session import CEC, ROCKSDB
from support.spark.transforms import (
    chained,
    pandas_of_python,
    rows_of_python,
    run_transforms,
    scala,
)

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
# In processing time such a query always wants another batch, and `availableNow` never ends.
SCALA = [scala("event")]
MORE = [scala("none", "no timers")]


def both(spark: Any, query: StreamQuery, folder: Path, version: int, **more: Any) -> list[Run]:
    ours = Kept(CEC, version, **more)
    jobs = [
        Job(query, folder / "rocksdb", Kept(ROCKSDB, version)),
        Job(query, folder / "cec", ours),
    ]
    reference, run = run_transforms(spark, *jobs)
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
    """Spark's reader on either store, and ours without Spark."""
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


@pytest.mark.parametrize("build", [rows_of_python, pandas_of_python], ids=lambda b: b.__name__)
def test_python_says_what_it_says_on_rocksdb(spark: Any, tmp_path: Path, build: Any) -> None:
    both(spark, build(), tmp_path, 2)


@pytest.mark.skipif(not CRASH_FULL, reason="at full size only: the other queries show as much")
def test_an_operator_behind_it_says_what_it_says_on_rocksdb(spark: Any, tmp_path: Path) -> None:
    both(spark, chained(), tmp_path, 1)
