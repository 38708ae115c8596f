"""The operators that evict by a watermark or a clock, many of them side by side in one query.

A query of a group is the union of its operators over the same input, each row with the name of the
operator that says it. So one batch tries all of them, each with a number of its own in the plan.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from support.spark.queries import pandas_groups
from support.watermarks.streams import SCHEMA, Stream


@dataclass(frozen=True)
class Input:
    """The two sides of a stream as Spark reads them, in the query's run of this number."""

    spark: Any
    stream: Stream
    folder: Path
    start: int
    mode: str

    def side(self, name: str) -> Any:
        delay = f"{self.stream.delay_s(self.start)} seconds"
        return self.unmarked(name).withWatermark("ts", delay)

    def unmarked(self, name: str) -> Any:
        """A side without a watermark."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder / name))

    def named(self, name: str) -> Any:
        """A side for a join: its columns have its name before them."""
        return self.side(name).selectExpr(
            f"key AS {name}_key", f"part AS {name}_part", f"ts AS {name}_ts", f"n AS {name}_n"
        )


Build = Callable[[Input], Any]


@dataclass(frozen=True)
class Group:
    """Operators of one query, and how it runs."""

    name: str
    mode: str
    operators: dict[str, Build]
    evicts: bool = True
    narrows: bool = True
    """Our store is told which rows each of its operators looks for."""
    uses_python: bool = False
    conf: dict[str, str] = field(default_factory=dict)

    def build(self, given: Input) -> Any:
        """In an order of the stream's own: so an operator has not always the same number."""
        names = sorted(self.operators)
        given.stream.dice("operators").shuffle(names)
        frames = [_told_by(name, self.operators[name](given)) for name in names]
        return reduce(lambda one, other: one.unionAll(other), frames)


def _told_by(name: str, frame: Any) -> Any:
    from pyspark.sql import functions as f

    # A struct as text has its times to the microsecond.
    columns = [f.col(f"`{column}`") for column in frame.columns]
    return frame.select(f.lit(name).alias("operator"), f.struct(*columns).cast("string"))


def _sums(frame: Any) -> Any:
    from pyspark.sql import functions as f

    return frame.agg(f.count("*").alias("rows"), f.sum("n").alias("sum"), f.max("text"))


def tumbling(given: Input) -> Any:
    from pyspark.sql import functions as f

    return _sums(given.side("left").groupBy(f.window("ts", "5 seconds"), "key"))


def sliding(given: Input) -> Any:
    from pyspark.sql import functions as f

    return _sums(given.side("right").groupBy("part", f.window("ts", "15 seconds", "5 seconds")))


def by_time(given: Input) -> Any:
    return _sums(given.side("left").groupBy("part", "ts"))


def duplicates(given: Input) -> Any:
    return given.side("left").dropDuplicates(["key", "ts"])


def duplicates_of_windows(given: Input) -> Any:
    from pyspark.sql import functions as f

    frame = given.side("right").select(f.window("ts", "5 seconds"), "part", "key")
    return frame.dropDuplicates(["part", "window"])


def duplicates_within(given: Input) -> Any:
    return given.side("left").dropDuplicatesWithinWatermark(["key", "part"])


def sessions(given: Input) -> Any:
    """Their gap differs by row; a row whose gap is none or null has no session."""
    from pyspark.sql import functions as f

    gap = f.concat(f.col("gap").cast("string"), f.lit(" seconds"))
    return _sums(given.side("left").groupBy(f.session_window("ts", gap), "key"))


def windows_of_distinct(given: Input) -> Any:
    from pyspark.sql import functions as f

    return _sums(duplicates(given).groupBy(f.window("ts", "5 seconds"), "part"))


def windows_of_distinct_within(given: Input) -> Any:
    from pyspark.sql import functions as f

    return _sums(duplicates_within(given).groupBy(f.window("ts", "20 seconds", "5 seconds")))


def windows_of_windows(given: Input) -> Any:
    """The second evicts by the watermark that the first hands on."""
    from pyspark.sql import functions as f

    first = tumbling(given).select(f.window_time("window").alias("at"), "key", "rows", "sum")
    return first.groupBy(f.window("at", "20 seconds")).agg(f.sum("rows"), f.sum("sum"))


def sums_of_both(given: Input) -> Any:
    """Windows over two sources, whose watermarks may lag behind one another."""
    from pyspark.sql import functions as f

    both = given.side("left").unionAll(given.side("right"))
    return _sums(both.groupBy(f.window("ts", "5 seconds"), "part"))


