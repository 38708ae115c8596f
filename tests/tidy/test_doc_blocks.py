"""Every Python block of README and docs runs as it stands, given what its text speaks of."""

import re
from pathlib import Path
from textwrap import dedent
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cec_store import open_queue
from support.paths import DOCS, ROOT
from support.places.made_checkpoints import KEY, VALUE, MadeCheckpoint
from support.spark.moves import Leg, go
from support.spark.queries import QUERIES
from support.spark.runs import Kept
from support.spark.session import HDFS, put_back

_FENCE = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_OF_SPARK = re.compile(r"\b(SparkSession|session|writeStream|pyspark)\b")

_OF_PIPELINES = "from pyspark import pipelines"
"""A file of a pipeline: connectors/setup/test_pipelines.py runs it on a server."""


def blocks(of_spark: bool) -> list[Any]:
    found = []
    for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))):
        for number, match in enumerate(_FENCE.finditer(path.read_text("utf-8"))):
            code = dedent(match[2])
            if _OF_PIPELINES not in code and bool(_OF_SPARK.search(code)) is of_spark:
                found.append(pytest.param(code, id=f"{path.stem}-{number}"))
    return found


def make_checkpoint(path: Path, *stores: str) -> None:
    value = pa.struct([*VALUE, pa.field("matched", pa.bool_())]) if stores else VALUE
    made = MadeCheckpoint(path, KEY, value, stores or ("default",), partitions=1)
    for batch in range(42):
        row = (batch, "", True) if stores else (batch, "")
        made.batch({("ann", 1): row})
    made.close()


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_blocks_are_found() -> None:
    assert len(blocks(of_spark=False)) >= 4
    assert len(blocks(of_spark=True)) >= 5


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("code", blocks(of_spark=False))
def test_block(code: str, tmp_path: Path) -> None:
    if "read_state" in code:
        make_checkpoint(tmp_path / "checkpoint")
        sides = [f"{side}-{of}" for side in ("left", "right")
                 for of in ("keyToNumValues", "keyWithIndexToValue")]  # fmt: skip
        make_checkpoint(tmp_path / "joined", *sides)
    with open_queue(tmp_path / "q", "x", schema=pa.schema([("n", pa.int64())])) as queue:
        queue.append(pa.table({"n": [1]}), sync=True)
        runner = SimpleNamespace(queue=queue, records_written=1, checks_written=0, recovery=None)
        given: dict[str, Any] = {"chain": queue.chain(), "t": 0, "runner": runner}
        exec(compile(code.replace("9109", "0"), "block", "exec"), given)
        if "stop" in given:
            given["stop"]()


def assert_figures_come(given: dict[str, Any]) -> None:
    writer = given["totals"].writeStream.format("noop").outputMode("update").queryName("totals")
    query = writer.start()
    until = monotonic() + 120
    found: set[tuple[str, str]] = set()
    while ("totals", "cecOpenWindows") not in found:
        assert query.exception() is None
        assert monotonic() < until, "no figures of the query have come"
        sleep(0.2)
        for metric in given["progress"].collect():
            found |= {
                (each.labels["query"], each.labels.get("metric", "")) for each in metric.samples
            }


@pytest.mark.spark
@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("code", blocks(of_spark=True))
def test_block_of_spark(code: str, spark: Any, tmp_path: Path) -> None:
    from cec_store.connectors import spark as connector

    connector.register(spark)
    trades = spark.readStream.format("rate").load()
    rows = spark.range(3).selectExpr("timestamp_micros(id) AS timestamp", "id AS value")
    # Spark's own processes stand in another folder than this one.
    code = code.replace('"queues/', f'"{tmp_path}/queues/').replace('"…"', f'"{tmp_path}/c"')
    code = code.replace('"checkpoints/', f'"{tmp_path}/checkpoints/').replace("9108", "0")
    rows.write.format("cec").mode("append").save(f"{tmp_path}/queues/trades")
    if "spark.adopt" in code:
        go(spark, QUERIES["aggregate_update"], tmp_path / "run", Kept(HDFS), [Leg(1)])
        (tmp_path / "checkpoints").mkdir()
        (tmp_path / "run" / "checkpoint").rename(tmp_path / "checkpoints" / "old")
    given = {"session": spark, "spark": connector, "trades": trades,
             "totals": trades.groupBy("value").count()}  # fmt: skip
    before = dict(spark.conf.getAll)
    try:
        exec(compile(code, "block", "exec"), given)
        if "progress" in given:
            assert_figures_come(given)
    finally:
        if "progress" in given:
            given["progress"].stop()
        for query in spark.streams.active:
            query.stop()
        if "lease" in given:
            given["lease"].release()
        # A block that configures a session finds the one that is shared with other tests.
        put_back(spark, before)
