"""Queries in processing time, by a clock that is moved by hand: each batch at a known moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.spark.inputs import FILES
from support.spark.runs import TOO_LATE, Job, Run, settings_of, take_progress

START_MS = 1_767_225_600_000
STEP_MS = 10_000
IDLE = 2
"""So many batches without input come behind those with: timers and times to live go on."""
_AWAIT_S = 120

Move = Callable[[int, Path], Path]
"""Before a life, which is not the first: takes the checkpoint elsewhere, and says where."""


class ClockedRun:
    """One job: a file a batch, and ten seconds between batches."""

    def __init__(self, spark: Any, job: Job, move: Move) -> None:
        self._spark = spark
        self._job = job
        self._move = move
        self._clock = spark._jvm.org.apache.spark.sql.cecstore.tests.Clocked(START_MS)
        self._batch = 0
        self.done = Run(job.folder / "checkpoint")

    def run(self) -> Run:
        lives = self._job.lives
        for life in range(lives):
            files = range(FILES * life // lives, FILES * (life + 1) // lives)
            if life:
                self.done.checkpoint = self._move(life, self.done.checkpoint)
            query = None
            for file in [*files, *[None] * IDLE]:
                self._job.inputs.write(range(file, file + 1) if file is not None else range(0))
                self._clock.advance(STEP_MS)
                query = self._await(query or self._start(life), life)
            take_progress(query, self.done)
            assert query is not None
            query.stop()
        return self.done

    def _start(self, life: int) -> Any:
        from pyspark.sql.streaming.query import StreamingQuery

        job = self._job
        with settings_of(self._spark, {**job.query.conf, **job.kept.of(life)}):
            frame = job.query.build(self._spark, job.inputs)
            return StreamingQuery(self._clock.start(frame._jdf, str(self.done.checkpoint)))

    def _await(self, query: Any, life: int) -> Any:
        """Until the batch is committed and its progress told; the query that has done it."""
        end = time.monotonic() + _AWAIT_S
        while not self._clock.has(self._batch) or not self._is_told(query):
            if not query.isActive:
                error = query.exception()
                if TOO_LATE not in str(error):
                    raise AssertionError(f"batch {self._batch}: {error}")
                take_progress(query, self.done)
                query = self._start(life)
            if time.monotonic() > end:
                raise AssertionError(f"no batch {self._batch} within {_AWAIT_S} s: {query.status}")
            time.sleep(0.02)
        self.done.rows[self._batch] = list(self._clock.rows(self._batch))
        self._batch += 1
        return query

    def _is_told(self, query: Any) -> bool:
        return any(each.batchId == self._batch for each in query.recentProgress)


def stays(life: int, checkpoint: Path) -> Path:
    """A query that goes on where it was."""
    return checkpoint


def run_clocked(spark: Any, *jobs: Job, move: Move = stays) -> list[Run]:
    """All files, and some batches without, one job after the other."""
    for job in jobs:
        Path(job.folder).mkdir(parents=True, exist_ok=True)
    return [ClockedRun(spark, job, move).run() for job in jobs]
