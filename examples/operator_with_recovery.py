"""An average over the last orders of each customer, stopped in the middle, and brought back."""

import tempfile

import numpy as np
import pyarrow as pa

from cec_store import Targets, open_queue
from cec_store.operators import Aggregate, ArrowSource, CountWindow, Runner, record_schema

ORDERS = 50_000
RANDOM = np.random.default_rng(7)
TABLE = pa.table(
    {
        "at": pa.array(np.arange(ORDERS) * 1_000_000).cast(pa.timestamp("us", "UTC")),
        "customer": pa.array(RANDOM.integers(0, 500, ORDERS)),
        "amount": pa.array(RANDOM.integers(1, 100, ORDERS)),
    }
)


def run(path: str, orders: int) -> Runner:
    """Take the first ``orders`` of the input; a new Runner on an old queue recovers by itself."""
    operator = Aggregate(
        group_by=["customer"],
        aggregates={"average": ("avg", "amount")},
        window=CountWindow(10),
        input_schema=TABLE.schema,
    )
    policy = Targets(extent_factor=2.0, replay_rows=5_000)  # Q and U
    with open_queue(path, "a", schema=record_schema(operator)) as queue:
        source = ArrowSource(TABLE.slice(0, orders), "at")
        runner = Runner(operator, [source], queue, policy, step_rows_max=1_000)
        runner.run()
    return runner


def results(path: str) -> list[dict[str, object]]:
    with open_queue(path) as queue:
        return [row for batch in queue.replay() for row in batch.to_pylist()]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(folder + "/whole", ORDERS)

        run(folder + "/halved", ORDERS // 2)  # all that it had in memory is gone here
        found = run(folder + "/halved", ORDERS).recovery
        assert found is not None
        print(
            f"read {found.extent.records} records back, found {found.extent.open_windows} windows"
        )
        print(f"took {found.replayed_rows} orders again, from {found.replay_from[0]} on")

        rows = results(folder + "/halved")
        assert rows == results(folder + "/whole")
        print(f"{len(rows)} averages, the same as without the stop")


if __name__ == "__main__":
    main()
