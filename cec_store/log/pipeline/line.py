"""The line between callers that append and the thread that writes: frames, calls, waiters.

Callers may be interrupted anywhere. So each change that they make is one call of a built-in type:
what was in line stays there, what was not never gets there, and the other threads go on. The
writer's thread is never interrupted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa

from cec_store.errors import OutOfRange, Poisoned, ended_by
from cec_store.format.bodies import Body, check_body_size, encode_body, encode_columns
from cec_store.format.frame import NUMBERS_END
from cec_store.format.schema import STATE
from cec_store.log.frames import FrameMarks
from cec_store.log.options import Compression, QueueOptions
from cec_store.log.writer import Cursor
from cec_store.storage.waiting import Bells, Call, Workers

_ENCODERS = 2


class Upto(NamedTuple):
    """Records that have been appended, up to the end of a frame."""

    end: Cursor
    raw_bytes: int
    """Bytes of all bodies, before compression."""
    in_step: bool
    """The last frame's step goes on: what comes next has to be of it."""


class QueuedFrame(NamedTuple):
    """Records on their way to the log."""

    body: Call[Body]
    marks: FrameMarks
    upto: Upto


class Line:
    """Any threads stand in line, by the methods named so; the writer's thread takes.

    :attr:`changed` rings for those who wait; ``_wakes`` gets ``None`` for the writer's thread.
    """

    def __init__(self, path: str, options: QueueOptions, end: Cursor) -> None:
        self._path = path
        self._options = options
        self.encoders = Workers(_ENCODERS, "cec-encode")
        self.changed = Bells()
        """Rung by the writer's thread."""
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._numbering = Lock()
        """Held from looking where the line ends to standing in it, and when it ends for good."""
        self._one_step = Lock()
        """Held from before a step's first frame stands in line until its last one does. Where it
        is free and a step goes on, the step was given up."""
        self.frames: deque[QueuedFrame] = deque()
        """Frames that are not written yet. Callers add, the writer's thread removes."""
        self._written = Upto(end, 0, False)
        """The end of the frame last taken from ``frames``; changed before that is done."""
        self.calls: deque[Call[Any]] = deque()
        """Calls for the writer's thread."""
        self._wanted: deque[int] = deque()
        self.wanted_seq = 0
        """Somebody waits for the frames below to be durable. The writer's thread's own."""
        self.is_closing = False
        self.failure: BaseException | None = None
        """Error that ended the writer's thread; it stays."""

    # -- the callers --------------------------------------------------------------------------

    @property
    def last(self) -> Upto:
        """The end of all frames that are in line, or were."""
        try:
            return self.frames[-1].upto
        except IndexError:
            return self._written

    def enter(self, parts: Iterable[pa.RecordBatch], marks: FrameMarks) -> int:
        """Queue the frames of a step, one at least, and return the number of the last.

        Each part is taken once there is room for the one before it. Where the step is left in the
        middle the writer fails: nothing can stand behind a part of a step.
        """
        rest = iter(parts)
        part = next(rest)
        try:
            with self._one_step:
                self._refuse_if_stopped()
                if self.last.in_step:
                    raise _given_up()
                # A frame says whether another follows, so the next is made before it leaves.
                for following in rest:
                    self._enter(part, FrameMarks.of_part(marks.input_upto))
                    part = following
                return self._enter(part, marks)
        finally:
            self.wake()

    def _enter(self, records: pa.RecordBatch, marks: FrameMarks) -> int:
        """Queue one frame and return its number; waits while too much is outstanding."""
        raw_bytes = check_body_size(records, self._path)
        in_step = self.last.in_step
        while True:
            self.changed.wait_for(lambda: self._has_room(raw_bytes) or self._is_stopped(in_step))
            with self._numbering:
                self._refuse_if_stopped(in_step)
                if not self._has_room(raw_bytes):
                    continue
                frame = self._frame(records, marks, raw_bytes)
                self.encoders.put(frame.body)
                # One step, which nothing cuts in two: it is in line, and the end has moved on.
                self.frames.append(frame)
            self.wake()
            return frame.upto.end.seq - 1

    def _frame(self, records: pa.RecordBatch, marks: FrameMarks, raw_bytes: int) -> QueuedFrame:
        end, bytes_before, _ = self.last
        upto = Cursor(end.seq + 1, end.offset + records.num_rows)
        # Readers refuse a frame with higher numbers, so it must not be acknowledged.
        if max(upto.seq, upto.offset) >= NUMBERS_END:
            raise OutOfRange(
                f"{self._path}: frame {end.seq}, record {end.offset}: "
                "numbers end at 2^63; start a new queue"
            )
        is_by_columns = self._options.compression is Compression.COLUMNS
        has_state = STATE in records.schema.names
        encode = encode_columns if is_by_columns and not has_state else encode_body
        body = Call(partial(encode, records, self._options.compression_level))
        return QueuedFrame(body, marks, Upto(upto, bytes_before + raw_bytes, marks.continues))

    def ask(self, call: Call[Any]) -> None:
        """Queue a call, behind everything appended so far."""
        with self._numbering:
            self._refuse_if_stopped()
            self.calls.append(call)
        self.wake()

    def want(self, seq: int) -> None:
        """Ask for the frames below ``seq`` to be made durable."""
        self._wanted.append(seq)
        self.wake()

    def close(self) -> None:
        """No more is taken from now on; what is in line is still written."""
        self.is_closing = True
        self.wake()

    def wake(self) -> None:
        self._wakes.put(None)

    def _has_room(self, raw_bytes: int) -> bool:
        if not self.frames:
            return True
        outstanding_bytes = self.last.raw_bytes - self._written.raw_bytes
        few = len(self.frames) < self._options.outstanding_frames_max
        return few and outstanding_bytes + raw_bytes <= self._options.outstanding_bytes_max

    def _is_stopped(self, in_step: bool) -> bool:
        """A step that has begun may still end once it is closing."""
        return (self.is_closing and not in_step) or self.failure is not None

    def _refuse_if_stopped(self, in_step: bool = False) -> None:
        if self.failure is not None:
            advice = f"this writer failed: {self.failure}; open the queue again"
            raise ended_by(self.failure, advice) from self.failure
        if self.is_closing and not in_step:
            raise Poisoned("the queue is closed")

    # -- the writer's thread ------------------------------------------------------------------

    def sleep(self, seconds: Callable[[], float | None], is_wanted: Callable[[], bool]) -> None:
        """Wait until a frame is in line, somebody waits, or the time is over.

        In the middle of a step wait only for its next frame, or until the time is over.

        Raises:
            Poisoned: the step was given up, so that its next frame never comes.
        """
        while True:
            while not self._wakes.empty():
                self._wakes.get()
            while self._wanted:
                self.wanted_seq = max(self.wanted_seq, self._wanted.popleft())
            if self.frames:
                return
            if self.last.in_step:
                self._refuse_if_given_up()
            elif self.calls or self.is_closing or is_wanted():
                return
            try:
                self._wakes.get(timeout=seconds())
            except Empty:
                return

    def _refuse_if_given_up(self) -> None:
        if self._one_step.acquire(blocking=False):
            try:
                if self.last.in_step:  # or else it has just ended
                    raise _given_up()
            finally:
                self._one_step.release()

    def written(self) -> None:
        """The first frame in line is in the log."""
        self._written = self.frames[0].upto
        self.frames.popleft()
        self.changed.ring()

    def is_over(self) -> bool:
        """Return True if nothing is in line; once the line is closed, nothing ever will be."""
        with self._numbering:  # nobody is between looking whether it is closed and standing in it
            return not (self.frames or self.calls)

    def fail(self, error: BaseException) -> None:
        """The writer has failed: what is in line is lost."""
        with self._numbering:
            self.failure = error
            self._written = self.last
            self.frames.clear()
        self.changed.ring()


def _given_up() -> Poisoned:
    return Poisoned("a step of several frames was left unfinished")
