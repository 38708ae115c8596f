"""Topology 2 of Su and Zhou's evaluation as a fleet: hashtags, counted by sliding windows.

A parser feeds windows of several widths, O0 to O3 at full size, and each further operator keeps the
state of those that it reads. The paper's text does not say which those are (its Figure 9 is a
drawing): here there is one for each choice of two or more windows, which makes O4 to O14.

A row costs a query's executor a fixed time, which the task spends waiting: ten cores of a cluster
are played on two here, and what is scarce in the cluster, and measured, is a core's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store import open_queue
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.rules import Rules

HASHTAGS, SKEW = 894_000, 1.0
WIDTHS_S = (10, 15, 20, 30)
SLIDE_S = 5
TWEETS = pa.schema([("tag", pa.int64()), ("count", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
PARTITIONS = 2
PARSER = "parser"
APPENDS_A_SECOND = 2
BATCH_CORE_S = 1.0
"""Seconds of a core that a batch takes beside its rows: what Spark does for two or four tasks,
on slow processors that many share. Plans that leave it out promise more than there is."""


@dataclass(frozen=True)
class Shape:
    """Size of the topology."""

    windows: int
    """O0 and on."""
    tweets_per_s: int
    every_s: float
    """Between the starts of two batches of a query."""
    cores: float
    """Cores that all of it keeps busy, by what its rows are made to cost."""

    @property
    def readers(self) -> list[tuple[int, ...]]:
        """The windows that each of the further operators reads."""
        counts = range(2, self.windows + 1)
        return [
            combination
            for count in counts
            for combination in combinations(range(self.windows), count)
        ]

    @property
    def reads(self) -> dict[str, tuple[str, ...]]:
        """Return by query the names of those it reads; the parser's input is nobody's output."""
        windows = {f"O{number}": (PARSER,) for number in range(self.windows)}
        further = {
            f"O{self.windows + place}": tuple(f"O{number}" for number in chosen)
            for place, chosen in enumerate(self.readers)
        }
        return {PARSER: (), **windows, **further}

    @property
    def outputs(self) -> list[str]:
        """Queries for whose output people wait: all but the parser."""
        return [name for name in self.reads if name != PARSER]

    @property
    def costs(self) -> dict[str, float]:
        """Cores that each keeps busy: as many parts as it has inputs, and one."""
        parts = {name: 1 + len(reads) for name, reads in self.reads.items()}
        return {name: self.cores * part / sum(parts.values()) for name, part in parts.items()}

    @property
    def rows_per_s(self) -> dict[str, list[float]]:
        """Return rows a second by query, one number for each of its queues.

        A batch of windows writes each tag once for each window it is in.
        """
        drawn = hashtags(np.random.default_rng(0), int(self.tweets_per_s * self.every_s * 20))
        batches = drawn.reshape(20, -1)
        tags = float(np.mean([np.unique(batch).size for batch in batches])) / self.every_s
        written = {PARSER: float(self.tweets_per_s)}
        for number in range(self.windows):
            written[f"O{number}"] = tags * (WIDTHS_S[number] / SLIDE_S)
        return {
            name: [written[source] for source in reads] or [float(self.tweets_per_s)]
            for name, reads in self.reads.items()
        }


def hashtags(dice: np.random.Generator, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return hashtags drawn by Zipf's law, 0 being the most frequent."""
    # The inverse of the distribution's integral: weights of 1 / rank.
    return np.floor((HASHTAGS + 1.0) ** dice.random(count)).astype(np.int64)


def _spending(frame: Any, row_ms: float) -> Any:
    """The same rows, each of which takes a core so long."""
    from pyspark.sql.functions import expr

    # Not deterministic to Spark, so it is done once a row, and not left out.
    parked = "reflect('java.util.concurrent.locks.LockSupport', 'parkNanos'"
    return frame.where(expr(f"{parked}, {round(row_ms * 1e6)}L) is not null"))


def _parser(row_ms: float) -> Callable[..., Any]:
    return lambda tweets: _spending(tweets.withWatermark("at", "1 minute"), row_ms)


def _windows(row_ms: float, width_s: int) -> Callable[..., Any]:
    from pyspark.sql import functions as f

    def function(tags: Any) -> Any:
        late = _spending(tags.withWatermark("at", "1 minute"), row_ms)
        counted = late.groupBy("tag", f.window("at", f"{width_s} seconds", f"{SLIDE_S} seconds"))
        return counted.agg(f.sum("count").alias("count"), f.max("at").alias("at")).drop("window")

    return function


def _kept(row_ms: float) -> Callable[..., Any]:
    from pyspark.sql import functions as f

    def function(first: Any, *more: Any) -> Any:
        for other in more:
            first = first.unionByName(other)
        late = _spending(first.withWatermark("at", "1 minute"), row_ms)
        kept = late.groupBy("tag").agg(f.max("count").alias("count"), f.max("at").alias("at"))
        return kept.select("tag", "count", "at")

    return function


def declared(folder: Path, shape: Shape, rules: Rules) -> Fleet:
    """The fleet; its queues and its own folder are in ``folder``."""
    fleet = Fleet(folder / "fleet", rules=rules)
    costs, rows = shape.costs, shape.rows_per_s
    for name, reads in shape.reads.items():
        row_ms = 1e3 * costs[name] / sum(rows[name])
        if name == PARSER:
            function = _parser(row_ms)
        elif reads == (PARSER,):
            function = _windows(row_ms, WIDTHS_S[int(name[1:])])
        else:
            function = _kept(row_ms)
        fleet.query(
            name, function, cost=costs[name] + BATCH_CORE_S / shape.every_s, every_s=shape.every_s,
            reads=[str(folder / queue) for queue in reads or ("tweets",)],
            writes=str(folder / name), output_mode="append" if name == PARSER else "update",
            priority=None if name == PARSER else 1,
            # A batch of all that has waited would keep its cores from the others until it is done.
            read_options={"maxOffsetsPerTrigger": str(_most(max(rows[name]), shape.every_s))},
        )  # fmt: skip
    return fleet


def _most(rows_per_s: float, every_s: float) -> int:
    """Rows of a batch from each queue: three times what comes into the fullest between two."""
    return max(1, round(3 * rows_per_s * every_s))


class Tweets:
    """Written to the first queue at a fixed rate while they flow; a context manager."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self._dice = np.random.default_rng(1)
        self._rows = max(1, shape.tweets_per_s // APPENDS_A_SECOND)
        self._queue = open_queue(
            folder / "tweets", "x", schema=TWEETS, partitions=PARTITIONS, timestamp_column="at"
        )
        self._queue.append(self._drawn())
        self._flows, self._ended = Event(), Event()
        self._thread = Thread(target=self._run, name="tweets")

    def __enter__(self) -> Tweets:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._queue.close()

    def flow(self) -> None:
        self._flows.set()

    def stand(self) -> None:
        self._flows.clear()

    def _run(self) -> None:
        next_s = time.monotonic()
        while not self._ended.wait(max(0.0, next_s - time.monotonic())):
            if self._flows.is_set():
                self._queue.append(self._drawn())
            next_s = max(next_s + 1 / APPENDS_A_SECOND, time.monotonic())

    def _drawn(self) -> pa.Table:
        now = np.full(self._rows, time.time_ns() // 1_000, "datetime64[us]")
        columns: Sequence[Any] = (
            hashtags(self._dice, self._rows), np.ones(self._rows, np.int64), now
        )  # fmt: skip
        return pa.table(
            [
                pa.array(column).cast(field.type)
                for column, field in zip(columns, TWEETS, strict=True)
            ],
            schema=TWEETS,
        )
