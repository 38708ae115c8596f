"""Queries that an earlier checkout left (tests/data/written) go on where they stopped."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from cec_store.connectors import spark as cec_spark
from cec_store.opening import open_queue, queue_at
from support.paths import DATA
from support.places.written_places import bids, feed, rows_of, start_query

CHECKOUTS = sorted(path.name for path in (DATA / "written").iterdir())


@pytest.mark.parametrize("form", [1, 2])
@pytest.mark.parametrize("checkout", CHECKOUTS)
def test_query_goes_on_from_its_checkpoint(
    spark: Any, tmp_path: Path, checkout: str, form: int
) -> None:
    folder = Path(shutil.copytree(DATA / "written" / checkout, tmp_path / "written"))
    source, sink = folder / "bids", folder / f"distinct-v{form}"
    before = rows_of(sink)
    cec_spark.register(spark)
    for queue in (source, sink):  # as the sink advises where one is of version 1
        open_queue(queue, "a", partitions=len(queue_at(queue).ends())).close()
    feed(spark, source, 60, 120)
    # All of these came before; only the state in the checkpoint says so.
    feed(spark, source, 0, 40)
    query = start_query(spark, source, folder / f"checkpoint-v{form}", sink, form)
    query.awaitTermination()
    assert query.exception() is None
    after = rows_of(sink)
    pairs = {f"{row['item']} {row['price']}" for row in bids(0, 120).to_pylist()}
    assert set(before) < set(after)
    assert sorted(after) == sorted(pairs)
