"""State of a queue after a commit by reference: its segments, by the commits that name them.

docs/format.md §11. Values only; `reference_log` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.format.by_reference.commit_body import SEGMENT_COLUMNS
from cec_store.format.by_reference.commits import (
    SINCE_EVERY,
    ReferenceCommit,
    ReferenceObject,
    Since,
    floor_of,
    since_base,
)
from cec_store.ledger.ages import uptime_us

_CHUNKS_MAX = 64
"""Each commit adds one to the table; joining them copies it."""
_ADDED, _REMOVED_AT = "added", "removed_at"
_LIVE = SEGMENT_COLUMNS.append(pa.field(_ADDED, pa.int64()))
_GONE = _LIVE.append(pa.field(_REMOVED_AT, pa.int64()))


class Look:
    """The moment at which a state was last seen to be the newest."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Take the present moment: it is the newest now."""
        self._at_us = uptime_us()

    @property
    def age_us(self) -> int:
        """Microseconds since then, by a clock that goes on while the machine is suspended."""
        return uptime_us() - self._at_us


@dataclass(frozen=True)
class QueueState:
    """A queue after commit ``number``."""

    number: int
    log_id: bytes
    commit: ReferenceCommit
    live: pa.Table
    """Segments that count, in the order of their commits; ``added``: the commit that they came by,
    or one behind it that says it."""
    gone: pa.Table
    """Segments taken away since the last commit that says all; ``removed_at``: the commit that did
    it."""
    salts: Mapping[int, int]
    """Salts by number: of this commit and of those since which the next ones say it."""
    look: Look = field(default_factory=Look, compare=False)

    @property
    def floor(self) -> int:
        """Number of the last commit that says all there is; those before it may be deleted."""
        return floor_of(self.number)

    @property
    def salt(self) -> int:
        """Salt of commit ``number``, by which it is known again."""
        return self.salts[self.number]

    def files(self) -> set[str]:
        """Return the names of all objects that count, or were taken away lately."""
        return {name for part in (self.live, self.gone) for name in part["file"].to_pylist()}

    def segments_of(self, partition: int) -> pa.Table:
        """Return the live segments of a partition in the order of their offsets.

        Those without records stand before the one whose records follow, in the order of their
        files: of a queue of one writer that of its commits.
        """
        numbers, segments = self._by_partition
        first, end = np.searchsorted(numbers, [partition, partition + 1])
        return segments.slice(first, end - first)

    @cached_property
    def _by_partition(self) -> tuple[np.typing.NDArray[np.int32], pa.Table]:
        names = ("partition", "first_offset", "records", "file")
        keys = [(name, "ascending") for name in names]
        segments = self.live.sort_by(keys)
        return segments.column("partition").to_numpy(), segments

    @classmethod
    def of(cls, parts: Sequence[ReferenceObject]) -> QueueState:
        """Build the state from commit 0, or one that says all, and those after it.

        Raises:
            ValueError: one takes away a segment that is not there.
        """
        first = parts[0]
        state = cls(
            first.number, first.log_id, first.commit, _LIVE.empty_table(), _GONE.empty_table(), {}
        )
        for part in parts:
            state = state.after(part)
        return state

    def after(self, part: ReferenceObject) -> QueueState:
        """The state after the next commit, or after several :meth:`.ReferenceObject.at_once`.

        Raises:
            ValueError: it takes away a segment that is not there.
        """
        is_removed = part.segments.column("removed")
        added = pa.Table.from_batches([part.segments.filter(pc.invert(is_removed))])
        live = pa.concat_tables([self.live, _with(added, _ADDED, part.number)])
        if live.column(0).num_chunks > _CHUNKS_MAX:
            live = live.combine_chunks()
        gone = self.gone
        if not part.number % SINCE_EVERY[-1]:
            gone = _GONE.empty_table()  # whoever looks further back takes the commit that says all
        if pc.any(is_removed).as_py():
            taken = part.segments.filter(is_removed)
            is_taken = _is_in(live, taken)
            if int(is_taken.sum()) != taken.num_rows:
                raise ValueError(f"number {part.number} takes away what is not there")
            left = live.filter(pa.array(is_taken))
            gone = pa.concat_tables([gone, _with(left, _REMOVED_AT, part.number)])
            live = live.filter(pa.array(~is_taken))
        bases = {part.number - part.number % step for step in (1, *SINCE_EVERY[1:])}
        known = {**self.salts, part.number: part.salt}
        salts = {number: salt for number, salt in known.items() if number in bases}
        return QueueState(part.number, part.log_id, part.commit, live, gone, salts)

    def has_all(self, segments: pa.Table) -> bool:
        """Return True if all of these segments still count."""
        count = int(_is_in(self.live, segments).sum())
        return count == int(segments.num_rows)

    def since(self) -> Since | None:
        """Return what came since an earlier commit, where commit ``number`` says it."""
        base = since_base(self.number)
        if base is None:
            return None
        if not base:
            return Since(None, _one_batch(self.live.select(SEGMENT_COLUMNS.names)))
        # What came and went since is not in what is behind the base either.
        is_since = pc.greater(self.gone.column(_REMOVED_AT), base)
        is_older = pc.less_equal(self.gone.column(_ADDED), base)
        gone = self.gone.filter(pc.and_(is_since, is_older)).select(SEGMENT_COLUMNS.names)
        is_removed = pa.array(np.ones(gone.num_rows, np.bool_))
        gone = gone.set_column(gone.num_columns - 1, SEGMENT_COLUMNS.field("removed"), is_removed)
        came = self.live.filter(pc.greater(self.live.column(_ADDED), base)).select(
            SEGMENT_COLUMNS.names
        )
        segments = _one_batch(pa.concat_tables([came, gone]))
        return Since((base, self.salts[base]), segments)


def _with(segments: pa.Table, column: str, number: int) -> pa.Table:
    return segments.append_column(column, pa.array(np.full(segments.num_rows, number, np.int64)))


def _one_batch(segments: pa.Table) -> pa.RecordBatch:
    batches = segments.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], SEGMENT_COLUMNS)


def _is_in(segments: pa.Table, taken: pa.RecordBatch | pa.Table) -> np.typing.NDArray[np.bool_]:
    """Return True for each of the segments that is among ``taken``, by file and byte."""
    maybe = pc.is_in(segments.column("file"), value_set=taken.column("file").unique())
    is_taken: np.typing.NDArray[np.bool_] = maybe.to_numpy().copy()
    places = set(zip(taken["file"].to_pylist(), taken["byte"].to_pylist(), strict=True))
    rows = np.flatnonzero(is_taken)
    few = segments.select(["file", "byte"]).take(pa.array(rows))
    for row, file, byte in zip(
        rows.tolist(), few["file"].to_pylist(), few["byte"].to_pylist(), strict=True
    ):
        is_taken[row] = (file, byte) in places
    return is_taken
