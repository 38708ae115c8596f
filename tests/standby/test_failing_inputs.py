"""A standby whose input fails for a moment takes no row twice, and none too few."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cec_store import Standby, StoreUnreachable, Targets, open_queue
from cec_store.operators import (
    Aggregate,
    ArrowSource,
    CountWindow,
    Operator,
    Runner,
    WindowJoin,
    record_schema,
)

ROWS = 100
TIMES = pa.array(range(ROWS), pa.timestamp("us", "UTC"))
TABLE = pa.table(
    {
        # Every tenth row opens a window, by which the log says how far the input was taken.
        "item": [1 if n % 10 else 1000 + n for n in range(ROWS)],
        "group": [n % 3 for n in range(ROWS)],
        "n": range(ROWS),
        "at": TIMES,
    }
)


class Input:
    """The first rows of the table, in batches of five; a read may fail before its third batch."""

    has_ended = True

    def __init__(self, rows: int) -> None:
        self.schema, self.rows, self.fails_at = TABLE.schema, rows, -1

    def read(self, start: int, stop: int | None = None) -> Iterator[pa.RecordBatch]:
        source = ArrowSource(TABLE.slice(0, self.rows), "at", batch_rows_max=5)
        for number, batch in enumerate(source.read(start, stop)):
            if number == self.fails_at:
                self.fails_at = -1
                raise StoreUnreachable("no answer")
            yield batch


def totals() -> Operator:
    return Aggregate(
        group_by=["item"],
        aggregates={"total": ("sum", "n")},
        window=CountWindow(60),
        input_schema=TABLE.schema,
    )


def pairs() -> Operator:
    return WindowJoin(TABLE.schema, TABLE.schema, on=["group"], within_us=40)


def output(path: Path, make: Callable[[], Operator], scheme: str, fails_at: int) -> Any:
    """All output of an operator that another one follows and takes over from."""
    inputs = range(make().inputs)
    theirs, own = [Input(5) for _ in inputs], [Input(5) for _ in inputs]
    with open_queue(path, "a", schema=record_schema(make())) as queue:
        runner = Runner(make(), theirs, queue, Targets(extent_records=10**6), step_rows_max=5)
        runner.run()
        standby = Standby(path, make, own, scheme, Targets(), step_rows_max=5)
        if fails_at % 2:  # else it begins while its input fails
            standby.follow()
        for source in (*theirs, *own):
            source.rows = 45
        runner.run()
        own[0].fails_at = fails_at
        for _ in range(3):
            with suppress(StoreUnreachable):
                standby.follow()
    for source in own:
        source.rows, source.fails_at = ROWS, -1
    taken = standby.take_over()
    taken.runner.run()
    with taken.queue as queue:
        return queue.replay().read_all().to_pylist()


@pytest.mark.parametrize("fails_at", [-1, 0, 1, 2, 3, 6, 7])
@pytest.mark.parametrize("scheme", ["passive standby", "active standby"])
@pytest.mark.parametrize("make", [totals, pairs])
def test_an_input_that_fails_for_a_moment_changes_no_output(
    make: Callable[[], Operator], scheme: str, fails_at: int, tmp_path: Path
) -> None:
    with open_queue(tmp_path / "alone", "a", schema=record_schema(make())) as queue:
        Runner(make(), [Input(ROWS) for _ in range(make().inputs)], queue).run()
        alone = queue.replay().read_all().to_pylist()
    assert alone
    assert output(tmp_path / "followed", make, scheme, fails_at) == alone
