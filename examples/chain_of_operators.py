"""Two operators over a queue: the output of the first is the input of the second."""

import tempfile

import numpy as np
import pyarrow as pa

from cec_store import open_queue
from cec_store.operators import (
    Aggregate,
    ArrowSource,
    CountWindow,
    QueueSource,
    Runner,
    TimeWindow,
    record_schema,
)

MINUTE_US = 60_000_000
RIDES = 20_000
RANDOM = np.random.default_rng(3)
TABLE = pa.table(
    {
        "at": pa.array(np.sort(RANDOM.integers(0, 600 * MINUTE_US, RIDES))).cast(
            pa.timestamp("us", "UTC")
        ),
        "station": pa.array(RANDOM.integers(0, 20, RIDES)),
        "fare": pa.array(RANDOM.integers(3, 40, RIDES)),
    }
)


def main() -> None:
    per_minute = Aggregate(
        group_by=["station"],
        aggregates={"rides": ("count",), "income": ("sum", "fare")},
        window=TimeWindow(10 * MINUTE_US),
        input_schema=TABLE.schema,
    )
    best = Aggregate(
        group_by=["station"],
        aggregates={"best_income": ("max", "income")},
        window=CountWindow(6),  # six times ten minutes
        input_schema=per_minute.output_schema,
    )
    with tempfile.TemporaryDirectory() as folder:
        schema = record_schema(per_minute)
        first = open_queue(folder + "/minutes", "x", schema=schema, retention="consumers")
        second = open_queue(folder + "/hours", "x", schema=record_schema(best))
        with first, second:
            Runner(per_minute, [ArrowSource(TABLE, "at")], first).run()
            # The second sees only what is durable in the first, under offsets that never change:
            # each of the two can crash and recover on its own. What the second will not ask for
            # again, whatever crashes, it acknowledges; the first forgets that, by its retention.
            with first.consumer("best-of-an-hour") as consumer:
                Runner(best, [QueueSource(first.chain, consumer)], second).run()
            first.trim()
            rows = [row for batch in second.replay() for row in batch.to_pylist()]
    print(f"{RIDES} rides, {len(rows)} best ten minutes of an hour; the first: {rows[0]}")


if __name__ == "__main__":
    main()
