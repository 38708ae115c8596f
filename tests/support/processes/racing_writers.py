"""Processes that append to one partitioned queue at the same time; some are killed and begin anew.

``python -m support.processes.racing_writers URL STORAGE_OPTIONS WRITERS VERSIONS KILLS SEED``

Each version of each writer is one append of ROWS rows, tried again from the first on by who was
killed. Prints ``writer version`` once an append returned.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from importlib import import_module

import pyarrow as pa

from cec_store import open_queue
from cec_store.partitioned.by_reference.partitioned_queue import PartitionedQueue

SCHEMA = pa.schema([("writer", pa.int64()), ("version", pa.int64()), ("n", pa.int64())])
PARTITIONS = 3
ROWS = 4


def rows(writer: int, version: int) -> pa.Table:
    columns = [[writer] * ROWS, [version] * ROWS, list(range(ROWS))]
    return pa.table([pa.array(each) for each in columns], schema=SCHEMA)


def write(url: str, options: dict[str, object], writer: int, versions: int) -> None:
    queue = open_queue(
        url, "a", schema=SCHEMA, partitions=PARTITIONS, storage_options=options or None
    )
    assert isinstance(queue, PartitionedQueue)
    for version in range(versions):
        queue.append(rows(writer, version), txn_app_id=f"writer-{writer}", txn_version=version)
        os.write(1, f"{writer} {version}\n".encode())


def started(url: str, options: dict[str, object], writer: int, versions: int) -> int:
    """The process id of a new writer."""
    process_id = os.fork()
    if process_id:
        return process_id
    try:
        write(url, options, writer, versions)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main(
    url: str, options: dict[str, object], writers: int, versions: int, kills: int, seed: int
) -> None:
    dice = random.Random(seed)
    if options:  # once for all of them
        import_module("s3fs")
        import_module("cec_store.storage.stores.s3")
    running = {started(url, options, writer, versions): writer for writer in range(writers)}
    for _ in range(kills):
        time.sleep(dice.uniform(0.02, 0.4))
        chosen = dice.choice(sorted(running))
        os.kill(chosen, signal.SIGKILL)  # not waited for yet, so it is still this one
        os.waitpid(chosen, 0)
        writer = running.pop(chosen)
        running[started(url, options, writer, versions)] = writer
    ended = [os.waitpid(process_id, 0)[1] for process_id in running]
    sys.exit(1 if any(ended) else 0)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:7]))
