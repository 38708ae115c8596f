"""Wires between the processes: Arrow IPC streams over sockets, in place of the network."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Condition, Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from cec_store import QueueOptions
from cec_store.format.columns import values_of
from cec_store.format.schema import RecordSchema
from cec_store.log.frames import FrameMarks
from cec_store.operators.contract import InputBatch
from cec_store.queues.output_queue import OutputQueue
from support.disks.memory_folder import MemoryFolder

Send = Callable[[pa.RecordBatch], None]
_AHEAD_MAX = 32


@contextmanager
def send_to(wire: socket.socket, schema: pa.Schema) -> Iterator[Send]:
    """A function that sends a batch, and waits where the receiver is behind."""
    with wire, wire.makefile("wb") as file, pa.ipc.new_stream(file, schema) as stream:

        def send(batch: pa.RecordBatch) -> None:
            stream.write_batch(batch)
            file.flush()

        yield send


class SocketSource:
    """An operator's input from a socket: it comes once, so no recovery can ask for it."""

    def __init__(self, wire: socket.socket) -> None:
        self._stream = pa.ipc.open_stream(wire.makefile("rb"))
        self.schema: pa.Schema = self._stream.schema
        self._offset = 0

    def read(self, start: int, stop: int | None = None) -> Iterator[InputBatch]:
        if start != self._offset or stop is not None:
            raise ValueError(f"a socket is at {self._offset} and cannot read [{start}, {stop})")
        for batch in self._stream:
            offsets = np.arange(self._offset, self._offset + batch.num_rows)
            self._offset += batch.num_rows
            yield InputBatch(batch, offsets, values_of(batch.column("time"), "i8"))


class Unlogged:
    """Stand-in for a queue: what an operator puts out goes to the sink, and nothing is kept."""

    def __init__(self, schema: RecordSchema, send: Send) -> None:
        self.schema = schema
        self.folder = MemoryFolder()
        self.options = QueueOptions()
        self.end_offset = 0
        self._send = send

    def require_schema(self, schema: RecordSchema) -> RecordSchema:
        return self.schema

    def chain(self) -> Any:
        """Empty, as that of a new queue."""
        return SimpleNamespace(end=SimpleNamespace(seq=0))

    def append_step(self, parts: Iterable[pa.RecordBatch], marks: FrameMarks) -> int:
        for records in parts:
            self._send(records)
            self.end_offset += records.num_rows
        return 0

    def sync(self) -> None:
        """Nothing is kept."""


class Forwarded:
    """A queue whose batches also go to the sink, once they are durable (paper, appendix)."""

    def __init__(self, queue: OutputQueue, send: Send) -> None:
        self._queue = queue
        self._send = send
        self._changed = Condition()
        self._waiting: deque[tuple[int, pa.RecordBatch]] = deque()
        self._closing = False
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._forward, daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def append_step(self, parts: Iterable[pa.RecordBatch], marks: FrameMarks) -> int:
        sent = list(parts)
        seq = self._queue.append_step(sent, marks)
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < _AHEAD_MAX or self._failure)
            if self._failure is not None:
                raise self._failure
            self._waiting += [(seq, records) for records in sent]
            self._changed.notify_all()
        return seq

    def _forward(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting or self._closing)
                    if not self._waiting:
                        return
                    seq, records = self._waiting[0]
                self._queue.await_durable(seq)
                self._send(records)
                with self._changed:
                    self._waiting.popleft()
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def __enter__(self) -> Forwarded:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
