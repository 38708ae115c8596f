"""Copies of queues that are written meanwhile, in the order that docs/stores.md names."""

import os
import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from cec_store import open_queue, read_queue
from cec_store.inspector.places.places import place_at
from cec_store.inspector.verifying.place import verify_place
from support.runs.counts import crash_count

SCHEMA = pa.schema([("n", pa.int64())])
COPIES = crash_count(8, 100)


def in_order(path: Path, partitions: int | None) -> list[list[str]]:
    """Return what is copied, by steps: what says how far the queue goes, and then its rows."""
    if partitions is None:
        return [["manifest-*", "durable-*"], ["*.seg"]]
    return [["log/mark"], ["log/*/*"], ["data/**/*.seg"]]


@pytest.mark.parametrize("partitions", [None, 2])
@pytest.mark.parametrize("seed", range(COPIES))
def test_a_copy_has_what_was_acknowledged_before_it_began(
    tmp_path: Path, seed: int, partitions: int | None
) -> None:
    dice, path, copy = Random(seed), tmp_path / "q", tmp_path / "copy"
    told = {"note-old"} if partitions is None else set()
    appended = 0
    with open_queue(path, "a", schema=SCHEMA, partitions=partitions) as queue:

        def go_on() -> None:
            nonlocal appended
            for _ in range(dice.randrange(3)):
                rows = dice.choice([1, 10, 30_000])
                queue.append(pa.table({"n": range(appended, appended + rows)}))
                appended += rows
                if partitions is None:
                    queue.sync()
                    if dice.random() < 0.3:
                        queue.roll()

        go_on()
        go_on()
        before = appended
        for patterns in in_order(path, partitions):
            for file in sorted(file for pattern in patterns for file in path.glob(pattern)):
                go_on()
                to = copy / file.relative_to(path)
                os.makedirs(to.parent, exist_ok=True)
                shutil.copy2(file, to)
    rows = sorted(read_queue(copy).read_all()["n"].to_pylist()) if before else []
    assert rows == [*range(len(rows))]
    assert before <= len(rows) <= appended
    assert {fault.kind for fault in verify_place(place_at(copy)).faults} <= told
    with open_queue(copy, "a", schema=SCHEMA, partitions=partitions):
        """It has gone on from there."""
    assert verify_place(place_at(copy)).faults == ()
    assert read_queue(copy).read_all().num_rows >= len(rows)
