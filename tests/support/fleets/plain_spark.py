"""Spark's micro-batches in plain Python: real checkpoints and queues, killed between any steps.

A batch is what it is in Spark: its offsets are noted, its output is committed to the queue under
the query's id and its number, and then it is noted as done. A batch that was begun is run again
with the same offsets. Queries have no state: each row goes out once, with its query's mark.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from cec_store import open_queue, read_queue
from cec_store.connectors.spark.fleet.declaration import Query
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.rules import Rules
from cec_store.connectors.spark.fleet.running import Seen
from cec_store.log.selection import OUTPUT_KINDS, Selection
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.partitioned.offsets import Positions
from cec_store.storage.stores.local_store import LocalStore
from cec_store.values import Position
from support.fleets.engine_double import EngineDouble, ProgressDouble, SourceDouble

ROWS = pa.schema([("v", pa.string())])
PARTITIONS = 2
SHAPE = {
    "a": (("input",), None),
    "b": (("a",), 7),
    "c": (("a", "more"), None),
    "d": (("b", "c"), 9),
    "e": (("c",), 3),
}
INPUTS = ("input", "more")
COSTS = {"a": 0.5, "b": 0.3, "c": 0.4, "d": 1.0, "e": 0.6}


def declared(folder: Path, **rules: Any) -> Fleet:
    fleet = Fleet(
        folder / "fleet", rules=Rules(**{"checkpoint_s": 1.0, "wait_first_s": 0.5, **rules})
    )
    for name, (reads, priority) in SHAPE.items():
        places = [str(folder / each) for each in reads]
        fleet.query(
            name, "support.fleets.plain_spark:nothing", reads=places, writes=str(folder / name),
            priority=priority, cost=COSTS[name],
        )  # fmt: skip
    return fleet


def nothing(*frames: object) -> None:
    raise AssertionError("there is no Spark here")


def opened(path: Path, **more: Any) -> PartitionedQueue:
    queue = open_queue(path, "a", schema=ROWS, partitions=PARTITIONS, **more)
    assert isinstance(queue, PartitionedQueue)
    return queue


def texts(path: Path) -> Counter[str]:
    return Counter(read_queue(path).read_all()["v"].to_pylist()) if path.exists() else Counter()


def wanted(folder: Path) -> dict[str, Counter[str]]:
    """What each queue has to hold once all of the inputs has gone through."""
    found = {name: texts(folder / name) for name in INPUTS}
    for name, (reads, _) in SHAPE.items():
        coming = sum((found[each] for each in reads), Counter[str]())
        found[name] = Counter({f"{text}>{name}": count for text, count in coming.items()})
    return found


def differences(folder: Path, queues: Mapping[str, Path]) -> list[str]:
    faults = []
    for name, rows in wanted(folder).items():
        if name in queues:
            came = texts(queues[name])
            faults += [f"{name}: {each} is missing" for each in (rows - came)]
            faults += [f"{name}: {each} is too much" for each in (came - rows)]
    return faults


class PlainQuery:
    """A query that runs; `step` does the next step of its batch."""

    def __init__(self, query: Query, checkpoint: str, dice: random.Random, run_id: str) -> None:
        self.run_id = run_id
        self._query = query
        self._dice = dice
        self._place = Path(checkpoint)
        for name in ("offsets", "commits"):
            (self._place / name).mkdir(parents=True, exist_ok=True)
        metadata = self._place / "metadata"
        if not metadata.exists():
            metadata.write_text(json.dumps({"id": str(uuid4())}))
        self._id = json.loads(metadata.read_text())["id"]
        self._seen = Seen(True)
        self._output = opened(Path(query.writes), retention="consumers")
        self._inputs = {each: ReferenceQueue(LocalStore(each)) for each in query.reads}
        self._pending = sorted(self._numbers("offsets") - self._numbers("commits"))
        self._is_written = False

    def _numbers(self, name: str) -> set[int]:
        return {int(each.name) for each in (self._place / name).glob("[0-9]*")}

    def _positions(self, batch: int) -> list[dict[int, int]]:
        if batch < 0:
            return [{} for _ in self._query.reads]
        lines = (self._place / "offsets" / str(batch)).read_text().split("\n")[2:]
        return [Positions.of(json.loads(each)).offsets for each in lines]

    def step(self) -> None:
        if not self._pending:
            self._begin()
        elif not self._is_written:
            self._write(self._pending[0])
            self._is_written = True
        else:
            batch = self._pending.pop(0)
            (self._place / "commits" / str(batch)).write_text("v1\n{}")
            self._is_written = False
            sources = [SourceDouble(f"cec[{each}]") for each in self._query.reads]
            self._seen = Seen(True, "", ProgressDouble(batch, sources))

    def _begin(self) -> None:
        batch = max(self._numbers("offsets"), default=-1) + 1
        before, after = self._positions(batch - 1), []
        for queue, start in zip(self._query.reads, before, strict=True):
            self._inputs[queue].refresh()
            ends = self._inputs[queue].ends()
            low = {number: start.get(number, 0) for number in ends}
            after.append({n: self._dice.randint(low[n], end) for n, end in ends.items()})
        if after == before or all(not any(each.values()) for each in after):
            return
        head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": batch, "conf": {}})
        ids = [self._inputs[queue].queue_id for queue in self._query.reads]
        positions = [Positions(each, ends) for each, ends in zip(ids, after, strict=True)]
        said = "\n".join(json.dumps(each.said()) for each in positions)
        (self._place / "offsets" / str(batch)).write_text(f"v1\n{head}\n{said}")
        self._pending = [batch]

    def _write(self, batch: int) -> None:
        found = []
        ranges = zip(
            self._query.reads, self._positions(batch - 1), self._positions(batch), strict=True
        )
        for queue, low, high in ranges:
            reader = self._inputs[queue]
            reader.refresh()
            for number, end in high.items():
                start = low.get(number, 0)
                if start < end:
                    assert start >= reader.first(number), f"{queue}: {start} was trimmed"
                    chosen = Selection(
                        Position(start), Position(end), OUTPUT_KINDS, False, False, False
                    )
                    for each in reader.replay(number, chosen):
                        found += each.column("v").to_pylist()
        if found:
            rows = pa.table({"v": [f"{each}>{self._query.name}" for each in found]}, schema=ROWS)
            self._output.append(rows, txn_app_id=self._id, txn_version=batch)

    def look(self) -> Seen:
        return self._seen

    def stop(self) -> None:
        self._seen = Seen(False, "", self._seen.progress)


class PlainSpark(EngineDouble):
    """An engine whose queries do what Spark's would, a step at a time."""

    def __init__(self, executors: int, dice: random.Random, first: int = 0) -> None:
        super().__init__(executors)
        self.there = {str(first + number): 1.0 for number in range(executors)}
        self._dice = dice
        self.at_work: dict[str, PlainQuery] = {}

    def start(self, query: Query, checkpoint: str) -> Any:
        self.started.append(query.name)
        self._runs += 1
        self.at_work[query.name] = PlainQuery(query, checkpoint, self._dice, f"run {self._runs}")
        return self.at_work[query.name]

    def step(self) -> None:
        """One query that runs does one step."""
        running = [each for each in self.at_work.values() if each.look().is_active]
        if running:
            self._dice.choice(running).step()
