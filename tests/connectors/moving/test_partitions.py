"""In other partitions a query is as one that had so many from the beginning."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from support.runs.counts import crash_cases, crash_count
from support.spark.moves import PARTITIONS, Leg, go
from support.spark.queries import QUERIES
from support.spark.runs import Kept, unproven
from support.spark.session import CEC
from support.spark.transforms import scala

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

TRANSFORM = scala("event")
EVERY = {**QUERIES, TRANSFORM.name: TRANSFORM}
# From two to one, to seven; test_moves.py goes to three.
# Four stores, of which two have an index in their keys, and unique ids; families, lists and timers.
CASES = crash_cases(
    [("join_then_aggregate", 2, 3), (TRANSFORM.name, 1, 3)],
    [(name, version, wanted) for name in EVERY for version, wanted in ((1, 1), (2, 7))],
)
FILES = (crash_count(2, 20), crash_count(1, 20))


@pytest.mark.crash
@pytest.mark.parametrize(("name", "version", "wanted"), CASES)
def test_state_stands_where_it_would_have_stood(
    spark: Any, tmp_path: Path, name: str, version: int, wanted: int
) -> None:
    query = EVERY[name]
    always = Kept(CEC, version, {PARTITIONS: str(wanted)})
    due = go(spark, query, tmp_path / "always", always, [*map(Leg, FILES)])
    moves = [Leg(FILES[0]), Leg(FILES[1], "repartition", partitions=wanted)]
    got = go(spark, query, tmp_path / "moved", Kept(CEC, version), moves)
    assert got.run.rows == due.run.rows
    assert got.states[-1] == due.states[-1]
    # The limit is reached in the sixth batch, and all of its state is in one partition.
    assert got.states[-1] != got.states[0] or name == "limit"
    for batch in range(due.last_batches[0] + 1, due.last_batches[1] + 1):
        assert got.run.metrics.get(batch) == due.run.metrics.get(batch)
    assert unproven(due.run, always) == []
    last = Checkpoint(got.checkpoints[-1])
    assert last.offsets(got.last_batches[-1]).conf[PARTITIONS] == str(wanted)
