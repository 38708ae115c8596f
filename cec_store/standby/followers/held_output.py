"""Output that is held back until it is known whether somebody else has written it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from cec_store.errors import StorageError
from cec_store.format.columns import Ints
from cec_store.format.records import concat, inputs_of
from cec_store.format.schema import RecordSchema
from cec_store.log.frames import FrameMarks
from cec_store.log.options import QueueOptions, SyncMode
from cec_store.queues.appendable_queue import AppendableQueue
from cec_store.storage.local import LocalFolder

_SEGMENT_BYTES = 16 << 20
_JOINED_BYTES = 4 << 20
_log = logging.getLogger(__name__)


class HeldOutputLost(StorageError):
    """Output that was held back cannot be kept on this disk, or not be read from it again."""


@contextmanager
def _lost_on_failure() -> Iterator[None]:
    try:
        yield
    except (StorageError, OSError) as error:
        raise HeldOutputLost(f"output cannot be held back on disk: {error}") from error


class HeldOutput:
    """Records in the order of the input that caused them: in memory, and beyond a bound on disk.

    What is oldest is in memory. Records go to the disk while there are some on it, so that their
    order is kept; nothing is synced before a takeover, as all of it can be made again.

    Where the disk fails, methods raise :class:`HeldOutputLost`, and all of it is to be closed.
    """

    def __init__(
        self, schema: RecordSchema, bytes_max: int, make_folder: Callable[[], LocalFolder]
    ) -> None:
        """``make_folder`` gives a new folder of its own, which is removed by :meth:`close`."""
        self._schema = schema
        self._bytes_max = bytes_max
        self._make_folder = make_folder
        self._memory: deque[tuple[pa.RecordBatch, Ints]] = deque()
        """Records in memory, with the input position of each batch's last record, shape (inputs,).
        """
        self._bytes = 0
        self._disk: _Spilled | None = None
        self.spilled_rows = 0
        """Rows that have ever gone to the disk."""

    @property
    def rows(self) -> int:
        """Held now; a few of them may be known to be written."""
        on_disk = 0 if self._disk is None else self._disk.rows
        in_memory: int = sum(batch.num_rows for batch, _ in self._memory)
        return in_memory + on_disk

    def add(self, records: pa.RecordBatch) -> None:
        """Append records behind those that are there."""
        if not records.num_rows:
            return
        last = self._positions(records)[-1].copy()  # a view would keep them all
        has_room = self._bytes + records.nbytes <= self._bytes_max
        if has_room and self._disk is None:
            self._memory.append((records, last))
            self._bytes += records.nbytes
            return
        if self._disk is None:
            self._disk = _Spilled(self._make_folder, self._schema)
        self._disk.add(records, last)
        self.spilled_rows += records.num_rows

    def trim(self, upto: Ints) -> None:
        """Drop written output: that which input below this position caused, shape (inputs,)."""
        while self._memory and (self._memory[0][1] <= upto).all():
            records, _ = self._memory.popleft()
            self._bytes -= records.nbytes
        if not self._memory and self._disk is not None and self._disk.trim(upto):
            self._disk.close()
            self._disk = None

    def behind(self, upto: Ints) -> Iterator[pa.RecordBatch]:
        """Yield the output of input at and behind this position, in large batches.

        One frame for each small step would be slow to append.
        """
        self.trim(upto)
        parts: list[pa.RecordBatch] = []
        size = 0
        for records in self._all():
            rest = self._rest(records, upto)
            if parts and size + rest.nbytes > _JOINED_BYTES:
                yield concat(parts)
                parts, size = [], 0
            parts.append(rest)
            size += rest.nbytes
        if parts:
            yield concat(parts)

    def rows_behind(self, upto: Ints) -> int:
        """Return the number of rows that :meth:`behind` yields."""
        self.trim(upto)
        first = next(self._all(), None)
        if first is None:
            return 0
        return self.rows - int(first.num_rows) + int(self._rest(first, upto).num_rows)

    def _all(self) -> Iterator[pa.RecordBatch]:
        yield from (records for records, _ in self._memory)
        if self._disk is not None:
            yield from self._disk.all()

    def _rest(self, records: pa.RecordBatch, upto: Ints) -> pa.RecordBatch:
        is_written = (self._positions(records) <= upto).all(axis=1)
        return records.slice(int(np.count_nonzero(is_written)))

    def _positions(self, records: pa.RecordBatch) -> Ints:
        """The input of each record, shape (records, inputs); no position falls."""
        return inputs_of(records, self._schema.inputs)

    def sync(self) -> None:
        """Put all of it where it can be read again: to be called before anything relies on it."""
        if self._disk is not None:
            self._disk.sync()

    def close(self) -> None:
        """Let go of all, and of the folder."""
        self._memory.clear()
        self._bytes = 0
        if self._disk is not None:
            self._disk.close()
            self._disk = None


class _Spilled:
    """A queue of its own, in a folder of its own."""

    def __init__(self, make_folder: Callable[[], LocalFolder], schema: RecordSchema) -> None:
        options = QueueOptions(sync=SyncMode.NONE, segment_bytes=_SEGMENT_BYTES)
        with _lost_on_failure():
            self._folder = make_folder()
            self._queue = AppendableQueue(self._folder, "x", schema, options)
        self._frames: deque[tuple[int, Ints, int]] = deque()
        """First offset, position of the last record, and bytes, of each frame that is still needed.
        """
        self._written_bytes = 0
        """Bytes of frames that are no longer needed and still on the disk."""

    @property
    def rows(self) -> int:
        return self._queue.end_offset - self._frames[0][0] if self._frames else 0

    def add(self, records: pa.RecordBatch, last: Ints) -> None:
        self._frames.append((self._queue.end_offset, last, records.nbytes))
        with _lost_on_failure():
            self._queue.append_records(records, FrameMarks(input_upto=int(last.sum())))

    def trim(self, upto: Ints) -> bool:
        """True if nothing is left. Segments go as wholes."""
        while self._frames and (self._frames[0][1] <= upto).all():
            self._written_bytes += self._frames.popleft()[2]
        if self._frames and self._written_bytes >= _SEGMENT_BYTES:
            with _lost_on_failure():
                self._queue.sync()
                self._queue.trim(self._frames[0][0])
            self._written_bytes = 0
        return not self._frames

    def sync(self) -> None:
        with _lost_on_failure():
            self._queue.sync()

    def all(self) -> Iterator[pa.RecordBatch]:
        self.sync()
        with _lost_on_failure():
            chain = self._queue.chain()
            first = chain.find_offset(self._frames[0][0])
            assert first is not None
            for frame in chain.frames(first.address):
                yield chain.records(frame)

    def close(self) -> None:
        try:
            with _lost_on_failure():
                self._queue.close()
        except HeldOutputLost as error:
            _log.warning("%s: %s", self._folder.path, error)  # and it is needed no more
        try:
            self._folder.remove()
        except (StorageError, OSError) as error:
            _log.warning("%s: cannot be removed, so delete it: %s", self._folder.path, error)
