"""One process of availability_processes.py: ``python availability_nodes.py ROLE SETTINGS``.

input       appends tuples of 50 bytes to a queue, so many a second
primary     runs the paper's aggregate over that queue, and writes a frame each interval
downstream  acknowledges the output each interval, as the paper's does
standby     stands by for the primary in one of the schemes, takes over, and goes on

SETTINGS is JSON. Each says on its standard output, one JSON object a line, what there is to say.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness.queues import output_queue
from bench.harness.talking import say
from cec_store import (
    KeepAlive,
    QueueInput,
    QueueOptions,
    Standby,
    Targets,
    leases_of,
    open_queue,
)
from cec_store.operators import Aggregate, QueueSource, Runner, TimeWindow, record_schema
from cec_store.standby.schemes import Scheme

SCHEMA = pa.schema(
    [("item", pa.int32()), ("price", pa.int32()), ("rest", pa.binary(34))]
)  # with the timestamp of 8 bytes: 50 bytes
ARRIVAL_S = 0.005
CONSUMER = "primary"
OPTIONS = QueueOptions(group_max_wait_ms=0.5)
KEEP_ALIVE = KeepAlive(0.250 / 3, 3)
"""Known after the 250 ms that Table 5 has."""
Settings = dict[str, Any]


def make() -> Aggregate:
    """The aggregate of Table 6: windows of 100 tuples, ten of them open at any time."""
    return Aggregate(
        group_by=["item"],
        aggregates={"most": ("max", "price"), "tuples": ("count", "price")},
        window=TimeWindow(100_000, 10_000),
        input_schema=SCHEMA,
    )


def policy(settings: Settings) -> Targets:
    return Targets(extent_factor=settings["extent_factor"], extent_floor=1)


def tuples(count: int) -> pa.RecordBatch:
    rest = pa.array([bytes(34)] * count, pa.binary(34))
    prices = pa.array(np.arange(count), pa.int32())
    return pa.record_batch([pa.array([0] * count, pa.int32()), prices, rest], schema=SCHEMA)


def input(settings: Settings) -> None:
    with open_queue(settings["input"], "x", schema=SCHEMA, options=OPTIONS) as queue:
        say(is_ready=True)
        began_s, count, moment_us = time.monotonic(), 0, 0
        while True:
            due = int((time.monotonic() - began_s) * settings["tuples_per_s"]) - count
            if due:
                step_us = int(1e6 / settings["tuples_per_s"])
                times = moment_us + step_us * np.arange(1, due + 1)
                queue.append(tuples(due), pa.array(times))
                queue.sync()
                count, moment_us = count + due, int(times[-1])
            time.sleep(ARRIVAL_S)


def go_on(runner: Runner, interval_s: float, end_s: float) -> None:
    """A frame of the log for each interval."""
    next_s = time.monotonic()
    while next_s < end_s:
        runner.run()
        next_s = max(next_s + interval_s, time.monotonic())
        time.sleep(max(0.0, next_s - time.monotonic()))


def primary(settings: Settings) -> None:
    interval_s = settings["interval_s"]
    upstream = output_queue(settings["input"])
    with (
        open_queue(settings["queue"], "x", schema=record_schema(make()), options=OPTIONS) as queue,
        upstream.consumer(CONSUMER) as consumer,
        leases_of(settings["queue"]).hold(CONSUMER, keep_alive=KEEP_ALIVE),
    ):
        runner = Runner(
            make(), [QueueSource(upstream.chain, consumer)], queue, policy(settings),
            checkpoints=settings["scheme"] != Scheme.UPSTREAM.value,
            acknowledge_interval_s=interval_s,
        )  # fmt: skip
        say(is_ready=True)
        go_on(runner, interval_s, time.monotonic() + 60)


def downstream(settings: Settings) -> None:
    queue = output_queue(settings["queue"])
    with queue.consumer("downstream") as consumer:
        say(is_ready=True)
        while True:
            end = queue.chain().end.offset
            consumer.acknowledge(received=end, effects_saved=end)
            time.sleep(settings["interval_s"])


def standby(settings: Settings) -> None:
    interval_s = settings["interval_s"]
    made = Standby(
        settings["queue"], make, [QueueInput(output_queue(settings["input"]), CONSUMER)],
        settings["scheme"], policy(settings), options=OPTIONS, acknowledge_interval_s=interval_s,
        held_folder=Path(settings["queue"]).parent / "held",
    )  # fmt: skip
    watch, moments_s = made._check, []

    def check() -> None:
        moments_s.append(time.monotonic())
        watch()

    made._check = check  # type: ignore[method-assign]
    made.follow()
    say(is_ready=True)
    done = made.wait_and_take_over(leases_of(settings["queue"]), CONSUMER)
    assert done is not None
    report = done.report
    say(detected_s=moments_s[0], done_s=time.monotonic(), input_again=report.replayed_rows,
        lost=sum(gap.end - gap.first for gap in report.skipped))  # fmt: skip
    go_on(done.runner, interval_s, time.monotonic() + 0.5)
    done.queue.close()
    if done.lease is not None:
        done.lease.release()


if __name__ == "__main__":
    roles = {"input": input, "primary": primary, "downstream": downstream, "standby": standby}
    roles[sys.argv[1]](json.loads(sys.argv[2]))
