"""Events as in NEXMark: of fifty one is a new person, three are new auctions, the rest are bids."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMAS = {
    "persons": "id long, name string, time timestamp",
    "auctions": "id long, seller long, time timestamp",
    "bids": "auction long, bidder long, price long, time timestamp",
}
EVENTS_PER_S = 10_000
BATCH_S = 5
_START_US = 1_700_000_000_000_000
_CYCLE = 50
_HOT = 100
"""Bids and sellers are of the newest ones."""


def write(folder: Path, batches: int, events_per_s: int = EVENTS_PER_S) -> int:
    """Write a file a batch for each kind of event; gives back the events of a batch."""
    events = events_per_s * BATCH_S
    for kind in SCHEMAS:
        (folder / kind).mkdir(parents=True)
    for batch in range(batches):
        for kind, table in _tables(batch, events, events_per_s).items():
            path = folder / kind / f"{batch:05}.parquet"
            pq.write_table(table, path, compression="none")
            os.utime(path, (1_700_000_000 + batch,) * 2)
    return events


def _tables(batch: int, events: int, events_per_s: int) -> dict[str, pa.Table]:
    dice = np.random.default_rng([7, batch])
    number = np.arange(batch * events, (batch + 1) * events)
    turn = number % _CYCLE
    times = pa.array(_START_US + number * 1_000_000 // events_per_s, pa.timestamp("us", "UTC"))
    is_person, is_auction, is_bid = turn == 0, (turn > 0) & (turn < 4), turn >= 4
    persons, auctions = number // _CYCLE + 1, 3 * (number // _CYCLE) + 1

    def recent(newest: np.ndarray) -> np.ndarray:
        return np.maximum(0, newest - dice.integers(0, _HOT, len(newest)))

    ids = number[is_person] // _CYCLE
    return {
        "persons": pa.table(
            {"id": ids, "name": [f"person {one}" for one in ids.tolist()],
             "time": times.filter(pa.array(is_person))}
        ),
        "auctions": pa.table(
            {"id": auctions[is_auction] + turn[is_auction] - 1,
             "seller": recent(persons[is_auction]), "time": times.filter(pa.array(is_auction))}
        ),
        "bids": pa.table(
            {"auction": recent(auctions[is_bid]), "bidder": recent(persons[is_bid]),
             "price": (10 ** (6 * dice.random(int(is_bid.sum()))) * 100).astype(np.int64),
             "time": times.filter(pa.array(is_bid))}
        ),
    }  # fmt: skip
