"""Encoding, writing and syncing in the background, in the order of the appends.

Frames are encoded by a small pool while earlier ones are being written and synced; a bounded number
is outstanding, and an append beyond it waits (CEC paper, appendix, "Failure-free operation"). So a
step of many frames never stands in memory as a whole: its first ones are written while later ones
are made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from threading import Thread
from typing import Any

import pyarrow as pa

from cec_store.errors import CecError, DiskFull, DurabilityLost, Fenced, Poisoned, QueueReplaced
from cec_store.log.frames import FrameMarks
from cec_store.log.options import QueueOptions, SyncMode
from cec_store.log.pipeline.line import Line, QueuedFrame
from cec_store.log.writer import Cursor, GroupWriter
from cec_store.storage.folder import Lock
from cec_store.storage.forking import OwnProcess
from cec_store.storage.waiting import Call, start_uninterrupted

_log = logging.getLogger(__name__)


class Pipeline:
    """Feeds a writer from any number of threads.

    Callers put frames and calls into line, encoder threads turn records into bodies, and the
    writer's thread alone calls the writer, which writes, syncs, rolls and trims. A caller that is
    interrupted leaves it as it was, before its call or after.
    """

    def __init__(
        self, writer: GroupWriter, options: QueueOptions, lock: Lock | None = None
    ) -> None:
        """``lock`` is let go of once all is durable and closed. :meth:`start` starts the threads.

        Writer and lock belong to the pipeline from then on.
        """
        self.writer = writer
        """Its methods are called on the writer's thread only."""
        self._options = options
        self._group_wait_ms = options.group_wait_ms(not writer.folder.appends)
        self._lock = lock
        self._process = OwnProcess()
        self._line = Line(writer.folder.path, options, writer.cursor)
        self.durable = writer.durable
        """Everything below is on disk. May be read by any thread: a cursor never changes."""
        self._is_running = self._has_ended = self._loss_is_told = False
        self._unsynced_since: float | None = None
        """Time at which the oldest unsynced frame was written, in seconds of the monotonic clock;
        ``None`` where all are synced. Used by the writer's thread only."""
        self._thread = Thread(target=self._run, name="cec-writer", daemon=True)

    # -- the callers' side --------------------------------------------------------------------

    def start(self) -> None:
        """Start the threads, and return once the writer's runs; call it once."""
        start_uninterrupted([*self._line.encoders.threads, self._thread])
        self._line.changed.wait_for(lambda: self._is_running)

    @property
    def end(self) -> Cursor:
        """Position of the next append."""
        return self._line.last.end

    @property
    def failure(self) -> BaseException | None:
        """Return the error that ended the writer's thread."""
        return self._line.failure

    def submit(self, parts: Iterable[pa.RecordBatch], marks: FrameMarks) -> int:
        """Queue the frames of one step, one at least, and return the number of the last.

        ``marks`` are those of the step's end. Waits while too much is outstanding, and takes each
        part only when there is room for the one before it. A step of several frames that cannot
        be finished, for whatever reason, ends the writer.

        Raises:
            FrameTooLarge: records of a part do not fit in one frame.
            OutOfRange: the numbers of frames or records are used up.
            Fenced: another writer has taken over.
            Poisoned: the writer has failed or is closed.
            Forked: it is the parent process's.
        """
        self._process.check(self.writer.folder.path)
        return self._line.enter(parts, marks)

    def await_written(self) -> None:
        """Return once nothing is in line, or nothing more will be written."""
        self._line.changed.wait_for(lambda: not self._line.frames or self._is_lost())

    def await_durable(self, seq: int, timeout_s: float | None = None) -> None:
        """Return once frame ``seq`` is on disk.

        Raises:
            DurabilityLost, DiskFull, Fenced: it never will be, through this writer.
            TimeoutError: not in time.
            Forked: it is the parent process's to say.
        """
        self._process.check(self.writer.folder.path)
        if self.durable.seq > seq:
            return
        if seq >= self.end.seq:
            raise ValueError(f"frame {seq} has not been appended; the next is {self.end.seq}")
        self._line.want(seq + 1)
        # A close does not end the wait: it makes all frames durable first.
        done = self._line.changed.wait_for(
            lambda: self.durable.seq > seq or self._is_lost(), timeout_s
        )
        if self.durable.seq > seq:
            return
        if not done:
            raise TimeoutError(f"frame {seq} was not durable within {timeout_s} s")
        raise self._why_lost()

    def call(self, work: Callable[[], Any]) -> Any:
        """Run ``work`` on the writer's thread, behind everything appended so far.

        What it raises ends the writer.
        """
        self._process.check(self.writer.folder.path)
        call = Call(work)
        self._line.ask(call)
        self._line.changed.wait_for(lambda: call.is_made or self._is_lost())
        if not call.is_made:
            raise self.failure or Poisoned("the queue was closed")
        return call.result()

    def close(self) -> None:
        """Make everything durable and stop. In a child of a fork nothing: it is the parent's.

        Interrupted, it goes on in the background; a second call waits for that.

        Raises:
            DurabilityLost, DiskFull, Fenced: the last frames could not be made durable.
        """
        if self._process.is_other():
            return
        self.stop()
        self._line.changed.wait_for(lambda: self._has_ended)
        self._thread.join()
        if self.durable.seq < self.end.seq and not self._loss_is_told:
            self._loss_is_told = True
            raise self._why_lost()

    def stop(self) -> None:
        """Close in the background: for whoever may not wait, as a finaliser."""
        self._line.close()

    def _is_lost(self) -> bool:
        return self._has_ended or self.failure is not None

    def _why_lost(self) -> CecError:
        error = self.failure
        if isinstance(error, (Fenced, DiskFull, QueueReplaced)):
            return error
        return DurabilityLost(f"not acknowledged, because the writer failed: {error}")

    # -- the writer's thread ------------------------------------------------------------------

    def _run(self) -> None:
        self._is_running = True
        self._line.changed.ring()
        try:
            while self._turn():
                pass
        except BaseException as error:
            if isinstance(error, Fenced):
                _log.warning("fenced: %s", error)
            else:
                _log.error("%s: this writer has failed: %s", self.writer.folder.path, error)
            self._line.fail(error)
        try:
            self.writer.close()
        except CecError as error:
            self._line.fail(self.failure or error)
        self._line.encoders.stop()
        if self._lock is not None:
            self._lock.close()
        self._has_ended = True
        self._line.changed.ring()

    def _turn(self) -> bool:
        """Write what is pending, sync if it is time; ``False`` when closed and all is durable."""
        line = self._line
        line.sleep(self._seconds_to_sync, self._is_wanted)
        # In this order: what was appended before a call was made, or the close, comes before it.
        closing = line.is_closing
        calls = len(line.calls)
        for _ in range(len(line.frames)):
            self._write(line.frames[0])
            line.written()
        if self.writer.in_step:  # it is synced, and closed, as a whole
            return True
        if closing or calls or self._sync_is_due():
            self._sync()
        for _ in range(calls):
            call = line.calls.popleft()
            call.make(on_error=line.fail)
            line.changed.ring()
            call.result()
        return not (closing and line.is_over())

    def _is_wanted(self) -> bool:
        return self._line.wanted_seq > self.durable.seq

    def _seconds_to_sync(self) -> float | None:
        if self._unsynced_since is None or self._options.sync is SyncMode.NONE:
            return None
        if self.writer.in_step:
            return None
        limit_ms = (
            self._options.sync_interval_ms
            if self._options.sync is SyncMode.INTERVAL
            else self._group_wait_ms
        )
        return max(0.0, self._unsynced_since + limit_ms / 1000 - time.monotonic())

    def _sync_is_due(self) -> bool:
        is_due = self._is_wanted() or self._seconds_to_sync() == 0
        return self._unsynced_since is not None and is_due

    def _write(self, frame: QueuedFrame) -> None:
        body = frame.body.result()
        is_full = self.writer.segment_bytes + len(body.stored) > self._options.segment_bytes
        if is_full and not self.writer.in_step:
            self.roll()
        self.writer.append(body, frame.marks)
        if self._unsynced_since is None:
            self._unsynced_since = time.monotonic()
        group_is_full = (
            self._options.sync is SyncMode.GROUP
            and self.writer.unsynced_bytes >= self._options.group_max_bytes
        )
        is_due = self._options.sync is SyncMode.COMMIT or group_is_full
        if is_due and not self.writer.in_step:
            self._sync()

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
        self._unsynced_since = None
        self.durable = self.writer.durable
        self._line.changed.ring()
