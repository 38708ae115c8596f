"""Operators that evict say of random streams, batch by batch, what they say on Spark's stores."""

from pathlib import Path
from typing import Any

import pytest

from support.runs.counts import CRASH_FULL
from support.runs.suites import Tally
from support.spark.runs import unproven
from support.watermarks.differing import Case
from support.watermarks.operators import GROUPS
from support.watermarks.streams import Stream

STREAMS = 200 if CRASH_FULL else 1
ROCKSDB_EVERY = 4
"""One stream in so many runs on RocksDB as well, which is as slow as the others together."""

pytestmark = [
    pytest.mark.crash,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(STREAMS))
@pytest.mark.parametrize("name", GROUPS)
def test_random_stream_is_evicted_as_on_sparks_stores(
    spark: Any, tmp_path: Path, tally: Tally, name: str, seed: int
) -> None:
    case = Case(spark, Stream(f"{name}/{seed}"), GROUPS[name], tmp_path)
    number = seed + list(GROUPS).index(name)
    stores = case.stores(has_rocksdb=number % ROCKSDB_EVERY == 0)
    runs = case.run(stores)
    reference = runs.pop("hdfs")
    tally(len(GROUPS[name].operators))
    assert sum(map(len, reference.rows.values())) > 0
    if GROUPS[name].evicts:
        assert reference.removed() > 0
    for store, run in runs.items():
        assert case.differences(run, reference) == [], store
    assert unproven(runs["cec"], stores["cec"]) == []
