"""Recorded load series for the migration paper's job: the flights of each key group over time.

The flights of 2013 are laid over one another on two days, those of even and of odd dates, and an
hour of these becomes a minute: 48 minutes that begin at midnight, with two mornings, two evenings
and a night between.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.simulators.placement.jobs import Job, OperatorLoad, job_of
from cec_store.demos.flights import load_flights
from cec_store.placement.layout import Floats
from cec_store.placement.plans import Nodes

INTERVAL_S = 10.0
STEPS = 288
_MINUTE_US = 60_000_000
_DAY_MINUTES = 1440
# The paper's cluster without its control node and the four that read the input.
WORKERS, SAMPLERS = 16, 4


@dataclass(frozen=True)
class Load:
    """Loads that the paper does not give; a share is of a node."""

    rows_per_s: float = 8000.0
    """Rows a second on average over the 48 minutes, as in 7.1."""
    peak: float = 0.85
    """Load of the nodes of operators 1 to 3, on average, in the busiest minute."""
    sampler: float = 0.1
    """Load of the nodes of operator 4, always: it samples, so that it costs little."""
    row_state_bytes: float = 50.0
    """Bytes that operator 2 keeps of a delayed flight."""


def _on_two_days(steps: int) -> tuple[pa.Table, np.ndarray]:
    """Flights whose airplane is known, and of each the step that it is in."""
    flights = load_flights()
    flights = flights.filter(pc.is_valid(flights["tailnum"]))
    minutes = flights["departure"].cast("int64").to_numpy() // _MINUTE_US
    return flights, minutes % (2 * _DAY_MINUTES) * steps // (2 * _DAY_MINUTES)


@cache
def _flights() -> tuple[np.ndarray, np.ndarray, np.ndarray, list[bytes]]:
    """Return each flight's step, airplane and whether it was late; and the airplanes' names."""
    flights, step = _on_two_days(STEPS)
    planes = flights["tailnum"].combine_chunks().dictionary_encode()
    late = pc.greater(flights["dep_delay"], 0).to_numpy(zero_copy_only=False).astype(bool)
    names = [name.encode() for name in planes.dictionary.to_pylist()]
    return step, planes.indices.to_numpy(), late, names


SAMPLED = 40
"""Flights of a step that are a sample's, whatever the hour."""


def flights_by_step(steps: int) -> list[pa.Table]:
    """Flights of the two days in so many steps: airplane, delay, whether it is sampled."""
    flights, step = _on_two_days(steps)
    tables = []
    for number in range(steps):
        rows = flights.filter(pa.array(step == number)).select(["tailnum", "dep_delay"])
        sampled = pa.array(np.arange(rows.num_rows) < SAMPLED)
        tables.append(rows.append_column("sampled", sampled))
    return tables


def _counts(groups: int, salt: bytes, late_only: bool) -> Floats:
    """Flights of each key group in each step; shape (groups, steps)."""
    step, plane, late, names = _flights()
    group_of = np.array([zlib.crc32(salt + name) % groups for name in names])
    chosen = late if late_only else np.ones(len(step), np.bool_)
    place = group_of[plane[chosen]] * STEPS + step[chosen]
    return np.bincount(place, minlength=groups * STEPS).reshape(groups, STEPS).astype(np.float64)


def rows_per_s(groups: int, load: Load) -> dict[str, Floats]:
    """Return series of operators 1 to 3: all flights, those that were late, and all again."""
    counts = {
        "operator 1": _counts(groups, b"1", late_only=False),
        "operator 2": _counts(groups, b"2", late_only=True),
        "operator 3": _counts(groups, b"3", late_only=False),
    }
    factor = load.rows_per_s / counts["operator 1"].sum(axis=0).mean()
    return {name: factor * count for name, count in counts.items()}


def airline_job(groups: int, seed: int, load: Load | None = None) -> Job:
    """7.3: operators 1 to 3 on 16 nodes, and 4, a sample at a fixed rate, on four.

    Operators 1 to 3 take a third of the load each, over the whole time. What is recorded is the
    same for every seed: it decides which group begins where, and what operator 4 draws.
    """
    load = load or Load()
    random = np.random.default_rng([groups, seed])
    operators = []
    workers = tuple(range(WORKERS))
    recorded = rows_per_s(groups, load)
    totals = {name: rows.sum(axis=0) for name, rows in recorded.items()}
    together = sum(total / total.mean() for total in totals.values())
    scale = load.peak * WORKERS / _per_minute(together).max()
    for name, rows in recorded.items():
        row_s = scale / totals[name].mean()
        state_bytes = load.row_state_bytes if name == "operator 2" else 0.0
        operators.append(OperatorLoad(name, rows, row_s, workers, state_bytes))
    # One row from each instance of operator 1 in 200 ms, each of a random key.
    rate = WORKERS / 0.2
    drawn = random.multinomial(round(rate * INTERVAL_S), np.full(groups, 1 / groups), STEPS).T
    samplers = tuple(range(WORKERS, WORKERS + SAMPLERS))
    row_s = load.sampler * SAMPLERS / rate
    operators.append(OperatorLoad("operator 4", drawn / INTERVAL_S, row_s, samplers))
    return job_of(operators, Nodes.alike(WORKERS + SAMPLERS), INTERVAL_S, random)


def _per_minute(series: Floats) -> Floats:
    steps = round(60 / INTERVAL_S)
    means: Floats = series.reshape(-1, steps).mean(axis=1)
    return means
