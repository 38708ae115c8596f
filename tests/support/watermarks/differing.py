"""One random stream through one query on several stores at once, and where they differ."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from support.spark.runs import (
    FEW_RECORDS,
    NO_HEAP,
    TOO_LATE,
    Kept,
    Run,
    differences,
    settings_of,
    take_progress,
)
from support.spark.session import CEC, HDFS, ROCKSDB
from support.watermarks.operators import Group, Input
from support.watermarks.streams import Stream

DEATH = "ends here, as planned"
_STARTS_MAX = 60
_STORE = "spark.sql.streaming.stateStore"


@dataclass
class Case:
    """A stream and the group of operators that it runs through."""

    spark: Any
    stream: Stream
    group: Group
    folder: Path

    def stores(self, has_rocksdb: bool) -> dict[str, Kept]:
        """The HDFS-backed store, which has the last word, ours, and RocksDB."""
        dice = self.stream.dice("stores")
        few_versions = {"spark.sql.streaming.minBatchesToRetain": "1", **FEW_RECORDS, **NO_HEAP}
        ours: dict[str, str] = dice.choice(({}, NO_HEAP, FEW_RECORDS, few_versions))
        kept = {"hdfs": Kept(HDFS), "cec": Kept(CEC, dice.choice((1, 2)), ours)}
        changelog = f"{_STORE}.rocksdb.changelogCheckpointing.enabled"
        if has_rocksdb:
            kept["rocksdb"] = Kept(ROCKSDB, 1, {changelog: dice.choice(("true", "false"))})
        return kept

    def run(self, stores: dict[str, Kept]) -> dict[str, Run]:
        """Run the stores' queries side by side over all lives; return what each has said."""
        done = {name: Run(self.folder / name) for name in stores}
        starts = dict.fromkeys(stores, 0)
        for life in range(len(self.stream.lives)):
            self.stream.write(self.folder / "input", life)
            left = list(stores)
            while left:
                running = {
                    name: self._start(starts[name], stores[name], done[name]) for name in left
                }
                ends = {name: _end_of(query, done[name]) for name, query in running.items()}
                for name in left:
                    starts[name] += ends[name] is not End.LATE
                    assert len(done[name].run_ids) < _STARTS_MAX, f"{name} never ends"
                left = [name for name in left if ends[name] is not End.THROUGH]
        return done

    def _start(self, start: int, kept: Kept, done: Run) -> Any:
        given = Input(self.spark, self.stream, self.folder / "input", start, self.group.mode)
        conf = {**self.stream.settings(), **self.group.conf, **kept.of(0)}
        with settings_of(self.spark, conf):
            writer = self.group.build(given).writeStream.outputMode(self.group.mode)
            writer = writer.option("checkpointLocation", str(done.checkpoint))
            writer = writer.foreachBatch(self._taker(done))
            return writer.trigger(availableNow=True).start()

    def _taker(self, done: Run) -> Callable[[Any, int], None]:
        """Takes rows, after the stream's peeks at them; some batches the query does not survive."""

        def take(frame: Any, batch: int) -> None:
            for peek in self.stream.peeks(batch, partly=not self.group.uses_python):
                frame.count() if peek == "count" else frame.head(1)
            rows = sorted(map(tuple, frame.collect()), key=repr)
            is_first = batch not in done.rows
            # After a death it comes again, with the same input and the same watermark.
            assert done.rows.setdefault(batch, rows) == rows, f"batch {batch} has other rows now"
            if is_first and self.stream.dies(batch):
                raise RuntimeError(DEATH)

        return take

    def differences(self, run: Run, reference: Run) -> list[str]:
        """Batch by batch. What a part of a batch counts depends on the order of a store's rows."""
        for batch in reference.rows:
            if "head" in self.stream.peeks(batch, partly=not self.group.uses_python):
                run.metrics.pop(batch, None)
                reference.metrics.pop(batch, None)
        return differences(run, reference)


def narrowed(run: Run) -> list[int]:
    """Scans of our store that a hint has narrowed, by operator."""
    batches = list(run.custom.values())
    return [
        sum(batch[place]["cecNarrowedScans"] for batch in batches)
        for place in range(len(batches[0]))
    ]


class End(Enum):
    THROUGH = "all files are read"
    DEAD = "it has died as planned"
    LATE = "its Python came too late: it is started again as it was"


def _end_of(query: Any, done: Run) -> End:
    """Wait for a query to end.

    Raises:
        StreamingQueryException: it has failed, and not as planned.
    """
    from pyspark.errors import StreamingQueryException

    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if DEATH in str(error):
            return End.DEAD
        if TOO_LATE in str(error):
            return End.LATE
        raise
    finally:
        take_progress(query, done)
    return End.THROUGH
