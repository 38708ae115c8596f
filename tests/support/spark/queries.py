"""Streaming queries that keep state, one for each operator that Spark lets a provider serve."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from support.spark.inputs import Inputs


@dataclass(frozen=True)
class StreamQuery:
    name: str
    build: Callable[[Any, Inputs], Any]
    mode: str = "append"
    evicts: bool = True
    """State must be removed in some batch."""
    conf: dict[str, str] = field(default_factory=dict)
    is_extra: bool = False
    """Others do what it does; it runs at full size only."""


QUERIES: dict[str, StreamQuery] = {}


def query(
    mode: str = "append", *, evicts: bool = True, is_extra: bool = False, **conf: str
) -> Callable[..., Any]:
    def register(build: Callable[[Any, Inputs], Any]) -> Callable[[Any, Inputs], Any]:
        settings = {f"spark.sql.streaming.{key}": value for key, value in conf.items()}
        name = build.__name__
        QUERIES[name] = StreamQuery(name, build, mode, evicts, settings, is_extra)
        return build

    return register


def sums() -> list[Any]:
    from pyspark.sql import functions as f

    return [f.count("*").alias("rows"), f.sum("n").alias("sum"), f.max("text").alias("longest")]


def windowed(frame: Any, *keys: str) -> Any:
    from pyspark.sql import functions as f

    return frame.groupBy(f.window("ts", "10 seconds"), *keys)


@query("update", evicts=False)
def aggregate_update(spark: Any, inputs: Inputs) -> Any:
    return inputs.read(spark).groupBy("key", "part").agg(*sums())


@query("complete", evicts=False)
def aggregate_complete(spark: Any, inputs: Inputs) -> Any:
    return inputs.read(spark).groupBy("key", "part").agg(*sums())


@query("complete", evicts=False, is_extra=True)
def aggregate_without_keys(spark: Any, inputs: Inputs) -> Any:
    return inputs.read(spark).groupBy().agg(*sums())


@query("update")
def aggregate_windows_update(spark: Any, inputs: Inputs) -> Any:
    return windowed(inputs.timed(spark), "key").agg(*sums())


@query("append")
def aggregate_windows_append(spark: Any, inputs: Inputs) -> Any:
    return windowed(inputs.timed(spark), "key").agg(*sums())


@query("complete", evicts=False)
def aggregate_windows_complete(spark: Any, inputs: Inputs) -> Any:
    """The watermark is there, and evicts nothing."""
    return windowed(inputs.timed(spark), "key").agg(*sums())


@query("append", is_extra=True)
def aggregate_lists_append(spark: Any, inputs: Inputs) -> Any:
    """An aggregate whose state is an object, which grows."""
    from pyspark.sql import functions as f

    return windowed(inputs.timed(spark)).agg(f.sort_array(f.collect_list("n")).alias("all"))


@query("append", evicts=False)
def drop_duplicates(spark: Any, inputs: Inputs) -> Any:
    return inputs.read(spark).dropDuplicates(["key", "part"])


@query("append", is_extra=True)
def drop_duplicates_by_time(spark: Any, inputs: Inputs) -> Any:
    return inputs.timed(spark).dropDuplicates(["key", "ts"])


@query("append")
def drop_duplicates_within_watermark(spark: Any, inputs: Inputs) -> Any:
    return inputs.timed(spark).dropDuplicatesWithinWatermark(["key", "part"])


@query("append", evicts=False)
def limit(spark: Any, inputs: Inputs) -> Any:
    return inputs.read(spark).limit(int(inputs.rows * 5.5))


@query("append")
def session_windows_append(spark: Any, inputs: Inputs) -> Any:
    from pyspark.sql import functions as f

    gap = f.session_window("ts", "4 seconds")
    return inputs.timed(spark).groupBy(gap, "key").agg(*sums())


@query("complete", is_extra=True)
def session_windows_complete(spark: Any, inputs: Inputs) -> Any:
    """No watermark evicts here, but two sessions that a row joins become one."""
    from pyspark.sql import functions as f

    gap = f.session_window("ts", "4 seconds")
    return inputs.timed(spark).groupBy(gap, "key").agg(*sums())


def pandas_groups(frame: Any, timeout: str, mode: str = "update") -> Any:
    """Count and sum each key's rows, whose times may be null.

    The function goes to Python workers, so it is a closure.
    """
    from pyspark.sql.streaming.state import GroupStateTimeout

    timeouts = {
        "none": GroupStateTimeout.NoTimeout,
        "processing": GroupStateTimeout.ProcessingTimeTimeout,
        "event": GroupStateTimeout.EventTimeTimeout,
    }

    def step(key: Any, parts: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas

        rows, total = state.get if state.exists else (0, 0)
        what = "more"
        if state.hasTimedOut:
            what = "timed out"
            state.remove()
        else:
            last = -1
            for part in parts:
                rows, total = rows + len(part), total + int(part["n"].sum())
                last = max([last, *part["ms"].dropna().astype("int64")])
            if timeout != "event" and rows > 12:
                what = "full"
                state.remove()
            else:
                state.update((rows, total))
                if timeout == "processing":
                    # One millisecond is over by the next batch; an hour not within the test.
                    state.setTimeoutDuration(1 if rows % 2 == 0 else 3_600_000)
                elif timeout == "event" and last >= 0:
                    state.setTimeoutTimestamp(max(last + 4000, state.getCurrentWatermarkMs() + 1))
        yield pandas.DataFrame({"key": [key[0]], "what": [what], "rows": [rows], "sum": [total]})

    return (
        frame.selectExpr("key", "ts", "n", "unix_millis(ts) AS ms")
        .groupBy("key")
        .applyInPandasWithState(
            step,
            "key STRING, what STRING, rows LONG, sum LONG",
            "rows LONG, sum LONG",
            mode,
            timeouts[timeout],
        )
    )


@query("update")
def pandas_state(spark: Any, inputs: Inputs) -> Any:
    return pandas_groups(inputs.read(spark), "none")


# Batches without data would never end here: Spark runs one whenever a processing time may be over.
@query("update", **{"noDataMicroBatches.enabled": "false"})
def pandas_state_processing_time(spark: Any, inputs: Inputs) -> Any:
    return pandas_groups(inputs.read(spark), "processing")


@query("update")
def pandas_state_event_time(spark: Any, inputs: Inputs) -> Any:
    return pandas_groups(inputs.timed(spark), "event")


def scala_groups(spark: Any, name: str, frame: Any, *args: str) -> Any:
    from pyspark.sql import DataFrame

    groups = spark._jvm.cecstore.tests.GroupStates
    return DataFrame(getattr(groups, name)(frame._jdf, *args), spark)


@query("update", is_extra=True)
def flat_map_groups(spark: Any, inputs: Inputs) -> Any:
    return scala_groups(spark, "flatMapped", inputs.read(spark), "none")


@query("update", **{"noDataMicroBatches.enabled": "false"})
def flat_map_groups_processing_time(spark: Any, inputs: Inputs) -> Any:
    return scala_groups(spark, "flatMapped", inputs.read(spark), "processing")


@query("update")
def flat_map_groups_event_time(spark: Any, inputs: Inputs) -> Any:
    return scala_groups(spark, "flatMapped", inputs.timed(spark), "event")


@query("update", is_extra=True)
def map_groups(spark: Any, inputs: Inputs) -> Any:
    return scala_groups(spark, "mapped", inputs.read(spark))


def sides(spark: Any, inputs: Inputs) -> tuple[Any, Any]:
    left, right = (
        inputs.timed(spark, side).selectExpr(
            f"key AS {side}_key", f"part AS {side}_part", f"ts AS {side}_ts", f"n AS {side}_n"
        )
        for side in ("left", "right")
    )
    return left, right


def joined(spark: Any, inputs: Inputs, how: str) -> Any:
    """Both sides have a watermark and the times are bounded, so the state of both is evicted."""
    from pyspark.sql import functions as f

    left, right = sides(spark, inputs)
    condition = f.expr(
        "left_key = right_key AND left_part = right_part AND "
        "right_ts BETWEEN left_ts - INTERVAL 4 SECONDS AND left_ts + INTERVAL 6 SECONDS"
    )
    return left.join(right, condition, how)


@query()
def join_inner(spark: Any, inputs: Inputs) -> Any:
    return joined(spark, inputs, "inner")


@query()
def join_left_outer(spark: Any, inputs: Inputs) -> Any:
    return joined(spark, inputs, "leftOuter")


@query(is_extra=True)
def join_right_outer(spark: Any, inputs: Inputs) -> Any:
    return joined(spark, inputs, "rightOuter")


@query()
def join_full_outer(spark: Any, inputs: Inputs) -> Any:
    return joined(spark, inputs, "fullOuter")


@query()
def join_left_semi(spark: Any, inputs: Inputs) -> Any:
    return joined(spark, inputs, "leftSemi")


@query(is_extra=True)
def join_on_windows(spark: Any, inputs: Inputs) -> Any:
    """The watermark is in the join's key, so that whole keys are evicted and not single values."""
    from pyspark.sql import functions as f

    left, right = (
        inputs.timed(spark, side).select(
            "key", f.window("ts", "10 seconds").alias("span"), f.col("n").alias(f"{side}_n")
        )
        for side in ("left", "right")
    )
    return left.join(right, ["key", "span"], "leftOuter")


@query()
def join_then_aggregate(spark: Any, inputs: Inputs) -> Any:
    from pyspark.sql import functions as f

    pairs = joined(spark, inputs, "inner")
    return pairs.groupBy(f.window("left_ts", "10 seconds"), "left_part").agg(
        f.count("*").alias("pairs"), f.sum("right_n").alias("sum")
    )


@query()
def aggregate_then_aggregate(spark: Any, inputs: Inputs) -> Any:
    from pyspark.sql import functions as f

    first = windowed(inputs.timed(spark), "key", "part").agg(*sums())
    again = first.select(f.window_time("window").alias("at"), "part", "rows", "sum")
    return again.groupBy(f.window("at", "20 seconds"), "part").agg(
        f.count("*").alias("groups"), f.sum("rows").alias("rows"), f.sum("sum").alias("sum")
    )


@query()
def deduplicate_then_aggregate(spark: Any, inputs: Inputs) -> Any:
    return windowed(inputs.timed(spark).dropDuplicates(["key", "ts"]), "part").agg(*sums())