def _timed(given: Input, timeout: str) -> Any:
    from pyspark.sql import DataFrame

    groups = given.spark._jvm.cecstore.tests.TimedGroups
    return DataFrame(groups.timed(given.side("left")._jdf, timeout, given.mode), given.spark)


def timeouts(given: Input) -> Any:
    return _timed(given, "event")


def timeouts_by_the_clock(given: Input) -> Any:
    return _timed(given, "processing")


def pandas_timeouts(given: Input) -> Any:
    return pandas_groups(given.side("left"), "event", given.mode)


def pandas_timeouts_by_the_clock(given: Input) -> Any:
    return pandas_groups(given.side("left"), "processing", given.mode)


def _joined(given: Input, how: str) -> Any:
    from pyspark.sql import functions as f

    condition = f.expr(
        "left_key = right_key AND "
        "right_ts BETWEEN left_ts - INTERVAL 4 SECONDS AND left_ts + INTERVAL 6 SECONDS"
    )
    return given.named("left").join(given.named("right"), condition, how)


def _joining(how: str) -> Build:
    return lambda given: _joined(given, how)


def join_on_windows(given: Input) -> Any:
    """The time is in the join's key."""
    from pyspark.sql import functions as f

    left, right = (
        given.side(side).select(
            "key", f.window("ts", "5 seconds").alias("span"), f.col("n").alias(f"{side}_n")
        )
        for side in ("left", "right")
    )
    return left.join(right, ["key", "span"], "leftOuter")


def join_on_times(given: Input) -> Any:
    """The time is in the join's key, and one side alone has a watermark."""
    from pyspark.sql import functions as f

    left, right = given.side("left"), given.unmarked("right")
    right = right.select("key", "ts", f.col("n").alias("right_n"))
    return left.select("key", "ts", "n").join(right, ["key", "ts"])


def self_join(given: Input) -> Any:
    from pyspark.sql import functions as f

    one, other = given.side("left").alias("one"), given.side("left").alias("other")
    condition = f.expr(
        "one.key = other.key AND other.ts > one.ts AND other.ts <= one.ts + INTERVAL 5 SECONDS"
    )
    return one.join(other, condition).select(
        "one.key", f.col("one.ts").alias("ts"), f.col("other.ts").alias("later"), "other.n"
    )


def windows_of_a_join(given: Input) -> Any:
    from pyspark.sql import functions as f

    pairs = _joined(given, "inner").groupBy(f.window("left_ts", "10 seconds"), "left_part")
    return pairs.agg(f.count("*").alias("pairs"), f.sum("right_n").alias("sum"))


def join_of_windows(given: Input) -> Any:
    """Either side is an aggregation, which hands its watermark on to the join."""
    from pyspark.sql import functions as f

    left, right = (
        given.side(side)
        .groupBy(f.window("ts", "5 seconds"), "part")
        .agg(f.sum("n").alias(f"{side}_sum"))
        for side in ("left", "right")
    )
    return left.join(right, ["window", "part"])


def _named(*builds: Build) -> dict[str, Build]:
    return {build.__name__: build for build in builds}  # type: ignore[attr-defined]


_IN_EITHER_MODE = _named(
    tumbling, sliding, by_time, sums_of_both, duplicates, duplicates_of_windows, duplicates_within,
    windows_of_distinct, timeouts,
)  # fmt: skip
# Batches without data would never end here: Spark runs one whenever a processing time may be over.
_CLOCK = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
GROUPS = {
    group.name: group
    for group in (
        Group(
            "append", "append",
            {**_IN_EITHER_MODE,
             **_named(sessions, windows_of_distinct_within, windows_of_windows)},
        ),
        Group("update", "update", _IN_EITHER_MODE),
        Group(
            "complete", "complete", _named(tumbling, sliding, by_time, sessions),
            evicts=False, narrows=False,
        ),
        Group(
            "joins", "append",
            {**{how: _joining(how) for how in
                ("inner", "leftOuter", "rightOuter", "fullOuter", "leftSemi")},
             **_named(join_on_windows, join_on_times, self_join, windows_of_a_join,
                      join_of_windows)},
        ),
        Group(
            "clock", "update", _named(timeouts, timeouts_by_the_clock), conf=_CLOCK,
        ),
        Group(
            "pandas", "update", _named(pandas_timeouts, pandas_timeouts_by_the_clock),
            uses_python=True, conf=_CLOCK,
        ),
    )
}  # fmt: skip
