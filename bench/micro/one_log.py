"""Costs of an append, acknowledgement, poll, opening and commit, in each layout of a queue.

`plain` is a queue without partitions, `one` a partitioned queue with one partition. Medians:
`group_commit_us_*`: an append of 20 rows, until it is on disk.
`ack_us_*`: a consumer acknowledges. `reader_poll_us_*`: a reader looks where nothing is new.
`create_ms_*`: a queue is made. `reopen_ms_*`: it is opened to append after twenty appends.
In a store (moto's S3, in this process, so that requests and bytes count rather than time), for
each append of 20 rows: `s3_puts_per_group_*`, and `commit_bytes_*`, the bytes that are put less
those of the rows. `open_requests_1m_commits`: requests to open a partitioned queue that has a
million commits (a quick run: a hundred thousand).

With `--before CHECKOUT` that checkout's own script takes turns with this one, and `*_vs_before` are
the ratios of the best turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count

import pyarrow as pa

from bench.harness.rounds import Options, options, report
from cec_store import OutputQueue, PartitionedQueue, open_queue
from cec_store.partitioned.by_reference.reference_queue import ReferenceQueue
from cec_store.storage.stores.by_url import store_at
from support.places.long_histories import long_history
from support.stores.counting import CountingStore
from support.stores.faulty_proxy import FaultyProxy, proxy_to
from support.stores.s3_server import BUCKET, options_of, s3_server

TARGETS = {
    "group_commit_us_plain": "report",
    "group_commit_us_one": "report",
    "ack_us_plain": "report",
    "ack_us_one": "report",
    "reader_poll_us_plain": "report",
    "reader_poll_us_one": "report",
    "create_ms_plain": "report",
    "create_ms_one": "report",
    "reopen_ms_plain": "report",
    "reopen_ms_one": "report",
    "s3_puts_per_group_plain": "report",
    "s3_puts_per_group_one": "report",
    "commit_bytes_plain": "report",
    "commit_bytes_one": "report",
    "open_requests_1m_commits": "at most 8",
}
ROWS = 20
SCHEMA = pa.schema([("number", pa.int64()), ("other", pa.int64())])
BATCH = pa.table({"number": range(ROWS), "other": range(ROWS)}, schema=SCHEMA)
TIMES, TIMES_QUICK = 400, 100
OPENINGS, OPENINGS_QUICK = 40, 10
STORED, STORED_QUICK = 64, 16
COMMITS, COMMITS_QUICK, COMMITS_LEAST = 1_000_000, 100_000, 10_000
LAYOUTS: dict[str, int | None] = {"plain": None, "one": 1}
"""Numbers of partitions by name."""
COMPARED = ("group_commit_us", "ack_us", "reader_poll_us", "create_ms", "reopen_ms")
Figures = dict[str, float]


def opened(url: str, name: str, **more: object) -> OutputQueue | PartitionedQueue:
    """Return a queue of this layout, open to append."""
    if LAYOUTS[name] is not None:
        more["partitions"] = LAYOUTS[name]
    queue: OutputQueue | PartitionedQueue
    queue = open_queue(url, "a", schema=SCHEMA, **more)  # type: ignore[call-overload]
    return queue


def append(queue: OutputQueue | PartitionedQueue) -> None:
    """Append a group and wait until it is on disk."""
    if isinstance(queue, OutputQueue):
        queue.append(BATCH, sync=True)
    else:
        queue.append(BATCH)


def median_us(times: int, act: Callable[[], object]) -> float:
    """Return the median microseconds of an act, which is done once before."""
    act()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        taken.append(1e6 * (time.perf_counter() - began))
    return statistics.median(taken)


def local_figures(name: str, asked: Options) -> Figures:
    """Return the medians of one layout on a disk of this machine."""
    times, openings = asked.size(TIMES, TIMES_QUICK), asked.size(OPENINGS, OPENINGS_QUICK)
    places = count()

    def place() -> str:
        return str(asked.folder / f"{name}-{next(places)}")

    figures = {}
    with opened(place(), name) as queue:
        figures["group_commit_us"] = median_us(times, lambda: append(queue))
        figures["ack_us"] = acknowledging_us(queue, times)
        with open_queue(queue_path(queue)) as reader:
            figures["reader_poll_us"] = median_us(times, lambda: look(reader))
    made = [opened(place(), name)]
    figures["create_ms"] = median_us(openings, lambda: made.append(opened(place(), name))) / 1000
    for opened_queue in made:
        opened_queue.close()
    with opened(place(), name) as queue:
        path = queue_path(queue)
        for _ in range(20):
            append(queue)
    figures["reopen_ms"] = reopening_ms(path, name, openings)
    return figures


def queue_path(queue: OutputQueue | PartitionedQueue) -> str:
    return queue.folder.path if isinstance(queue, OutputQueue) else queue.path


def look(reader: object) -> None:
    """Look for what is new."""
    if isinstance(reader, OutputQueue):
        _ = reader.durable_offset
    elif isinstance(reader, PartitionedQueue):
        reader.refresh()


def acknowledging_us(queue: OutputQueue | PartitionedQueue, times: int) -> float:
    """Return the median of acknowledgements, each of one record more."""
    offsets = count(1)
    if isinstance(queue, OutputQueue):
        with queue.consumer("reader") as reader:
            return median_us(times, lambda: reader.acknowledge(effects_saved=next(offsets)))
    consumer = queue.consumer("reader")
    return median_us(times, lambda: consumer.acknowledge(effects_saved={0: next(offsets)}))


def reopening_ms(path: str, name: str, openings: int) -> float:
    """Return the median of opening a queue that was closed."""
    taken = []
    for _ in range(openings):
        began = time.perf_counter()
        queue = opened(path, name)
        taken.append(1000 * (time.perf_counter() - began))
        queue.close()
    return statistics.median(taken)


def store_figures(name: str, proxy: FaultyProxy, asked: Options) -> Figures:
    """Return puts and bytes of each append in a store."""
    url, groups = f"s3://{BUCKET}/{name}", asked.size(STORED, STORED_QUICK)
    store = store_at(url, options_of(proxy.address))
    with opened(url, name, storage_options=options_of(proxy.address)) as queue:
        append(queue)
        before = stored_bytes(store)
        proxy.requests.clear()
        for _ in range(groups):
            append(queue)
        puts = sum(request.kind == "put" for request in proxy.requests)
        added = stored_bytes(store) - before
    return {"s3_puts_per_group": puts / groups, "commit_bytes": added / groups - BATCH.nbytes}


def stored_bytes(store: object, folder: str = "") -> int:
    """Return the bytes of all objects below a folder."""
    total = 0
    for entry in store.list(folder):  # type: ignore[attr-defined]
        name = f"{folder}/{entry.name}" if folder else entry.name
        total += stored_bytes(store, name) if entry.is_folder else entry.size or 0
    return total


def opening_requests(asked: Options) -> Figures:
    """Return the requests to open a queue of very many commits."""
    store = CountingStore(store_at("memory://one-log"))
    long_history(store, max(COMMITS_LEAST, asked.size(COMMITS, COMMITS_QUICK)))
    store.calls.clear()
    began = time.perf_counter()
    ReferenceQueue(store)
    requests = len(store.calls)
    print(f"a queue of very many commits: {requests} requests, {time.perf_counter() - began:.2f} s")
    return {"open_requests_1m_commits": requests}


def measured(asked: Options) -> Figures:
    figures: Figures = {}
    for name in LAYOUTS:
        layout_figures = local_figures(name, asked)
        with s3_server() as address, proxy_to(address) as proxy:
            layout_figures |= store_figures(name, proxy, asked)
        print(
            f"{name:6}"
            + ", ".join(f"{what} {value:,.1f}" for what, value in layout_figures.items())
        )
        figures |= {f"{what}_{name}": value for what, value in layout_figures.items()}
    return figures | opening_requests(asked)


def measured_there(asked: Options) -> Figures:
    """Return what the script of the other checkout finds, in a process of its own.

    It measures as much as this one, on the same disk.
    """
    assert asked.before is not None
    command = [sys.executable, str(asked.before / "bench" / "micro" / "one_log.py")]
    command += ["--scale", str(asked.scale), "--dir", str(asked.folder)]
    command += ["--quick"] if asked.quick else []
    environment = {**os.environ, "PYTHONPATH": str(asked.before.resolve())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    with options(__doc__, turns=(3, 1), has_before=True) as asked:
        if asked.before is None:
            report(measured(asked))
            return
        here, before = [], []
        for turn in range(asked.rounds):
            folder = asked.folder / str(turn)
            folder.mkdir()
            here.append(measured(Options(asked.quick, 1, asked.scale, folder)))
            before.append(measured_there(asked))
        figures = here[-1]
        for name in LAYOUTS:
            for what in (f"{figure}_{name}" for figure in COMPARED):
                best = [min(turn[what] for turn in turns) for turns in (here, before)]
                figures[f"{what}_vs_before"] = best[0] / best[1]
        report(figures)


if __name__ == "__main__":
    main()
