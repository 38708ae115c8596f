"""Queries that move between providers and partitions, and moves that are killed."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cec_store.connectors import spark as cec_spark
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from support.spark.killed_runs import Driver
from support.spark.queries import StreamQuery
from support.spark.runs import Job, Kept, Run, format_of, run_files
from support.spark.session import CEC, HDFS, ROCKSDB

PARTITIONS = "spark.sql.shuffle.partitions"
KILLS = 15
_LIFE_S_MAX = 400
SHORT = {"hdfs": HDFS, "rocksdb": ROCKSDB}


@dataclass(frozen=True)
class Leg:
    """How many files a query reads, and what is done with its checkpoint before."""

    files: int
    move: str = ""
    """`adopt`, `repartition` or `release`; empty: it is stopped and started again."""
    partitions: int = 0
    provider: str = ""
    query: StreamQuery | None = None
    """From here on, where it is another form of the one before."""


@dataclass
class Moved:
    """What a query has said over all legs."""

    run: Run
    checkpoints: list[Path]
    """The one of each leg."""
    states: list[dict[str, list[str]]]
    """After each leg, before it is moved, by store; a row says its partition."""
    last_batches: list[int]
    """Of each leg."""


def go(
    spark: Any,
    query: StreamQuery,
    folder: Path,
    kept: Kept,
    legs: Sequence[Leg],
    reads_state: bool = True,
) -> Moved:
    """Run it over the legs; the input is the same whatever the moves."""
    job = Job(query, folder, kept)
    checkpoint = folder / "checkpoint"
    moved = Moved(Run(checkpoint), [], [], [])
    read = 0
    for number, leg in enumerate(legs):
        if leg.move:
            new = folder / f"{leg.move}-{number}"
            _move(spark, checkpoint, new, leg)
            checkpoint = new
        job = replace(job, query=leg.query or job.query)
        done = replace(moved.run, checkpoint=checkpoint)
        run_files(spark, job, 0, range(read, read + leg.files), done)
        read += leg.files
        moved.checkpoints.append(checkpoint)
        moved.last_batches.append(Checkpoint(checkpoint).newest_batch())
        with format_of(spark, checkpoint):
            states = state_of(spark, checkpoint) if reads_state else {}
        if job.query.name.endswith("processing_time"):
            states = _without_clock(states)
        moved.states.append(states)
    return moved


def _move(spark: Any, old: Path, new: Path, leg: Leg) -> None:
    if leg.move == "adopt":
        report = cec_spark.adopt(spark, old, new)
        assert report.provider == CEC
    elif leg.move == "release":
        report = cec_spark.release(spark, old, new, provider=leg.provider)
        assert report.provider == SHORT[leg.provider]
    else:
        report = cec_spark.repartition(spark, old, new, partitions=leg.partitions)
        assert report.partitions == leg.partitions
    assert report.batch == Checkpoint(old).newest_batch() == Checkpoint(new).newest_batch()
    assert report.path == str(new)


def state_of(spark: Any, checkpoint: Path) -> dict[str, list[str]]:
    """All rows of state by Spark's own reader, sorted."""
    metadata = spark.read.format("state-metadata").load(str(checkpoint)).collect()
    found = {}
    for row in metadata:
        options = [("storeName", row.stateStoreName)]
        if row.operatorName.startswith("transformWithState"):
            options = _variables_of(json.loads(row.operatorProperties))
        elif row.operatorName == "symmetricHashJoin" and row.stateStoreName == "default":
            # Of format 3: Spark's reader finds no default family in that store.
            options = [("joinSide", "left"), ("joinSide", "right")]
        for option, value in options:
            reader = spark.read.format("statestore").option("operatorId", row.operatorId)
            reader = reader.option("storeName", row.stateStoreName).option(option, value)
            name = [str(row.operatorId), row.stateStoreName, value]
            found[" ".join(dict.fromkeys(name))] = _rows(reader.load(str(checkpoint)))
    return found


def _without_clock(states: dict[str, list[str]]) -> dict[str, list[str]]:
    """These say when they were run."""
    return {
        name: [re.sub(r"timeoutTimestamp=\d{13}", "timeoutTimestamp=then", row) for row in rows]
        for name, rows in states.items()
    }


def _variables_of(properties: dict[str, Any]) -> list[tuple[str, str]]:
    """The options of Spark's reader, one after the other, with which it reads all of them."""
    found = []
    for each in properties["stateVariables"]:
        if not each["stateName"].startswith("$"):
            found.append(("stateVarName", each["stateName"]))
        elif ("readRegisteredTimers", "true") not in found:
            found.append(("readRegisteredTimers", "true"))
    return found


def _rows(frame: Any) -> list[str]:
    return sorted(repr(row) for row in frame.collect())


def without_partitions(states: dict[str, list[str]]) -> dict[str, list[str]]:
    return {
        name: sorted(row.rpartition(", partition_id=")[0] for row in rows)
        for name, rows in states.items()
    }


def kill_one(
    source: Path,
    place: Path | str,
    logs: Path,
    move: str,
    seed: int,
    conf: dict[str, str] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> None:
    """In the fourth move of its life, all of which go below the place; at any moment of that."""
    chance = random.Random(seed)
    order = {
        "checkpoint": str(source), "folder": str(place), "move": move, "conf": conf or {},
        "storage_options": storage_options,
    }  # fmt: skip
    driver = Driver("moving_job", order, logs.with_suffix(".log"), _LIFE_S_MAX)
    try:
        for event in driver.events():
            if event["number"] == 3:
                time.sleep(chance.uniform(0, 1.2 * event["took_s"]))
                driver.kill()
    finally:
        driver.kill()
        driver.close()
