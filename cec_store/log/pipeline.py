"""Encoding, writing and syncing in the background, in the order of the appends.

Frames are encoded by a small pool while earlier ones are being written and synced; a bounded number
is outstanding, and an append beyond it waits (CEC paper, appendix, "Failure-free operation"). So a
step of many frames never stands in memory as a whole: its first ones are written while later ones
are made.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Condition, Lock, Thread
from typing import Any

import pyarrow as pa

from cec_store.errors import CecError, DiskFull, DurabilityLost, Fenced, OutOfRange, Poisoned
from cec_store.format.bodies import Body, check_body_size, encode_body
from cec_store.format.frame import NUMBERS_END
from cec_store.log.frames import FrameMarks
from cec_store.log.options import QueueOptions, SyncMode
from cec_store.log.writer import Cursor, LogWriter

_ENCODERS = 2


@dataclass
class _Pending:
    body: Future[Body]
    marks: FrameMarks
    raw_bytes: int


class Pipeline:
    """Feeds a :class:`LogWriter` from any number of threads.

    Callers put frames and tasks into line, encoder threads turn records into bodies, and the
    writer's thread alone calls the :class:`LogWriter`, which writes, syncs, rolls and trims.
    """

    def __init__(self, writer: LogWriter, options: QueueOptions) -> None:
        self.writer = writer
        """Its methods are called on the writer's thread only."""
        self._options = options
        self._changed = Condition()
        """Guards the fields from here to ``_failure``; notified when one of them changes."""
        self._pending: deque[_Pending] = deque()
        """Frames that are not written yet. Callers add, the writer's thread removes."""
        self._tasks: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        """Calls for the writer's thread, and where their results go."""
        self._outstanding_bytes = 0
        """Of the bodies in ``_pending``, before compression."""
        self.end = writer.cursor
        """Where the next append goes. May be read without the lock: a cursor never changes."""
        self.durable = writer.durable
        """Everything below is on disk; read as ``end`` is."""
        self._wanted_seq = 0
        """Somebody waits for the frames below to be durable."""
        self._closing = False
        self._given_up: BaseException | None = None
        """Why a step was left in the middle: nothing can be appended behind a part of one."""
        self._failure: BaseException | None = None
        """What ended the writer's thread; it stays."""
        self._unsynced_since: float | None = None
        """When the oldest frame not synced was written. Used by the writer's thread only."""
        self._one_step = Lock()
        """Held from a step's first frame to its last: frames of others do not come between."""
        self._encoders = ThreadPoolExecutor(_ENCODERS, "cec-encode")
        self._thread = Thread(target=self._run, name="cec-writer", daemon=True)
        self._thread.start()

    # -- the callers' side --------------------------------------------------------------------

    def submit(self, parts: Iterable[pa.RecordBatch], marks: FrameMarks) -> int:
        """Queue the frames of one step, one at least, and return the number of the last.

        ``marks`` are those of the step's end. Waits while too much is outstanding, and takes each
        part only when there is room for the one before it. A step of several frames that cannot
        be finished, for whatever reason, ends the writer.

        Raises:
            FrameTooLarge: records of a part do not fit in one frame.
            OutOfRange: the numbers of frames or records are used up.
            Poisoned: the writer has failed or is closed.
        """
        rest = iter(parts)
        part, begun = next(rest), False
        with self._one_step:
            try:
                # A frame says whether another follows, so the next one is made before it leaves.
                for following in rest:
                    self._enqueue(part, FrameMarks.of_part(marks.input_upto), begun)
                    part, begun = following, True
                return self._enqueue(part, marks, begun)
            except BaseException as error:
                if begun:
                    self._give_up(error)
                raise

    def _give_up(self, error: BaseException) -> None:
        with self._changed:
            self._given_up = error
            self._changed.notify_all()

    def _enqueue(self, records: pa.RecordBatch, marks: FrameMarks, in_step: bool) -> int:
        """Queue one frame; ``in_step``: it goes on with a step, which a close waits for."""
        raw_bytes = check_body_size(records, self.writer.folder.path)
        with self._changed:
            self._changed.wait_for(
                lambda: self._has_room(raw_bytes) or self._stopped(in_step),
            )
            self._refuse_if_stopped(in_step)
            # Readers refuse a frame with higher numbers, so it must not be acknowledged.
            if max(self.end.seq + 1, self.end.offset + records.num_rows) >= NUMBERS_END:
                raise OutOfRange(
                    f"{self.writer.folder.path}: frame {self.end.seq}, record {self.end.offset}: "
                    "numbers end at 2^63; start a new queue"
                )
            body = self._encoders.submit(encode_body, records, self._options.compression_level)
            self._pending.append(_Pending(body, marks, raw_bytes))
            self._outstanding_bytes += raw_bytes
            seq = self.end.seq
            self.end = Cursor(seq + 1, self.end.offset + records.num_rows)
            self._changed.notify_all()
            return seq

    def await_durable(self, seq: int, timeout_s: float | None = None) -> None:
        """Return once frame ``seq`` is on disk.

        Raises:
            DurabilityLost, DiskFull, Fenced: it never will be, through this writer.
            TimeoutError: not in time.
        """
        with self._changed:
            if seq >= self.end.seq:
                raise ValueError(f"frame {seq} has not been appended; the next is {self.end.seq}")
            self._wanted_seq = max(self._wanted_seq, seq + 1)
            self._changed.notify_all()
            done = self._changed.wait_for(
                # A close does not end the wait: it makes all frames durable first.
                lambda: self.durable.seq > seq or self._failure is not None,
                timeout_s,
            )
            if self.durable.seq > seq:
                return
            if not done:
                raise TimeoutError(f"frame {seq} was not durable within {timeout_s} s")
            raise self._why_lost()

    def call(self, task: Callable[[], Any]) -> Any:
        """Run ``task`` on the writer's thread, behind everything appended so far."""
        result: Future[Any] = Future()
        with self._changed:
            self._refuse_if_stopped()
            self._tasks.append((task, result))
            self._changed.notify_all()
        return result.result()

    def close(self) -> None:
        """Make everything durable and stop.

        Raises:
            DurabilityLost, DiskFull, Fenced: the last frames could not be made durable.
        """
        with self._changed:
            first = not self._closing
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._encoders.shutdown()
        if first and self._failure is not None and self.durable.seq < self.end.seq:
            raise self._why_lost()

    def _has_room(self, raw_bytes: int) -> bool:
        if not self._pending:
            return True
        frames = len(self._pending) < self._options.outstanding_frames_max
        return frames and self._outstanding_bytes + raw_bytes <= self._options.outstanding_bytes_max

    def _stopped(self, in_step: bool = False) -> bool:
        failed = self._failure is not None or self._given_up is not None
        return failed or (self._closing and not in_step)

    def _refuse_if_stopped(self, in_step: bool = False) -> None:
        error = self._failure or self._given_up
        if error is not None:
            raise Poisoned(f"this writer failed: {error}; open the queue again") from error
        if self._closing and not in_step:
            raise Poisoned("the queue is closed")

    def _why_lost(self) -> CecError:
        error = self._failure
        if isinstance(error, (Fenced, DiskFull)):
            return error
        return DurabilityLost(f"not acknowledged, because the writer failed: {error}")

    # -- the writer's thread ------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._pending.clear()
                for _, result in self._tasks:
                    result.set_exception(error)
                self._tasks.clear()
                self._changed.notify_all()
        finally:
            try:
                self.writer.close()
            except CecError as error:
                self._failure = self._failure or error

    def _turn(self) -> bool:
        """Write what is pending, sync if it is time; ``False`` when closed and all is durable."""
        with self._changed:
            self._changed.wait_for(self._has_work, self._seconds_to_sync())
            pending = list(self._pending)
            tasks = list(self._tasks)
            closing = self._closing
            if self._given_up is not None:
                raise Poisoned(f"a step was left unfinished: {self._given_up!r}")
        for item in pending:
            self._write(item)
        if self.writer.in_step:
            return True
        if closing or tasks or self._sync_is_due():
            self._sync()
        for task, result in tasks:
            result.set_result(task())
            with self._changed:
                self._tasks.popleft()
        return not (closing and not self._pending)

    def _has_work(self) -> bool:
        if self.writer.in_step:  # it is synced, and closed, as a whole
            return bool(self._pending) or self._given_up is not None
        wanted = self._wanted_seq > self.durable.seq
        given_up = self._given_up is not None
        return bool(self._pending or self._tasks or self._closing or wanted or given_up)

    def _seconds_to_sync(self) -> float | None:
        if self._unsynced_since is None or self._options.sync is SyncMode.NONE:
            return None
        if self.writer.in_step:
            return None
        limit_ms = (
            self._options.sync_interval_ms
            if self._options.sync is SyncMode.INTERVAL
            else self._options.group_max_wait_ms
        )
        return max(0.0, self._unsynced_since + limit_ms / 1000 - time.monotonic())

    def _sync_is_due(self) -> bool:
        is_wanted = self._wanted_seq > self.durable.seq
        return self._unsynced_since is not None and (is_wanted or self._seconds_to_sync() == 0)

    def _write(self, item: _Pending) -> None:
        body = item.body.result()
        is_full = self.writer.segment_bytes + len(body.stored) > self._options.segment_bytes
        if is_full and not self.writer.in_step:
            self.roll()
        self.writer.append(body, item.marks)
        if self._unsynced_since is None:
            self._unsynced_since = time.monotonic()
        group_is_full = (
            self._options.sync is SyncMode.GROUP
            and self.writer.unsynced_bytes >= self._options.group_max_bytes
        )
        is_due = self._options.sync is SyncMode.COMMIT or group_is_full
        if is_due and not self.writer.in_step:
            self._sync()
        with self._changed:
            self._pending.popleft()
            self._outstanding_bytes -= item.raw_bytes
            self._changed.notify_all()

    def roll(self) -> None:
        """Complete the segment unless it has no records. On the writer's thread only."""
        if self.writer.segment_has_records:
            self.writer.roll()
            self._announce()

    def _sync(self) -> None:
        if self._unsynced_since is not None:
            self.writer.sync()
            self._announce()

    def _announce(self) -> None:
        with self._changed:
            self._unsynced_since = None
            self.durable = self.writer.durable
            self._changed.notify_all()
