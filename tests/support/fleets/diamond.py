"""A small fleet: six queries, two ways from one input to one output, and what each has to write.

Rows are `k` (a key), `v` (a number that is there once) and `at`, one second apart. No result goes
by where the input was cut into batches: windows are counted in append mode, and rows come in order.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from cec_store import NotAQueue, open_queue, read_queue
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.notes import GlobalCheckpoint
from cec_store.connectors.spark.fleet.rules import Rules

Folder = Path | str
"""Or the URL of one in a store."""
ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
KEYS = 4
WINDOW_S = 10
DEADLINE_S = 600.0
"""On a busy machine."""
START_S = 1_700_000_000
RULES = Rules(checkpoint_s=1.0, wait_first_s=0.2)
NAMES = ("parsed", "even", "odd", "counts", "joined", "tall")


def parsed(rows: Any) -> Any:
    return rows.selectExpr("k", "v", "at").where("v % 7 != 3")


def even(rows: Any) -> Any:
    return rows.where("v % 2 = 0").selectExpr("k", "v", "v * 10 as tenfold", "at")


def odd(rows: Any) -> Any:
    return rows.where("v % 2 = 1").selectExpr("k", "v - 1 as v", "at")


def counts(rows: Any) -> Any:
    late = rows.withWatermark("at", "0 seconds")
    counted = late.groupBy("k", _window()).count()
    return counted.selectExpr("k", "count as v", "window.start as at")


def joined(left: Any, right: Any) -> Any:
    """Each odd row with the even one before it."""
    left = left.withWatermark("at", "1 hour").selectExpr("k as lk", "v", "tenfold", "at as began")
    right = right.withWatermark("at", "1 hour").selectExpr("k as rk", "v as rv", "at")
    return left.join(right, _expr("v = rv and at >= began")).selectExpr("lk as k", "v", "at")


def tall(rows: Any) -> Any:
    return rows.where("v > 100")


def tenfold(rows: Any) -> Any:
    return rows.selectExpr("k", "v * 10 as v", "at")


def _window() -> Any:
    from pyspark.sql.functions import window

    return window("at", f"{WINDOW_S} seconds")


def _expr(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


def declared(folder: Folder, costs: Mapping[str, float] | None = None, **rules: Any) -> Fleet:
    """The fleet; its queues are in `folder`, its own folder is `fleet` there."""
    fleet = Fleet(f"{folder}/fleet", rules=Rules(**{**vars(RULES), **rules}))

    def add(name: str, *reads: str, priority: int | None = None) -> None:
        places = [f"{folder}/{each}" for each in reads]
        cost = None if costs is None else costs[name]
        place = f"{__name__}:{name}"
        fleet.query(
            name, place, reads=places, writes=f"{folder}/{name}", priority=priority, cost=cost
        )

    add("parsed", "input")
    add("even", "parsed")
    add("odd", "parsed")
    add("counts", "parsed", priority=9)
    add("joined", "even", "odd", priority=4)
    add("tall", "joined", priority=2)
    return fleet


def make_input(folder: Folder) -> None:
    make_queue(f"{folder}/input")


def make_queue(path: Folder) -> None:
    with open_queue(path, "x", schema=ROWS, partitions=1, timestamp_column="at"):
        pass


def add_rows(folder: Folder, first: int, count: int) -> None:
    numbers = range(first, first + count)
    columns = [
        pa.array([each % KEYS for each in numbers], pa.int64()),
        pa.array(list(numbers), pa.int64()),
        pa.array([(START_S + each) * 1_000_000 for each in numbers], ROWS.field("at").type),
    ]
    with open_queue(f"{folder}/input", "a", partitions=1) as queue:
        queue.append(pa.table(columns, schema=ROWS))


def wanted(count: int) -> dict[str, Counter[tuple[Any, ...]]]:
    """What each queue has to hold after so many rows of input; windows that are closed by then."""
    rows = [(n % KEYS, n) for n in range(count) if n % 7 != 3]
    last = max(n for _, n in rows)
    windows = Counter((k, (START_S + n) // WINDOW_S * WINDOW_S) for k, n in rows)
    closed = {key: n for key, n in windows.items() if key[1] + WINDOW_S <= START_S + last}
    have = {n for _, n in rows}
    pairs = [(k, n, n + 1) for k, n in rows if n % 2 == 0 and n + 1 in have]
    return {
        "parsed": Counter((k, n, START_S + n) for k, n in rows),
        "even": Counter((k, n, START_S + n) for k, n in rows if n % 2 == 0),
        "odd": Counter((k, n - 1, START_S + n) for k, n in rows if n % 2 == 1),
        "counts": Counter((k, n, at) for (k, at), n in closed.items()),
        "joined": Counter((k, n, START_S + at) for k, n, at in pairs),
        "tall": Counter((k, n, START_S + at) for k, n, at in pairs if n > 100),
    }


def got(queues: Mapping[str, Folder]) -> dict[str, Counter[tuple[Any, ...]]]:
    found = {}
    for name, path in queues.items():
        table = _rows(path)
        at = table["at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
        seconds = [each // 1_000_000 for each in at]
        found[name] = Counter(
            zip(table["k"].to_pylist(), table["v"].to_pylist(), seconds, strict=True)
        )
    return found


def _rows(path: Folder) -> pa.Table:
    try:
        return read_queue(path).read_all()
    except NotAQueue:
        return ROWS.empty_table()


def queues_of(folder: Folder) -> dict[str, Folder]:
    return {name: f"{folder}/{name}" for name in NAMES}


def differences(
    folder: Folder, count: int, queues: Mapping[str, Folder] | None = None
) -> list[str]:
    """What is missing and what is too much; nothing where all of it is as it has to be."""
    came, faults = got(queues or queues_of(folder)), []
    for name, rows in wanted(count).items():
        missing, more = rows - came[name], came[name] - rows
        faults += [f"{name}: {row} is missing" for row in list(missing)[:3]]
        faults += [f"{name}: {row} is too much" for row in list(more)[:3]]
    return faults


def await_all(folder: Folder, count: int, queues: Mapping[str, Folder] | None = None,
              deadline_s: float = DEADLINE_S) -> None:  # fmt: skip
    """Until there is all that so many rows of input lead to, and nothing else."""
    end_s = time.monotonic() + deadline_s
    while faults := differences(folder, count, queues):
        assert time.monotonic() < end_s, "\n".join(faults)
        time.sleep(1.0)


def await_checkpoint(fleet: Fleet, count: int, deadline_s: float = DEADLINE_S) -> GlobalCheckpoint:
    """A global checkpoint that has the first so many rows of the input, and no more."""
    end_s = time.monotonic() + deadline_s
    while True:
        for number in reversed(fleet.folder.checkpoints()):
            found = fleet.folder.checkpoint(number)
            if (count,) in found.needed.values():
                return found
        assert time.monotonic() < end_s, f"{fleet.folder.path}: {fleet.folder.checkpoints()}"
        time.sleep(0.1)


def with_empty_queues(folder: Path, costs: Mapping[str, float]) -> Fleet:
    """All of its queues are there, and nothing is in them."""
    make_input(folder)
    for name in NAMES:
        make_queue(folder / name)
    return declared(folder, costs, checkpoint_s=1000.0)
