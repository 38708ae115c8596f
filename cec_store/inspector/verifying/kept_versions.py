"""Versions of a state log that can be rebuilt, as far as headers show; looked at all at once.

What :mod:`cec_store.state_logs.versions` says of one version, for all of them: where each begins to
be needed, and how far back its segment and those that it builds on reach without a break.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cec_store.errors import CecError, CorruptLog
from cec_store.format.columns import Ints
from cec_store.inspector.damage.whole_segments import Batches
from cec_store.log.frames import Frame
from cec_store.state_logs.segments import StateSegment
from cec_store.state_logs.tree import StateTree

_NOTHING = np.iinfo(np.int64).max
_COLUMNS = {"version": "input_upto", "windows": "open_windows"}


class KeptVersions:
    """Every version of which a last frame is here, ascending."""

    def __init__(self, tree: StateTree) -> None:
        self._tree = tree
        self._reach: dict[int, int] = {}
        """Oldest record that can be read going back from each segment."""
        self._break: dict[int, CecError] = {}
        """Reason that nothing before that record can be, by segment."""
        self._bases: dict[int, tuple[int, int]] = {}
        """Segment that each one builds on, and how many bytes of it."""
        for segment_id in tree.ids:
            self._look_back(tree.segment(segment_id))
        versions = self._gather("version")
        # The attempt in the highest segment counts, and in it the last such frame.
        self.numbers, rows = np.unique(versions[::-1], return_index=True)
        rows = len(versions) - 1 - rows
        del versions
        self.segments = self._gather("segment")[rows]
        self._bytes = self._gather("byte")[rows]
        self._needed = self._gather("needed")[rows]
        self.windows = self._gather("windows")[rows]
        self._problems: dict[int, CecError] = {}
        self.is_whole = self._judge()

    def _gather(self, what: str) -> Ints:
        """One column at a time: there may be millions of versions."""
        parts = [_commits(self._tree.segment(segment_id), what) for segment_id in self._tree.ids]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _look_back(self, state_segment: StateSegment) -> None:
        segment_id, frames = state_segment.segment_id, state_segment.frames
        first = frames[0].header.first_offset if frames else _NOTHING
        self._reach[segment_id] = first
        try:
            base = self._tree.base(segment_id)
        except CecError as error:
            self._break[segment_id] = error
            return
        if base is None:
            what = "an extent of more records than there are"
            self._break[segment_id] = CorruptLog(state_segment.path, 0, what)
            return
        below = base.address.segment_id
        self._bases[segment_id] = (below, base.next_address.byte)
        self._reach[segment_id] = self._reach[below]
        self._break[segment_id] = self._break[below]

    def _judge(self) -> NDArray[np.bool_]:
        ids, index = np.unique(self.segments, return_inverse=True)
        reach = np.array([self._reach[int(segment_id)] for segment_id in ids], np.int64)
        is_whole: NDArray[np.bool_] = (
            self._needed >= reach[index] if len(ids) else np.empty(0, bool)
        )
        for row in np.flatnonzero(~is_whole):
            self._problems[int(self.numbers[row])] = self._break[int(self.segments[row])]
        # A later segment may have held the version that counts, and be damaged or gone.
        for segment_id in self._tree.ids:
            state_segment = self._tree.segment(segment_id)
            if state_segment.refusal is not None:
                newer = self.numbers > state_segment.newest_version
                hidden = newer & (self.segments < segment_id)
                self._refuse(is_whole, hidden, state_segment.error())
            lost = self._tree.missing_base(segment_id)
            if lost is not None and state_segment.schema is not None:
                built_on = state_segment.schema.input_upto
                hidden = (self.numbers <= built_on) & (self.segments < lost)
                try:
                    self._tree.reader(lost)
                except CecError as error:
                    self._refuse(is_whole, hidden, error)
        return is_whole

    def _refuse(
        self, is_whole: NDArray[np.bool_], hidden: NDArray[np.bool_], error: CecError
    ) -> None:
        for row in np.flatnonzero(hidden):
            self._problems[int(self.numbers[row])] = error
        is_whole[hidden] = False

    @property
    def whole(self) -> Ints:
        """Versions that can be rebuilt, ascending."""
        return self.numbers[self.is_whole]

    def problem(self, at: int | str) -> CecError | None:
        """Why a version, or a unique id, cannot be rebuilt.

        Raises:
            ValueError: not a unique id.
        """
        if isinstance(at, int):
            row = int(np.searchsorted(self.numbers, at))
            if row < len(self.numbers) and self.numbers[row] == at:
                return None if self.is_whole[row] else self._problems[at]
        try:
            frame = self._tree.find(at)
        except CecError as error:
            return error
        segment_id, header = frame.address.segment_id, frame.header
        is_reached = header.end_offset - header.extent_records >= self._reach[segment_id]
        return None if is_reached else self._break[segment_id]

    def frame(self, version: int) -> Frame:
        """The last frame of a version that is here."""
        row = int(np.searchsorted(self.numbers, version))
        frames = self._tree.segment(int(self.segments[row])).frames
        byte = int(self._bytes[row])
        if isinstance(frames, Batches):
            return frames[int(np.searchsorted(frames.starts, byte))]
        return next(frame for frame in frames if frame.address.byte == byte)

    def needing(self, segment_id: int, byte: int, end_offset: int) -> Ints:
        """Versions whose rebuild reads the frame at this byte, which ends with that offset."""
        builds = np.zeros(len(self.numbers), np.bool_)
        for top in np.unique(self.segments):
            here = self.segments == top
            if top == segment_id:
                builds |= here & (self._bytes >= byte)
            elif self._bytes_built_on(int(top), segment_id) > byte:
                builds |= here
        needing: Ints = self.numbers[builds & (self._needed < end_offset)]
        return needing

    def _bytes_built_on(self, top: int, segment_id: int) -> int:
        """Return how many bytes of a segment another one builds on, over however many between."""
        while top in self._bases:
            top, size = self._bases[top]
            if top == segment_id:
                return size
        return 0


def _commits(state_segment: StateSegment, what: str) -> Ints:
    """A number of each commit in a segment."""
    frames = state_segment.frames
    if isinstance(frames, Batches):
        rows = frames.is_counted
        if what == "segment":
            return np.full(int(rows.sum()), state_segment.segment_id, np.int64)
        if what == "byte":
            return frames.starts[rows]
        if what == "needed":
            end = frames.column("first_offset") + frames.column("record_count")
            return (end - frames.column("extent_records"))[rows]
        return frames.column(_COLUMNS[what])[rows]
    commits = [frame for frame in frames if frame.header.is_counted]
    numbers = {
        "version": [frame.header.input_upto for frame in commits],
        "segment": [state_segment.segment_id for _ in commits],
        "byte": [frame.address.byte for frame in commits],
        "needed": [f.header.end_offset - f.header.extent_records for f in commits],
        "windows": [frame.header.open_windows for frame in commits],
    }
    return np.array(numbers[what], np.int64)
