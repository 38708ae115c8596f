"""Rows, windows and functions that aggregates are tried on."""

import datetime
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow, SessionWindow, TimeWindow
from support.models.reference_operators import Row, make_rows, plain

SCHEMA = pa.schema(
    {
        "s": pa.string(),
        "k": pa.int64(),
        "g": pa.float64(),
        "f": pa.float64(),
        "f4": pa.float32(),
        "i": pa.int32(),
        "u": pa.uint8(),
        "t": pa.timestamp("ms"),
        "d": pa.date32(),
        "at": pa.timestamp("us"),
        "w": pa.int64(),
        "x": pa.uint64(),
    }
)
AGGREGATES = {
    "rows": ("count",),
    "n": ("count", "f"),
    "total": ("sum", "f"),
    "mean": ("avg", "f"),
    "least": ("min", "f"),
    "most": ("max", "f"),
    "total4": ("sum", "f4"),
    "least4": ("min", "f4"),
    "total_i": ("sum", "i"),
    "mean_i": ("avg", "i"),
    "least_i": ("min", "i"),
    "most_u": ("max", "u"),
    "total_u": ("sum", "u"),
    "mean_w": ("avg", "w"),
    "mean_x": ("avg", "x"),
    "first": ("min", "t"),
    "last": ("max", "d"),
}
COUNT_WINDOWS = (
    CountWindow(1),
    CountWindow(2),
    CountWindow(7),
    CountWindow(4, 2),
    CountWindow(5, 2),
    CountWindow(3, 1),
)
TIME_WINDOWS = (
    TimeWindow(1),
    TimeWindow(10),
    TimeWindow(40),
    TimeWindow(40, 20),
    TimeWindow(25, 10),
    TimeWindow(3, 1),
)
SESSION_WINDOWS = (
    SessionWindow(1),
    SessionWindow(4, watermark_delay_us=40),
    SessionWindow(10, watermark_delay_us=10),
    SessionWindow(10, watermark_delay_us=35),
    SessionWindow(3, watermark_delay_us=200),
    SessionWindow(1_000_000),
)


def some(rng: random.Random, values, null_share=0.2):
    return None if rng.random() < null_share else rng.choice(values)


def make_input(rng: random.Random, source: int, row_count: int) -> list[Row]:
    """Timestamps repeat and go backward, offsets have gaps, every column has nulls."""
    clock, times = rng.randrange(-60, 60), []
    for _ in range(row_count):
        clock += rng.choice([0, 0, 1, 2, 9, -4])
        times.append(clock + rng.choice([0, 0, 0, -30]))
    floats = [0.1, 1e16, -1e16, 3.7, -2.5, float("inf")] + [float("nan")] * (rng.random() < 0.1)
    day = datetime.date(1969, 12, 31)
    columns = {
        "s": [some(rng, ["", "a", "b\0", "b", "a long enough one"]) for _ in times],
        "k": [some(rng, [0, -1, 7, 2**62]) for _ in times],
        "g": [some(rng, [0.0, -0.0, float("nan"), 1.5]) for _ in times],
        "f": [some(rng, floats) for _ in times],
        "f4": [some(rng, [0.1, 2.5, -7.25]) for _ in times],
        "i": [some(rng, [-3, 0, 1, 2**31 - 1]) for _ in times],
        "u": [some(rng, [0, 1, 200, 255]) for _ in times],
        "t": [some(rng, [datetime.datetime(2013, 1, n) for n in (1, 2, 3)]) for _ in times],
        "d": [some(rng, [day, day + datetime.timedelta(3)]) for _ in times],
        "at": pa.array([some(rng, [time + 5], 0.1) for time in times], SCHEMA.field("at").type),
    }
    # Drawn apart, so that they change no other draw.
    wide = random.Random(f"{source} {clock} {row_count}")
    columns["w"] = [some(wide, [-(2**63), 2**63 - 1, 2**53 + 1, -7]) for _ in times]
    columns["x"] = [some(wide, [2**64 - 1, 2**63, 2**53 + 1, 1]) for _ in times]
    offsets = np.cumsum([rng.choice([1, 1, 1, 4]) for _ in times]) if times else []
    return make_rows(source, SCHEMA, columns, times, offsets)


def event_time_us(row: Row) -> int | None:
    """The time in the column ``at``, in microseconds."""
    at = row.values["at"]
    return None if at is None else plain(at.replace(tzinfo=datetime.timezone.utc))


def aggregates(
    window: CountWindow | TimeWindow | SessionWindow,
    group_by: list[str],
    inputs: int = 1,
    event_time: Any = None,
) -> Callable[[], Aggregate]:
    """Makes an aggregate over all of these, a new one each time."""
    return partial(
        Aggregate,
        group_by=group_by,
        aggregates=AGGREGATES,
        window=window,
        input_schema=SCHEMA,
        event_time=event_time,
        inputs=inputs,
    )
