"""A commit of a thousand partitions, on local files and on a real S3 server of this machine.

What the committer alone does, once a thousand tasks have written an object each: putting the commit
together and making it, every fourth time one that says what came since. The server is moto's, in
Python and in this process, so that the figure of S3 is of requests and bytes rather than of a
store.

And how many bytes the committer reads and writes for each row, nothing merged meanwhile: a million
rows a batch, over 200 partitions, as many as Spark's shuffles have, and over a
thousand. The committers in Python and in the JVM make the same objects.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from bench.harness.rounds import ONE_TURN, options, report
from cec_store.format.schema import RecordSchema
from cec_store.ledger.reference_commits import batch_after, making
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.storage.names import data_object_name
from cec_store.storage.stores.by_url import store_at
from cec_store.storage.stores.store import Store
from support.stores.counting import CountingStore
from support.stores.s3_server import BUCKET, options_of, s3_server

TARGETS = {
    "driver_bytes_per_row": "at most 0.1",
    "driver_bytes_per_row_1000_partitions": "report",
    "commit_ms_1000_partitions_local": "report",
    "commit_ms_1000_partitions_s3": "report",
}
PARTITIONS, FEWER_PARTITIONS = 1_000, 200
ROWS = 1_000_000
"""Rows of a batch."""
COMMITS, COMMITS_QUICK = 200, 40
SCHEMA = RecordSchema(pa.schema([("n", pa.int64())]))


QUERY = "3d84e10c-0000-4000-8000-000000000000"
FIRST_US = 1_700_000_000_000_000


class MeasuredStore(CountingStore):
    """Adds up what goes to the store and comes from it."""

    moved_bytes = 0

    def create(self, name: str, parts: Sequence[bytes]) -> None:
        self.moved_bytes += sum(map(len, parts))
        super().create(name, parts)

    def read(self, name: str, byte: int = 0, size: int | None = None) -> bytes:
        data = super().read(name, byte, size)
        self.moved_bytes += len(data)
        return data


def segments(batch: int, partitions: int, dice: random.Random) -> list[dict[str, Any]]:
    """Return segments as tasks tell the committer; their objects are not needed to commit them.

    Numbers that are random in a queue are so here: nothing else is hard to compress.
    """
    first_us = FIRST_US + 1_000_000 * batch
    return [
        {
            "partition": number, "records": ROWS // partitions, "byte": 600, "frames": 1,
            "bytes": 90_000 + dice.randrange(2_000),
            "file": data_object_name(QUERY, batch, number, dice.getrandbits(63)),
            "salt": dice.getrandbits(64), "least_us": first_us + dice.randrange(1_000),
            "greatest_us": first_us + 999_000 + dice.randrange(1_000),
            "written_us": first_us + 1_000_000 + dice.randrange(100_000),
        }
        for number in range(partitions)
    ]  # fmt: skip


def commit_ms(store: Store, partitions: int, commits: int) -> list[float]:
    """Return the milliseconds of each commit of a new queue."""
    log, dice = ReferenceLog(store), random.Random(5)
    state = log.make(making(SCHEMA, partitions, {}, FIRST_US))
    times_ms = []
    for batch in range(commits):
        rows, now_us = segments(batch, partitions, dice), FIRST_US + 1_000_000 * batch + 1_200_000
        began = time.perf_counter()
        after = partial(batch_after, query=QUERY, batch=batch, segments=rows, now_us=now_us)
        state = log.add(state, after)
        times_ms.append(1000 * (time.perf_counter() - began))
    return times_ms


def main() -> None:
    with options(__doc__, ONE_TURN) as asked, s3_server() as address:
        commits = asked.size(COMMITS, COMMITS_QUICK)
        local = MeasuredStore(store_at(asked.folder / "queue"))
        fewer = MeasuredStore(store_at(asked.folder / "fewer"))
        stores = {"local": local, "s3": store_at(f"s3://{BUCKET}/queue", options_of(address))}
        figures = {}
        for name, store in stores.items():
            taken = commit_ms(store, PARTITIONS, commits)
            median = statistics.median(taken)
            print(
                f"{name:6} {PARTITIONS:,} partitions, {commits} commits: median {median:.1f} ms, "
                f"worst {max(taken):.1f} ms"
            )
            figures[f"commit_ms_1000_partitions_{name}"] = median
        commit_ms(fewer, FEWER_PARTITIONS, commits)
        figures["driver_bytes_per_row"] = fewer.moved_bytes / (ROWS * commits)
        figures["driver_bytes_per_row_1000_partitions"] = local.moved_bytes / (ROWS * commits)
        for partitions, measured in ((FEWER_PARTITIONS, fewer), (PARTITIONS, local)):
            row_bytes = measured.moved_bytes / (ROWS * commits)
            print(f"{partitions:5,} partitions: {row_bytes:.3f} bytes a row")
        report(figures)


if __name__ == "__main__":
    main()
