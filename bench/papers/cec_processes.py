"""One process of the paper's Figure 4: ``python cec_processes.py ROLE SETTINGS``.

source     makes bids of 100 bytes and sends them over a socket
filter     lets all of them pass, into a queue of its own that outlives the aggregate (IV.B)
aggregate  takes a socket or the filter's queue; sends its output over a socket, or leaves it in its
           queue, or both
sink       receives from a socket, or follows the aggregate's queue; counts what comes

SETTINGS is JSON. Each says on its standard output, one JSON object a line, what there is to say;
the last line is what it has measured.
"""

from __future__ import annotations

import json
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.harness.bids import BidSource, bids
from bench.harness.queues import output_queue
from bench.harness.talking import say
from bench.papers.cec_input import Pace
from bench.papers.cec_wires import Forwarded, SocketSource, Unlogged, send_to
from cec_store import Never, Targets, open_queue
from cec_store.checkpoints.policy import Budget, Policy
from cec_store.format.columns import values_of
from cec_store.format.schema import KIND, RecordKind
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow
from cec_store.operators.contract import Effects, Step
from cec_store.operators.inputs.sources import QueueSource
from cec_store.operators.runner import Runner, record_schema
from cec_store.operators.stateless import Filter
from cec_store.queues.appendable_queue import AppendableQueue

TUPLE_BYTES = 100
POLL_S = 0.002
Settings = dict[str, Any]


def socket_of(descriptor: int) -> socket.socket:
    return socket.socket(fileno=descriptor)


def input_block(items: int, batch_rows: int) -> pa.Table:
    """Return the block that the source sends over and over."""
    return bids(max(16 * items, 8 * batch_rows), items, tuple_bytes=TUPLE_BYTES)


# -- source ---------------------------------------------------------------------------------------


def source(settings: Settings) -> None:
    """Sends ``rows``, or as many as ``seconds`` allow, at most ``rows_per_s``."""
    block = input_block(settings["items"], settings["batch_rows"])
    rows = settings["rows"] or sys.maxsize
    seconds = settings["seconds"] or float("inf")
    stream = BidSource(block, rows)
    sent = 0
    with send_to(socket_of(settings["out"]), block.schema) as send:
        began = time.perf_counter()
        pace = Pace(settings["rows_per_s"])
        for read in stream.read(0):
            if time.perf_counter() - began > seconds:
                break
            for start in range(0, read.batch.num_rows, settings["batch_rows"]):
                part = read.batch.slice(start, settings["batch_rows"])
                pace.wait(part.num_rows)
                send(part)
                sent += part.num_rows
    say(rows=sent, seconds=time.perf_counter() - began)


# -- operators ------------------------------------------------------------------------------------


def filter_(settings: Settings) -> None:
    received = SocketSource(socket_of(settings["in"]))
    operator = Filter(lambda batch: pc.greater_equal(batch.column("price"), 0), received.schema)
    with open_queue(settings["queue"], "x", schema=record_schema(operator)) as queue:
        say(ready=True)
        runner = Runner(operator, [received], queue, Never())
        runner.run()
        say(rows=runner.records_written)


