"""Rows keep the order of the queue, and come once, also where a rollback cuts batches elsewhere.

The recovery paper's Algorithms 1 and 2. Spark's batches give it for free: one reads a range of
offsets in their order, and is written once, by its number. A rollback brings the query's offsets
and the queue that it writes back to the same cut, so whatever the batches after that hold, none of
their rows is there already.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cec_store import read_queue
from cec_store.connectors.spark.checkpoint.layout import Checkpoint
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.going_back import roll_back
from cec_store.connectors.spark.fleet.rules import Rules
from support.fleets import diamond

pytestmark = pytest.mark.usefixtures("unfenced")
ROWS = 120
PERIOD_S = 0.2
DEADLINE_S = 300.0


def declared(folder: Path, rows_of_a_batch: int) -> Fleet:
    """A query after another one, each of which takes so many rows at a time."""
    fleet = Fleet(folder / "fleet", rules=Rules(checkpoint_s=0.2, kept_checkpoints=1000))
    taken = {"maxOffsetsPerTrigger": str(rows_of_a_batch)}
    for reads, writes in (("input", "first"), ("first", "second")):
        fleet.query(
            writes, diamond.tenfold, reads=[str(folder / reads)], writes=str(folder / writes),
            read_options=taken,
        )  # fmt: skip
    return fleet


def numbers(folder: Path, name: str) -> list[int]:
    """As they stand in the queue."""
    if not (folder / name).exists():
        return []
    found: list[int] = read_queue(folder / name).read_all()["v"].to_pylist()
    return found


def cuts(fleet: Fleet, generation: int) -> list[int]:
    """Where the batches of the second query end."""
    checkpoint = Checkpoint(fleet.folder.checkpoint_of("second", generation))
    found = []
    for batch in checkpoint.committed_batches():
        position = json.loads(checkpoint.offsets(batch).sources["0"] or "")
        position.pop("behind")
        (offsets,) = position.values()
        found.append(int(offsets["0"]))
    return found


def run_until_all_is_there(spark: Any, folder: Path, fleet: Fleet) -> None:
    end_s = time.monotonic() + DEADLINE_S
    with fleet.start(spark, period_s=PERIOD_S):
        while len(numbers(folder, "second")) < ROWS:
            assert time.monotonic() < end_s, numbers(folder, "second")
            time.sleep(0.5)


def test_rows_come_once_and_in_order_however_batches_are_cut(spark: Any, tmp_path: Path) -> None:
    diamond.make_input(tmp_path)
    diamond.add_rows(tmp_path, 0, ROWS)
    fleet = declared(tmp_path, 7)
    run_until_all_is_there(spark, tmp_path, fleet)
    due = {"first": [10 * n for n in range(ROWS)], "second": [100 * n for n in range(ROWS)]}
    assert {name: numbers(tmp_path, name) for name in due} == due
    # In the middle: both queries had done some of it, and not the same.
    middle = next(
        found
        for found in map(fleet.folder.checkpoint, fleet.folder.checkpoints())
        if all(0 < sum(offsets) < ROWS for offsets in found.needed.values())
    )
    roll_back(fleet.folder, fleet.folder.read(), middle, lambda: None)
    there = numbers(tmp_path, "second")
    assert there == due["second"][: len(there)]
    assert 0 < len(there) < ROWS

    again = declared(tmp_path, 5)
    run_until_all_is_there(spark, tmp_path, again)
    assert {name: numbers(tmp_path, name) for name in due} == due
    kept = [end for end in cuts(again, 0) if end <= len(there)]
    assert cuts(again, 1)[: len(kept)] == kept
    assert set(cuts(again, 1)) - set(cuts(again, 0)), "they were cut at the same places"
