"""What a real Spark tells of partitions and their costs, and of a session without the plugin."""

from pathlib import Path
from typing import Any

import pytest

from cec_store.connectors import spark as connector
from cec_store.connectors.spark.executors.loads import LoadMeter
from cec_store.errors import SparkUnavailable
from support.spark.queries import QUERIES
from support.spark.runs import Job, Kept, run

PARTITIONS = 2
"""Of the shared session."""


def test_each_operator_of_a_query_has_the_costs_of_its_own_tasks(
    spark: Any, tmp_path: Path
) -> None:
    """A join, and an aggregate behind it: other stages, other rows."""
    meter = LoadMeter(spark)
    [done] = run(spark, Job(QUERIES["join_then_aggregate"], tmp_path, Kept(), lives=1))
    # Spark's listeners hear of the last task a moment later.
    spark._jsc.sc().listenerBus().waitUntilEmpty()
    costs, passed_s = meter.read()
    assert passed_s > 0
    # Queries of other tests in this session are known as well.
    found = {key: cost for key, cost in costs.items() if key.query in done.run_ids}
    assert {(key.operator, key.partition) for key in found} == {
        (operator, partition) for operator in (0, 1) for partition in range(PARTITIONS)
    }
    assert len({key.query for key in found}) == 1
    batches = len(done.rows)
    assert batches > 3
    assert meter.read_others()["driver"] > 0, "files are read in stages without state"
    for key, cost in found.items():
        assert 0 < cost.tasks <= batches, key
        assert cost.shuffled_bytes > 0, key
        assert cost.cpu_s > 0, key
    rows = [sum(c.rows for k, c in found.items() if k.operator == n) for n in (0, 1)]
    # Two sides of 40 rows a file; the aggregate gets partial sums of what has met.
    assert 0 < rows[0] <= batches * 80
    assert rows[1] > 0
    # Spark numbers operators from the sink on: 0 is the aggregate, 1 the join before it.
    written = [sum(c.written_bytes for k, c in found.items() if k.operator == n) for n in (0, 1)]
    assert written[0] == 0
    assert written[1] > 0, "the join's stage ends with the shuffle of the aggregate"
    assert max(cost.memory_bytes for cost in found.values()) > 0
    again, _ = meter.read()
    assert all(again[key].tasks == 0 and again[key].rows == 0 for key in found)


def test_a_session_that_began_without_replicas_is_refused(spark: Any) -> None:
    with pytest.raises(SparkUnavailable, match="replicas=1"):
        connector.cluster(spark)