class TimedAggregate(Aggregate):
    """Also measures response times: from a window's opening to its closing, by the clock."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._opened_s = np.zeros(1024)
        self._began = time.perf_counter()
        self.by_second: dict[int, list[float]] = {}
        """Seconds since the start → how many windows closed, and their summed response times."""

    def apply(self, step: Step) -> Effects:
        effects = super().apply(step)
        now = time.perf_counter() - self._began
        highest = int(effects.opened.max(initial=0))
        if highest >= len(self._opened_s):
            self._opened_s = np.resize(self._opened_s, 2 * highest)
        counted = self.by_second.setdefault(int(now), [0.0, 0.0])
        counted[0] += len(effects.closed)
        counted[1] += float((now - self._opened_s[effects.closed]).sum())
        self._opened_s[effects.opened] = now
        return effects


def policy_of(settings: Settings) -> Policy | None:
    """``policy`` is None for no checkpoints, {} for OPEN alone, or what Targets takes."""
    arguments = settings["policy"]
    if arguments is None:
        return None
    budget = Budget(*settings["budget"]) if settings["budget"] else None
    return Targets(**arguments, budget=budget) if arguments else Never()


def aggregate(settings: Settings) -> None:
    """Runs to the end of its input; says how far it is, and what a recovery took."""
    taken: SocketSource | QueueSource
    if settings["in"] is not None:
        taken = SocketSource(socket_of(settings["in"]))
    else:
        taken = QueueSource(output_queue(settings["input_queue"]).chain)
    operator = TimedAggregate(
        group_by=["item"],
        aggregates={"average": ("avg", "price")},
        window=CountWindow(settings["window"]),
        input_schema=taken.schema,
    )
    policy = policy_of(settings)
    schema = record_schema(operator)
    if settings["queue"] is None:
        with send_to(socket_of(settings["out"]), schema.arrow) as send:
            unlogged = cast(AppendableQueue, Unlogged(schema, send))
            runner = Runner(operator, [taken], unlogged, policy, checkpoints=policy is not None)
            _run(runner, settings)
        return
    with open_queue(settings["queue"], "a", schema=schema) as queue:
        say(ready=True)
        if settings["out"] is None:
            runner = Runner(operator, [taken], queue, policy, checkpoints=policy is not None)
            _run(runner, settings)
            return
        wire = socket_of(settings["out"])
        with send_to(wire, schema.arrow) as send, Forwarded(queue, send) as both:
            forwarded = cast(AppendableQueue, both)
            runner = Runner(operator, [taken], forwarded, policy, checkpoints=policy is not None)
            _run(runner, settings)


def _run(runner: Runner, settings: Settings) -> None:
    row = 0
    if runner.recovery is not None:
        recovery = runner.recovery
        row = recovery.replay_upto[0]
        say(
            recovered=True,
            open_windows=recovery.extent.open_windows,
            extent=recovery.extent.records,
            extent_bytes=recovery.extent.bytes,
            end_offset=recovery.extent.end_offset,
            load_s=recovery.load_s,
            replayed_rows=recovery.replayed_rows,
            replay_s=recovery.replay_s,
        )

    def progress(rows: int) -> None:
        nonlocal row
        row += rows
        if settings["rows"]:
            say(row=row)

    began = time.perf_counter()
    runner.run(progress)
    while settings["rows"] and row < settings["rows"]:  # the input is still being written
        time.sleep(POLL_S)
        runner.run(progress)
    operator = runner.operator
    assert isinstance(operator, TimedAggregate)
    say(
        seconds=time.perf_counter() - began,
        checks=runner.checks_written,
        records=runner.records_written,
        responses=[[second, *sums] for second, sums in sorted(operator.by_second.items())],
    )


# -- sink -----------------------------------------------------------------------------------------


def sink(settings: Settings) -> None:
    """Counts records by kind, and the seconds from the first batch to the last.

    Rates are of all batches but the first, and 0 where there is no other.
    """
    counts = np.zeros(256, np.int64)
    first: list[float] = []
    at_first: list[int] = []
    last = 0.0
    for kinds in _received(settings):
        counts += np.bincount(kinds, minlength=256)
        last = time.perf_counter()
        if not first:
            first.append(last)
            at_first.append(int(counts[RecordKind.RESULT]))
            at_first.append(int(counts.sum()))
    seconds = last - first[0]
    say(
        seconds=seconds,
        results=int(counts[RecordKind.RESULT]),
        open=int(counts[RecordKind.OPEN]),
        check=int(counts[RecordKind.CHECK]),
        results_per_s=(int(counts[RecordKind.RESULT]) - at_first[0]) / seconds if seconds else 0,
        records_per_s=(int(counts.sum()) - at_first[1]) / seconds if seconds else 0,
    )


def _received(settings: Settings) -> Iterator[np.ndarray]:
    if settings["in"] is not None:
        with pa.ipc.open_stream(socket_of(settings["in"]).makefile("rb")) as reader:
            for batch in reader:
                yield values_of(batch.column(KIND), "u1")
        return
    # What is durable of the queue, through the aggregate's death, until all results are there.
    with output_queue(settings["queue"]) as queue:
        say(ready=True)
        replay = queue.replay(follow=True, kinds=frozenset(RecordKind), include_metadata=True)
        results = 0
        for batch in replay:
            kinds = values_of(batch.column("_kind"), "u1")
            results += int(np.count_nonzero(kinds == RecordKind.RESULT))
            yield kinds
            if results >= settings["results"]:
                return


ROLES: dict[str, Callable[[Settings], None]] = {
    "source": source,
    "filter": filter_,
    "aggregate": aggregate,
    "sink": sink,
}


if __name__ == "__main__":
    # The first array makes Arrow import pandas, if it is there: not on anybody's clock.
    pa.array([0]).to_numpy()
    ROLES[sys.argv[1]](json.loads(sys.argv[2]))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    say(cpu_s=usage.ru_utime + usage.ru_stime, rss_mb=usage.ru_maxrss / 1024)
