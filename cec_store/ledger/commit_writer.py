"""Appends to a queue of one writer, a commit a group. docs/format.md §13."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress

from cec_store.errors import CecError, CorruptLog, Fenced, NotAQueue, ReadOnly
from cec_store.format.bodies import Body
from cec_store.format.by_reference.commits import WRITER_SETTING, ReferenceObject
from cec_store.format.by_reference.inline import NO_SCHEMA, NumberedFrames
from cec_store.format.frame import FRAME_HEADER_BYTES, FrameHeader, FrameType
from cec_store.format.retention import FOREVER, Retention
from cec_store.format.schema import RecordSchema
from cec_store.ledger.commit_chain import CommitChain
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import (
    RETENTION_SETTING,
    appended_after,
    making,
    settings_after,
)
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.reference_trims import TrimBounds, trimmed
from cec_store.ledger.sweeping import DELETED_COMMITS_MAX, delete_commits
from cec_store.log.creating import check_free
from cec_store.log.epochs import newest_epoch
from cec_store.log.frames import FrameMarks
from cec_store.log.reopening import RecoveryReport, check_schema
from cec_store.log.writer import ClockAndEntropy, Cursor
from cec_store.storage.folder import Folder

_EVERY = 64
"""Commits, between two looks at what may be trimmed and deleted."""
_log = logging.getLogger(__name__)


def open_by_commits(
    folder: Folder,
    log: ReferenceLog,
    schema: RecordSchema | None,
    clock_and_entropy: ClockAndEntropy,
    retention: Retention,
    *,
    must_be_new: bool,
) -> tuple[CommitWriter, RecoveryReport]:
    """Take over the queue, or make it where there is none; ``schema`` is needed for that.

    There are no locks: whoever opens last is the writer, and the one before is fenced. Of ``log``
    commit 0 may have been read already.

    Raises:
        FileExistsError: it must be new, and is not.
        NotAQueue: other files are there, or nothing and no schema.
        CorruptLog: a commit is missing or damaged; nothing is changed.
        SchemaMismatch: ``schema`` is not the queue's.
        ReadOnly: a copy of a queue of local files.
        NoExclusiveCreate: the store lets two writers make the same object.
    """
    token = clock_and_entropy.entropy(16).hex()
    if not log.has_one_writer and newest_epoch(folder) is not None:
        raise ReadOnly(
            f"{folder.path}: a copy of a queue of local files: append to it there, or make a new "
            "queue in the store"
        )
    try:
        chain = CommitChain(folder, log)
    except NotAQueue:
        if schema is None:
            what = f"{folder.path}: no queue here; give a schema to make one"
            raise NotAQueue(what) from None
        check_free(folder)
        settings = {WRITER_SETTING: token}
        if retention != FOREVER:
            settings[RETENTION_SETTING] = str(retention)
        with suppress(FileExistsError):  # somebody else has made it meanwhile
            state = log.make(making(schema, 1, settings, clock_and_entropy.clock_us()))
            return CommitWriter(folder, log, schema, state, Cursor(), clock_and_entropy), (
                RecoveryReport()
            )
        chain = CommitChain(folder, log)
    if must_be_new:
        raise FileExistsError(f"{folder.path}: there is a queue already")
    check_schema(folder, schema, chain.schema())

    def take_over(now: QueueState) -> ReferenceObject | None:
        settings = {**now.commit.settings, WRITER_SETTING: token}
        return settings_after(now, settings, clock_and_entropy.clock_us())

    end = chain.add(take_over)  # of which the writer before can change nothing any more
    previous = Cursor().previous if end.last is None else (end.last.segment_id, end.last.byte)
    cursor = Cursor(end.seq, end.offset, previous)
    writer = CommitWriter(folder, log, chain.schema(), chain.state, cursor, clock_and_entropy)
    return writer, RecoveryReport()


class CommitWriter:
    """The one writer of a queue. Its frames stand in memory until a sync commits them.

    Used by one thread, as a :class:`cec_store.log.writer.LogWriter` is, and with its names.
    """

    newest_segment = 0
    """None is ever completed: the writer itself looks now and then at what may be trimmed."""

    def __init__(
        self,
        folder: Folder,
        log: ReferenceLog,
        schema: RecordSchema,
        state: QueueState,
        cursor: Cursor,
        clock_and_entropy: ClockAndEntropy,
    ) -> None:
        """``state`` is the queue's after the commit that made this the writer, or a later one."""
        self.folder = folder
        self.schema = schema
        self.cursor = self.durable = cursor
        self.in_step = False
        self.unsynced_bytes = 0
        self._log = log
        self._state = state
        self._token = state.commit.settings.get(WRITER_SETTING, "")
        self._clock_and_entropy = clock_and_entropy
        self._frames: list[tuple[FrameHeader, bytes]] = []
        self._is_wanted = False
        """This writer has committed frames, and has not failed since."""
        self._floor = 0
        """Number of the commit before which the others are deleted."""

    @property
    def segment_bytes(self) -> int:
        """Return the bytes of the frames that wait for a sync."""
        return self.unsynced_bytes

    @property
    def segment_has_records(self) -> bool:
        """Return True if frames wait for a sync."""
        return bool(self._frames)

    def append(self, body: Body, marks: FrameMarks) -> None:
        """Take one BATCH frame under the next number; the next sync commits it."""
        header = FrameHeader(
            type=FrameType.BATCH, codec=body.codec, flags=marks.flags, seq=self.cursor.seq,
            first_offset=self.cursor.offset, schema_byte=NO_SCHEMA,
            min_timestamp_us=body.min_timestamp_us, max_timestamp_us=body.max_timestamp_us,
            extent_records=marks.extent_records, input_upto=marks.input_upto,
            record_count=body.record_count, open_windows=marks.open_windows or 0,
            raw_bytes=body.raw_bytes,
        )  # fmt: skip
        self._frames.append((header, body.stored))
        self.unsynced_bytes += FRAME_HEADER_BYTES + len(body.stored)
        seq, offset, previous = self.cursor
        self.cursor = Cursor(seq + 1, offset + body.record_count, previous)
        self.in_step = marks.continues

    def sync(self) -> None:
        """Commit all frames. Only then may they be acknowledged; not in the middle of a step.

        Raises:
            Fenced: another writer has taken over; nothing new is acknowledged.
            QueueReplaced: another queue stands here now, or an older copy, or none.
            StorageError: they are not there, or nobody can say.
        """
        assert not self.in_step, "a step is committed as a whole"
        if not self._frames:
            return
        before, frames = self._state, self._frames
        salt = secrets.randbits(64)
        inline = [NumberedFrames(salt, frames, self.durable.previous)]

        def commit(now: QueueState) -> ReferenceObject:
            self.refuse_if_fenced(now, self._token)
            if now.commit.ends != (self.durable.offset,):
                what = f"records up to {now.commit.ends}, where this writer had {self.durable}"
                raise CorruptLog(self.folder.path, 0, what)
            return appended_after(now, frames, inline, self._clock_and_entropy.clock_us())

        self._is_wanted = False
        self._state = self._log.add(before, commit)
        self._is_wanted = True
        self._frames, self.unsynced_bytes = [], 0
        seq, offset, _ = self.cursor
        self.cursor = self.durable = Cursor(seq, offset, self._last_of(frames))
        if before.number // _EVERY != self._state.number // _EVERY:
            self._keep_small()

    def _last_of(self, frames: Sequence[tuple[FrameHeader, bytes]]) -> tuple[int, int]:
        """Return commit and byte of the last of the frames that have just been committed."""
        byte: int = self._state.live.column("byte")[-1].as_py()
        sizes = (FRAME_HEADER_BYTES + len(body) for _, body in frames[:-1])
        return self._state.number, byte + sum(sizes)

    def _keep_small(self) -> None:
        """Trim what the retention says, and delete old commits; an error is logged, not raised."""
        try:
            clock_us = self._clock_and_entropy.clock_us
            self._state = trimmed(self._log, self._state, TrimBounds(), clock_us)
            self._floor = delete_commits(self._log, self._state, self._floor, DELETED_COMMITS_MAX)
        except CecError as error:
            _log.warning("%s is not kept small: %s", self.folder.path, error)

    def roll(self) -> None:
        """Commit what there is: each commit is complete."""
        self.sync()

    def check(self) -> None:
        """Look whether the queue is still this writer's.

        Raises:
            Fenced: another writer has taken over.
            QueueReplaced: another queue stands here now, or an older copy, or none.
        """
        self._state = self._log.refresh(self._state, proving=True)
        self.refuse_if_fenced(self._state, self._token)

    def refuse_if_fenced(self, state: QueueState, token: str) -> None:
        """Raise :class:`Fenced` if the writer of this state is another than that of the token."""
        if state.commit.settings.get(WRITER_SETTING) != token:
            raise Fenced(
                f"{self.folder.path}: another writer has taken over, by commit {state.number} or "
                "one before it"
            )

    def close(self) -> None:
        """Give the queue up by one more commit; what was appended and not synced was never there.

        So the commit before it, with the last rows, has one behind it that names it.
        """
        if not self._is_wanted:
            return
        self._is_wanted = False

        def give_up(now: QueueState) -> ReferenceObject | None:
            if now.commit.settings.get(WRITER_SETTING) != self._token:
                return None
            settings = {**now.commit.settings, WRITER_SETTING: ""}
            return settings_after(now, settings, self._clock_and_entropy.clock_us())

        try:
            self._log.add(self._state, give_up)
        except (CecError, OSError) as error:
            # All that was acknowledged is there without it.
            _log.warning("%s: its end could not be noted: %s", self.folder.path, error)
