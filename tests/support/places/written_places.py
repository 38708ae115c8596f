"""Queues and checkpoints made with public names alone, so that any checkout can write them.

tests/data/written has what earlier checkouts wrote, a folder for each, named by its commit. To add
that of another one, in a checkout of it with an environment of its own:
``python FILE FOLDER`` with this file. Nothing there is ever written again.
"""

import json
import shutil
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa

from cec_store import Targets, open_queue, read_queue, read_state
from cec_store.operators import (
    Aggregate,
    ArrowSource,
    CountWindow,
    Runner,
    WindowJoin,
    record_schema,
)

NOON_US = int(datetime(2026, 11, 22, 12, tzinfo=timezone.utc).timestamp()) * 10**6
BIDS = pa.schema([("item", pa.int64()), ("price", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
SEGMENT_BYTES = 4096
ROWS = 60
"""Of an operator's input; the runs that are kept stopped after part of it."""


def bids(first: int, stop: int) -> pa.Table:
    numbers = range(first, stop)
    columns = {
        "item": [n % 7 for n in numbers],
        "price": [n * n % 101 for n in numbers],
        "at": [NOON_US + 1000 * n for n in numbers],
    }
    return pa.table({name: pa.array(columns[name], BIDS.field(name).type) for name in BIDS.names})


def aggregate() -> Aggregate:
    mean = {"price": ("avg", "price")}
    return Aggregate(group_by=["item"], aggregates=mean, window=CountWindow(4), input_schema=BIDS)


def join() -> WindowJoin:
    return WindowJoin(BIDS, BIDS, on=["item"], within_us=20_000)


def write_plain(folder: Path) -> None:
    """Three segments, two consumers, the oldest records trimmed."""
    with open_queue(
        folder, "a", schema=BIDS, timestamp_column="at", retention="consumers"
    ) as queue:
        readers = [queue.consumer(name) for name in ("billing", "audit")]
        for start in range(0, 60, 10):
            (batch,) = bids(start, start + 10).to_batches()
            queue.append(batch)
            if start in (20, 40):
                queue.sync()
                queue.roll()
        queue.sync()
        for reader, offset in zip(readers, (30, 35), strict=True):
            reader.acknowledge(received=offset, effects_saved=offset)
            reader.close()
        queue.trim()
        queue.position_at(NOON_US)  # makes the index


def write_unclosed(folder: Path) -> None:
    """As its writer left it that never came to close it."""
    living = folder.with_name("living")
    with open_queue(living, "a", schema=BIDS, timestamp_column="at") as queue:
        for start in range(0, 30, 10):
            (batch,) = bids(start, start + 10).to_batches()
            queue.append(batch)
        queue.sync()
        shutil.copytree(living, folder)
    shutil.rmtree(living)


def write_operators(folder: Path, operator: Any, inputs: list[pa.Table]) -> None:
    """An operator's log, in the middle of its input."""
    with open_queue(folder, "a", schema=record_schema(operator)) as queue:
        policy = Targets(extent_records=12)
        Runner(operator, [ArrowSource(table, "at") for table in inputs], queue, policy).run()


def start_spark() -> Any:
    from pyspark.sql import SparkSession

    from cec_store.connectors import spark

    builder = SparkSession.builder.master("local[2]")
    for name, value in {"ui.enabled": "false", "sql.shuffle.partitions": "2",
                        "driver.host": "127.0.0.1"}.items():  # fmt: skip
        builder = builder.config(f"spark.{name}", value)
    session = spark.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    spark.register(session)
    return session


def feed(session: Any, folder: Path, first: int, stop: int) -> None:
    """A batch of bids for the query, in a queue of two partitions."""
    rows = session.createDataFrame(bids(first, stop).drop_columns(["at"]).to_pylist())
    rows.repartition(2, "item").write.format("cec").mode("append").save(str(folder))


def start_query(session: Any, source: Path, checkpoint: Path, sink: Path, form: int) -> Any:
    """Drops bids seen before, and keeps its state in our logs in checkpoint format ``form``."""
    session.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", str(form))
    bids = session.readStream.format("cec").option("startingOffsets", "earliest")
    distinct = bids.load(str(source)).dropDuplicates(["item", "price"])
    writer = distinct.writeStream.format("cec").option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start(str(sink))


def write_spark(folder: Path) -> None:
    session = start_spark()
    for start in range(0, 60, 20):
        feed(session, folder / "bids", start, start + 20)
        for form in (1, 2):
            checkpoint, sink = folder / f"checkpoint-v{form}", folder / f"distinct-v{form}"
            start_query(session, folder / "bids", checkpoint, sink, form).awaitTermination()
    session.stop()


def rows_of(path: Path) -> list[str]:
    """In log order, partition by partition."""
    return [" ".join(map(str, row.values())) for row in read_queue(path).read_all().to_pylist()]


def state_of(path: Path) -> list[str]:
    state = read_state(path).to_pylist()
    return sorted(f"{row['partition_id']} {row['key']} {row['value']}" for row in state)


QUEUES = ("plain", "unclosed", "aggregate", "join", "bids", "distinct-v1", "distinct-v2")
CHECKPOINTS = ("checkpoint-v1", "checkpoint-v2")


def found(folder: Path) -> dict[str, Any]:
    """What a reader finds in all of it."""
    return {
        **{name: rows_of(folder / name) for name in QUEUES},
        **{name: state_of(folder / name) for name in CHECKPOINTS},
    }


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir()
    write_plain(folder / "plain")
    write_unclosed(folder / "unclosed")
    write_operators(folder / "aggregate", aggregate(), [bids(0, 40)])
    write_operators(folder / "join", join(), [bids(0, 40), bids(0, 40)])
    write_spark(folder)
    lists = (f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in found(folder).items())
    (folder / "found.json").write_text("{\n" + ",\n".join(lists) + "\n}\n")


if __name__ == "__main__":
    main()
