"""The Spark demo's input as files, and what its queries must make of it, computed without Spark.

Spark is given a file at a time; what each batch took is handed to the recompute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cec_store.demos.flights import DEPARTURE

FEED = "feed"
CHECKPOINT = "checkpoint"
OUTPUT = "output"
AIRCRAFT = "aircraft"
FLEETS = "fleets"
QUERIES = (AIRCRAFT, FLEETS)
DAY = np.timedelta64(1, "D")
WATERMARK_DELAY = DAY
"""Flights of the day before may still come."""
DISTINCT, TOTALS = "dedupe", "stateStoreSave"
"""Names that Spark gives to its stateful operators."""


def cut(flights: pa.Table, files: int) -> list[pa.Table]:
    """Return ``files`` pieces of nearly equal length, in order."""
    ends = np.linspace(0, flights.num_rows, files + 1).astype(int)
    return [flights.slice(a, b - a) for a, b in pairwise(ends)]


def recompute_aircraft(inputs: Sequence[pa.Table]) -> pa.Table:
    """Per batch, each aircraft that flew in it: all its flights and minutes of delay up to then."""
    flights = pa.concat_tables(inputs)
    tails = flights.column("tailnum").combine_chunks().dictionary_encode()
    codes = tails.indices.to_numpy()
    delays = flights.column("dep_delay").to_numpy()
    count, minutes = (np.zeros(len(tails.dictionary), np.int64) for _ in range(2))
    ends = np.cumsum([piece.num_rows for piece in inputs])
    tables = []
    for batch, end in enumerate(ends):
        part = slice(end - inputs[batch].num_rows, end)
        np.add.at(count, codes[part], 1)
        np.add.at(minutes, codes[part], delays[part])
        flew = np.unique(codes[part])
        table = pa.table(
            {
                "batch": np.full(len(flew), batch),
                "tailnum": tails.dictionary.take(pa.array(flew)),
                "flights": count[flew],
                "delay_minutes": minutes[flew],
            }
        )
        tables.append(table.sort_by("tailnum"))
    return pa.concat_tables(tables).combine_chunks()


def recompute_fleets(pieces: Sequence[pa.Table]) -> pa.Table:
    """Return how many different aircraft of each carrier flew on each day that is over."""
    flights = pa.concat_tables(pieces)
    days = _days(flights)
    over = days + DAY <= days.max() - WATERMARK_DELAY
    table = pa.table(
        {
            "day": pa.array(days.astype("datetime64[us]")).cast(pa.timestamp("us", "UTC")),
            "carrier": flights.column("carrier"),
            "tailnum": flights.column("tailnum"),
        }
    ).filter(pa.array(over))
    counted = table.group_by(["day", "carrier"]).aggregate([("tailnum", "count_distinct")])
    counted = counted.rename_columns(["day", "carrier", "aircraft"])
    return counted.sort_by([("day", "ascending"), ("carrier", "ascending")]).combine_chunks()


def recompute_keys(
    inputs: Mapping[str, Sequence[pa.Table]], version: int
) -> dict[tuple[str, str], int]:
    """Return the keys of each stateful operator of each query after so many of its batches."""
    aircraft = pa.concat_tables(inputs[AIRCRAFT][:version])
    flights = pa.concat_tables(inputs[FLEETS][:version])
    days = _days(flights)
    # A batch's watermark comes from the batches before it.
    before = days[: sum(part.num_rows for part in inputs[FLEETS][: version - 1])]
    watermark = before.max() - WATERMARK_DELAY if len(before) else days.min() - DAY
    return {
        (AIRCRAFT, TOTALS): pc.count_distinct(aircraft.column("tailnum")).as_py(),
        (FLEETS, DISTINCT): _distinct(flights, days, days > watermark, ["carrier", "tailnum"]),
        (FLEETS, TOTALS): _distinct(flights, days, days + DAY > watermark, ["carrier"]),
    }


def _days(flights: pa.Table) -> NDArray[np.datetime64]:
    days: NDArray[np.datetime64] = (
        flights.column(DEPARTURE).to_numpy().astype("datetime64[us]").astype("datetime64[D]")
    )
    return days


def _distinct(
    flights: pa.Table, days: NDArray[np.datetime64], chosen: NDArray[np.bool_], names: list[str]
) -> int:
    table = flights.select(names).append_column("day", pa.array(days.astype(np.int64)))
    groups = table.filter(pa.array(chosen)).group_by([*names, "day"]).aggregate([])
    return int(groups.num_rows)
