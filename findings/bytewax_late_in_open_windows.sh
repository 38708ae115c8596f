#!/usr/bin/env bash
# bytewax 0.21.1: event time, and a row that is older than one before it. A guess: a row is late once its window is closed, as in Flink,
# Beam, Kafka Streams and Spark, so within an open window the order does not matter; in a session a row merges with the open one.
#
# Seen: a row is late if it is older than the watermark, and it goes to the late stream of a window that is open and given out after it,
# without it. With the shortest wait, zero, each row that is out of order is late, in tumbling and session windows (there with the number
# -1). The watermark goes on with the system's clock as well: with a wait of 1 s a row exactly 1 s back is late.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check bytewax==0.21.1
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
from datetime import datetime, timedelta, timezone
import bytewax.operators
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing
from bytewax.testing import TestingSink, TestingSource, run_main

start = datetime(2020, 1, 1, tzinfo=timezone.utc)
ten = timedelta(seconds=10)


def run(windower, wait, seconds):
    rows, windows, late = [("key", start + timedelta(seconds=second)) for second in seconds], [], []
    flow = Dataflow("flow")
    stream = bytewax.operators.input("rows", flow, TestingSource(rows, batch_size=1))
    clock = windowing.EventClock(lambda time: time, wait_for_system_duration=timedelta(seconds=wait))
    result = windowing.collect_window("windows", stream, clock, windower)
    bytewax.operators.output("windows_out", result.down, TestingSink(windows))
    bytewax.operators.output("late_out", result.late, TestingSink(late))
    run_main(flow)
    second = lambda time: (time - start).total_seconds()
    return [[second(time) for time in times] for _, (_, times) in windows], [(number, second(time)) for _, (number, time) in late]


tumbling = windowing.TumblingWindower(align_to=start, length=ten)
seen = {
    "tumbling": run(tumbling, 0, [0, 5, 3, 9, 25]),
    "tumbling, waits 1 s": run(tumbling, 1, [0, 5, 4.5, 9, 8, 25]),
    "tumbling, waits 9 s": run(tumbling, 9, [0, 5, 3, 9, 25]),
    "session": run(windowing.SessionWindower(gap=ten), 0, [0, 5, 3, 40]),
}
print(importlib.metadata.version("bytewax"), *seen.items(), sep="\n")
assert seen["tumbling"] == ([[0, 5, 9], [25]], [(0, 3)])
assert seen["tumbling, waits 1 s"] == ([[0, 4.5, 5, 9], [25]], [(0, 8)])
assert seen["tumbling, waits 9 s"] == ([[0, 3, 5, 9], [25]], [])
assert seen["session"] == ([[0, 5], [40]], [(-1, 3)])
PYTHON
