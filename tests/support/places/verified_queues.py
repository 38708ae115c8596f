"""A queue of three partitions for the verbs, and what harms its objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from cec_store.inspector.places.places import place_at
from cec_store.opening import open_queue
from cec_store.storage.stores.store import Store

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("key", pa.string()), ("n", pa.int64())])
COMMITS = 9


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    at = pa.array([1_000_000 * n for n in numbers], pa.timestamp("us", "UTC"))
    keys = [f"k{n % 7}" for n in numbers]
    return pa.table({"at": at, "key": keys, "n": list(numbers)}, schema=SCHEMA)


def make(path: str | Path) -> None:
    """Three partitions, of 50 rows more with each of eight commits."""
    queue = open_queue(
        path, "a", schema=SCHEMA, partitions=3, key_columns=["key"], timestamp_column="at",
        retention="7d", clock_us=lambda: 5,
    )  # fmt: skip
    for number in range(COMMITS - 1):
        queue.append(rows(50 * number, 50))


def replace(store: Store, name: str, data: bytes) -> None:
    store.delete([name])
    store.create(name, [data])


def flip(store: Store, name: str, byte: int) -> None:
    data = bytearray(store.read(name))
    data[byte] ^= 1
    replace(store, name, bytes(data))


def live(store: Store) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = place_at(store.url).reference.state.live.to_pylist()
    return found
