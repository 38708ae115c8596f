"""Limits of each partition's trim: by its consumers, by what is asked for, by retention.

docs/format.md §11; the rules are those of :mod:`cec_store.queues.trimming`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from cec_store.errors import OutOfRange, upgrade_needed
from cec_store.format.by_reference.commits import WRITER_SETTING, ReferenceObject
from cec_store.format.by_reference.segment_frames import frames_of
from cec_store.format.retention import FOREVER, Retention, RetentionMode
from cec_store.format.scan import Bad
from cec_store.ledger.commit_reader import InlineCommits
from cec_store.ledger.queue_state import QueueState
from cec_store.ledger.reference_commits import (
    RETENTION_SETTING,
    settings_after,
    trim_after,
)
from cec_store.ledger.reference_log import ReferenceLog
from cec_store.ledger.registrations import effects_saved
from cec_store.storage.names import commit_object_name
from cec_store.storage.stores.store import Store


def retention_of(state: QueueState, path: str) -> Retention:
    """Return the rule by which the queue deletes rows by itself; ``FOREVER`` if none is set.

    Raises:
        UnsupportedVersion: a later release has set it.
    """
    text = state.commit.settings.get(RETENTION_SETTING)
    try:
        return FOREVER if text is None else Retention.of(text)
    except ValueError as error:
        raise upgrade_needed(path, f"retention {text!r}") from error


def with_retention(
    log: ReferenceLog, state: QueueState, retention: Retention, now_us: int
) -> QueueState:
    """Commit another setting."""

    def commit(now: QueueState) -> ReferenceObject | None:
        settings = {**now.commit.settings, RETENTION_SETTING: str(retention)}
        return settings_after(now, settings, now_us)

    return log.add(state, commit)


@dataclass(frozen=True)
class TrimBounds:
    """Bounds of a trim; without any of them the queue's retention is the bound."""

    before: Mapping[int, int] | None = None
    """Offset of each partition below which records may go."""
    keep: Retention | None = None
    """Time or size to keep: only older records, or those beyond it, may go."""
    retention: Retention | None = None
    """Retention to try in place of the queue's own."""

    def __post_init__(self) -> None:
        if self.before is not None and self.keep is not None:
            raise ValueError("a trim is asked for offsets, a length of time or a size: one of it")
        if self.keep is not None and not self.keep.mode.has_value:
            raise ValueError(f"keep={self.keep}: a length of time or a size")

    @property
    def retention_decides(self) -> bool:
        """True if nothing else was asked for."""
        return self.before is None and self.keep is None


def limits(store: Store, state: QueueState, bounds: TrimBounds, now_us: int) -> dict[int, int]:
    """Return by partition the offset below which whole segments may go; empty where none may.

    What a consumer needs stays, but where the retention is a time or a size and nothing else is
    asked for.

    Raises:
        OutOfRange: there is no such partition, or an offset is above its end.
        CorruptLog, UnsupportedVersion: what a consumer needs cannot be read.
    """
    ends, keep = state.commit.ends, bounds.keep
    needed = consumers_needs(store, state, bounds)
    below = dict(enumerate(ends))
    if bounds.before is not None:
        below = _checked(store.url, bounds.before, ends)
    elif keep is None:
        retention = bounds.retention or retention_of(state, store.url)
        if retention.mode.has_value:
            keep = retention
        elif retention.mode is RetentionMode.FOREVER or not needed:
            return {}
    if keep is not None:
        below = _outside(state, keep, now_us)
    for offsets in needed.values():
        below = {number: min(limit, offsets[number]) for number, limit in below.items()}
    if WRITER_SETTING in state.commit.settings and any(below.values()):
        below = {0: min(below[0], _rebuilt_from(store, state))}
    return below


def consumers_needs(
    store: Store, state: QueueState, bounds: TrimBounds
) -> dict[str, tuple[int, ...]]:
    """Return by name the offsets from which a trim leaves each consumer the records.

    None of them counts where the retention is a time or a size and nothing else is asked for.

    Raises:
        CorruptLog, UnsupportedVersion: what one of them needs cannot be read.
    """
    if bounds.retention_decides:
        retention = bounds.retention or retention_of(state, store.url)
        if retention.mode.has_value:
            return {}
    return effects_saved(store, state)


def _rebuilt_from(store: Store, state: QueueState) -> int:
    """Return the offset from which on a rebuild at the end of a queue of one writer reads.

    The rows of the newest commit with frames are among them: they say how far the writer has come.

    Raises:
        CorruptLog: the newest rows are damaged or missing.
    """
    commits = InlineCommits.of(state, store.url)
    if not len(commits.numbers):
        return state.commit.ends[0]
    rows = commits.row(len(commits.numbers) - 1)
    name = commit_object_name(rows.number)
    data = store.read(name, rows.byte, rows.bytes)
    *_, last = frames_of(rows._asdict(), data)
    if isinstance(last, Bad):
        raise last.refusal(f"{store.url}/{name}")
    return min(rows.first_offset, last.header.end_offset - last.header.extent_records)


def trimmed(
    log: ReferenceLog, state: QueueState, bounds: TrimBounds, clock_us: Callable[[], int]
) -> QueueState:
    """Take away whole segments, and return the queue after it; raises as :func:`limits`."""

    def commit(now: QueueState) -> ReferenceObject | None:
        # Looked at anew for each try: whoever has registered since comes first.
        now_us = clock_us()
        return trim_after(now, limits(log.store, now, bounds, now_us), now_us)

    return log.add(log.refresh(state), commit)


def _checked(path: str, before: Mapping[int, int], ends: tuple[int, ...]) -> dict[int, int]:
    for number, offset in before.items():
        if not 0 <= number < len(ends):
            raise OutOfRange(f"{path}: there is no partition {number}")
        if offset > ends[number]:
            raise OutOfRange(f"{path}: trim to {offset}, partition {number} ends at {ends[number]}")
    return dict(before)


def _outside(state: QueueState, keep: Retention, now_us: int) -> dict[int, int]:
    """Return by partition the end of its last segment that is older, or beyond the size; else 0."""
    live = state.live.sort_by([("partition", "ascending"), ("first_offset", "ascending")])
    partitions = live.column("partition").to_numpy()
    ends = live.column("first_offset").to_numpy() + live.column("records").to_numpy()
    if keep.mode is RetentionMode.TIME:
        goes = live.column("written_us").to_numpy() <= now_us - keep.value
    else:
        # Bytes behind a segment: those up to its partition's end, less those up to itself.
        upto = np.cumsum(live.column("bytes").to_numpy())
        last = np.searchsorted(partitions, partitions, side="right") - 1
        goes = upto[last] - upto >= keep.value
    below = dict.fromkeys(range(len(state.commit.ends)), 0)
    for number in np.unique(partitions).tolist():
        mine = np.flatnonzero(partitions == number)
        stays = np.flatnonzero(~goes[mine])
        count = int(stays[0]) if len(stays) else len(mine)
        if count:
            below[number] = int(ends[mine[count - 1]])
    return below
