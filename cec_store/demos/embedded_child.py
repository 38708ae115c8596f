"""The embedded demo's operators, in a process to be killed.

Started as ``python -m cec_store.demos.embedded_child DIR RUN``.

Says on its standard output, one JSON object a line, how it recovered and how far it is, and never
runs more than a few steps ahead of the lines that its standard input acknowledges: however busy the
machine, the kill meets it in the middle.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Condition
from typing import Any

import pyarrow as pa

from cec_store.checkpoints.policy import Targets
from cec_store.demos.flights import DEPARTURE
from cec_store.opening import open_queue
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.operators.inputs.sources import ArrowSource
from cec_store.operators.recovery import Recovery
from cec_store.operators.runner import Runner, record_schema

FLIGHTS_FILE = "flights.arrow"
STEP_ROWS = 1000
LAST_FLIGHTS = 20
DAY_US = 86_400_000_000
POLICY = Targets(extent_factor=2.0, replay_rows=25_000)
OPERATORS = ("aircraft", "carriers")
UNHEARD_MAX = 4


def make_operator(name: str, flights: pa.Schema) -> Aggregate:
    """One of :data:`OPERATORS`.

    ``aircraft``: the average delay of each aircraft's last flights, anew with every flight.
    ``carriers``: flights and delay minutes of each carrier and day, when the day is over.
    """
    if name == "aircraft":
        return Aggregate(
            group_by=["tailnum"],
            aggregates={"average_delay": ("avg", "dep_delay")},
            window=CountWindow(LAST_FLIGHTS, advance=1),
            input_schema=flights,
        )
    return Aggregate(
        group_by=["carrier"],
        aggregates={"flights": ("count",), "delay_minutes": ("sum", "dep_delay")},
        window=TimeWindow(DAY_US),
        input_schema=flights,
    )


class _Pace:
    """Keeps the operators side by side, and both of them near the parent."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._rows = dict.fromkeys(OPERATORS, 0)
        self._unheard = 0

    def reach(self, operator: str, row: int) -> None:
        """Say how far this one is; wait while it is more than a step ahead."""
        with self._changed:
            self._rows[operator] = row
            self._changed.notify_all()
            self._changed.wait_for(lambda: row <= min(self._rows.values()) + STEP_ROWS)

    def leave(self, operator: str) -> None:
        """An operator that has ended holds up no other."""
        with self._changed:
            self._rows[operator] = sys.maxsize
            self._changed.notify_all()

    def say(self, event: dict[str, Any]) -> None:
        """Print a line for the parent; wait while it has not acknowledged enough of them."""
        with self._changed:
            print(json.dumps(event), flush=True)
            self._unheard += 1
            while self._unheard > UNHEARD_MAX:
                sys.stdin.readline()
                self._unheard -= 1


def _work(folder: Path, run: str) -> None:
    with pa.memory_map(str(folder / FLIGHTS_FILE)) as file:
        flights = pa.ipc.open_file(file).read_all()
    # The first array makes Arrow import pandas, if it is there: the process's start, not its
    # recovery, pays for that.
    flights.column(DEPARTURE).slice(0, 1).to_numpy()
    pace = _Pace()

    def operate(name: str) -> None:
        try:
            _operate(name, folder / run / name, flights, pace)
        finally:
            pace.leave(name)

    with ThreadPoolExecutor(len(OPERATORS)) as threads:
        for done in [threads.submit(operate, name) for name in OPERATORS]:
            done.result()


def _operate(name: str, path: Path, flights: pa.Table, pace: _Pace) -> None:
    operator = make_operator(name, flights.schema)
    source = ArrowSource(flights, DEPARTURE)
    with open_queue(path, "a", schema=record_schema(operator)) as queue:
        runner = Runner(operator, [source], queue, POLICY, step_rows_max=STEP_ROWS)
        row = 0
        if runner.recovery is not None:
            row = runner.recovery.replay_upto[0]
            pace.say(_recovered(name, runner.recovery))

        def progress(rows: int) -> None:
            nonlocal row
            row += rows
            pace.say({"operator": name, "row": row})
            pace.reach(name, row)

        pace.reach(name, row)
        runner.run(progress)


def _recovered(name: str, recovery: Recovery) -> dict[str, Any]:
    return {
        "operator": name,
        "log_at_row": recovery.replay_upto[0],
        "open_windows": recovery.extent.open_windows,
        "extent_records": recovery.extent.records,
        "extent_bytes": recovery.extent.bytes,
        "extent_target": int(POLICY.extent_target(recovery.extent.open_windows)),
        "replayed_rows": recovery.replayed_rows,
        "replay_target": POLICY.replay_rows,
        "load_s": recovery.load_s,
        "replay_s": recovery.replay_s,
    }


if __name__ == "__main__":
    _work(Path(sys.argv[1]), sys.argv[2])
