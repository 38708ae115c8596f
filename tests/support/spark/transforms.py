"""`transformWithState` on our store beside Spark's RocksDB, the only other one that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.spark.inputs import FILES, Inputs
from support.spark.queries import StreamQuery
from support.spark.runs import Job, Run, run_files

SCHEMA = "key STRING, what STRING, n LONG, text STRING"


def run_transforms(spark: Any, *jobs: Job) -> list[Run]:
    """As `runs.run`, one after the other; a query whose Python came too late is started again."""
    done = []
    for job in jobs:
        one = Run(job.folder / "checkpoint")
        for life in range(job.lives):
            run_life(spark, job, life, one)
        done.append(one)
    return done


def run_life(spark: Any, job: Job, life: int, done: Run) -> None:
    files = range(FILES * life // job.lives, FILES * (life + 1) // job.lives)
    run_files(spark, job, life, files, done)


def scala(time: str, ttl: str = "none") -> StreamQuery:
    def build(spark: Any, inputs: Inputs) -> Any:
        return _typed(spark, inputs, lambda these, frame: these.everything(frame, time, ttl))

    return StreamQuery(f"scala_{time}_{ttl.replace(' ', '_')}", build, "update")


def chained() -> StreamQuery:
    def build(spark: Any, inputs: Inputs) -> Any:
        return _typed(spark, inputs, lambda these, frame: these.chained(frame))

    return StreamQuery("scala_chained", build, "append")


def _typed(spark: Any, inputs: Inputs, transformed: Callable[[Any, Any], Any]) -> Any:
    from pyspark.sql import DataFrame

    frame = inputs.timed(spark)._jdf
    return DataFrame(transformed(spark._jvm.cecstore.tests.Transforms, frame), spark)


def evolving(form: str) -> StreamQuery:
    """A query whose variables are others in each of its forms."""

    def build(spark: Any, inputs: Inputs) -> Any:
        return _typed(spark, inputs, lambda these, frame: these.evolving(frame, form))

    return StreamQuery(f"scala_evolving_{form}", build, "update")


INITIAL = "initial"
"""Text of what a query has in its state to begin with."""
FORMS = ("first", "added", "removed", "widened", "reordered")
"""Of one query whose variables gain, lose, widen and reorder fields; "refused" cannot be next."""


def of_fields(form: str) -> StreamQuery:
    """A query in Scala whose variables have other fields in each of its forms."""

    def build(spark: Any, inputs: Inputs) -> Any:
        from pyspark.sql import DataFrame

        frame = inputs.timed(spark)._jdf
        return DataFrame(spark._jvm.cecstore.tests.Evolution.evolving(frame, form), spark)

    return StreamQuery(f"scala_fields_{form}", build, "update")


def of_fields_in_rows(form: str) -> StreamQuery:
    """The same in Python, in rows, with a state to begin with."""

    def build(spark: Any, inputs: Inputs) -> Any:
        from support.spark.processors import Fields

        groups, first = inputs.timed(spark).groupBy("key"), _first(spark)
        return groups.transformWithState(Fields(form), SCHEMA, "Update", "None", first)

    return StreamQuery(f"rows_fields_{form}", build, "update")


def of_fields_in_pandas(form: str) -> StreamQuery:
    """The same in pandas."""

    def build(spark: Any, inputs: Inputs) -> Any:
        from support.spark.processors import FieldsInPandas

        groups, first = inputs.timed(spark).groupBy("key"), _first(spark)
        return groups.transformWithStateInPandas(
            FieldsInPandas(form), SCHEMA, "Update", "None", first
        )

    return StreamQuery(f"pandas_fields_{form}", build, "update")


def _first(spark: Any) -> Any:
    """A state to begin with, of a key that comes again and of one that does not."""
    rows = [("a", 100, INITIAL), ("never", 7, INITIAL)]
    return spark.createDataFrame(rows, "key STRING, n LONG, text STRING").groupBy("key")


def rows_of_python(ttl_ms: int | None = None, *, is_event_time: bool = True) -> StreamQuery:
    """In rows; a time to live, and timers of processing time, for queries by the clock."""
    from support.spark.processors import Everything

    def build(spark: Any, inputs: Inputs) -> Any:
        groups = inputs.timed(spark).groupBy("key")
        processor = Everything(is_event_time=is_event_time, ttl_ms=ttl_ms)
        mode = "EventTime" if is_event_time else "ProcessingTime"
        return groups.transformWithState(processor, SCHEMA, "Update", mode)

    return StreamQuery(f"python_rows_{ttl_ms}", build, "update")


def pandas_of_python() -> StreamQuery:
    """Event time, and a state to begin with, in pandas."""
    from support.spark.processors import EverythingInPandas

    def build(spark: Any, inputs: Inputs) -> Any:
        groups = inputs.timed(spark).groupBy("key")
        first = spark.createDataFrame([("a", 100), ("never", 7)], "key STRING, n LONG")
        processor = EverythingInPandas(is_event_time=True)
        return groups.transformWithStateInPandas(
            processor, SCHEMA, "Update", "EventTime", initialState=first.groupBy("key")
        )

    return StreamQuery("python_pandas", build, "update")
