"""A process to be killed: forks a writer for each line it is sent, which appends until it dies.

Run as a program, so that the fork has all imports done and no thread. It reads a JSON object a line
and answers, a line each, `pid N`, then the writer's `acked N`, then `done N` with its exit status.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from cec_store.errors import Fenced, QueueLocked, StorageError
from cec_store.format.schema import RecordSchema
from cec_store.log.options import QueueOptions
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.folder import AppendFile
from cec_store.storage.local import LocalFolder

FENCED, LOCKED, FAILED = 3, 4, 5
PIECE_BYTES, PAUSE_S = 700, 0.00005
SCHEMA = RecordSchema(pa.schema([("number", pa.int64()), ("noise", pa.binary())]))


class _PiecewiseFile:
    def __init__(self, file: AppendFile) -> None:
        self._file = file
        self.sync = file.sync
        self.close = file.close

    def write(self, parts: Sequence[bytes]) -> None:
        whole = b"".join(parts)
        for start in range(0, len(whole), PIECE_BYTES):
            self._file.write([whole[start : start + PIECE_BYTES]])
            time.sleep(PAUSE_S)


class PiecewiseFolder(LocalFolder):
    """Hands a write to the kernel in many pieces, so that the process can die inside of it."""

    def create(self, name: str) -> AppendFile:
        return _PiecewiseFile(super().create(name))


def batch_of(seed: int, seq: int) -> pa.RecordBatch:
    """What frame ``seq`` holds: the same for the writer and for whoever checks."""
    generator = random.Random(seed * 1_000_003 + seq)
    rows = generator.randrange(1, 9)
    noise = [generator.randbytes(generator.choice((10, 100, 3000))) for _ in range(rows)]
    return pa.record_batch(
        {"number": pa.array(range(seq, seq + rows), pa.int64()), "noise": noise},
        schema=SCHEMA.data,
    )


def write_until_killed(order: dict) -> None:  # type: ignore[type-arg]
    seed, frames_max = order["seed"], order["frames_max"]
    generator = random.Random(order["round_seed"])
    options = QueueOptions(
        sync=order["sync"], segment_bytes=order["segment_bytes"], sync_interval_ms=3,
        group_max_wait_ms=1,
    )  # fmt: skip
    queue = AppendableQueue(
        PiecewiseFolder(order["path"]), "a", SCHEMA, options, takeover=order["takeover"]
    )
    os.write(1, b"acked 0\n")  # it is open
    for _ in range(frames_max):
        seq = queue._pipeline.end.seq  # type: ignore[union-attr]
        batch = batch_of(seed, seq)
        queue.append(batch, pa.array([seq] * batch.num_rows, pa.int64()))
        move = generator.random()
        if move < 0.3:
            queue.await_durable(seq)
            os.write(1, b"acked %d\n" % (seq + 1))
        elif move < 0.33 and order["trims"]:
            queue.trim(max(0, queue.durable_offset - 60))
        elif move < 0.36:
            queue.roll()
    queue.close()
    os.write(1, b"acked %d\n" % queue._pipeline.end.seq)  # type: ignore[union-attr]


def write(order: dict) -> int:  # type: ignore[type-arg]
    """Returns the exit code: one that says which error was expected here."""
    try:
        write_until_killed(order)
    except QueueLocked:
        return LOCKED
    except StorageError as error:
        if isinstance(error, Fenced):
            return FENCED
        if order.get("quiet"):  # the disk was taken from under it: that it fails is no news
            return FAILED
        raise
    return 0


def serve(work: Callable[[dict], int]) -> None:  # type: ignore[type-arg]
    """Do ``work`` for each line that comes in, in a child of its own; it returns the exit code."""
    batch_of(0, 0)  # pyarrow imports pandas at its first list, a quarter of a second
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            # The child says its number itself: its first words must not come before that.
            os.write(1, b"pid %d\n" % os.getpid())
            code = 1
            try:
                code = work(order)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        os.write(1, b"done %d\n" % status)


if __name__ == "__main__":
    serve(write)
