"""The frames of a queue of one writer, whose rows are in commits. docs/format.md §13."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from cec_store.format.frame import NONE, FrameHeader
from cec_store.format.schema import RecordSchema
from cec_store.inspector.verifying.record_checks import RecordChecks


class OneWriterChecks:
    """Checks frames in the order of the commits; yields (kind of fault, what is wrong)."""

    def __init__(self, schema: RecordSchema, is_whole: bool) -> None:
        """``is_whole``: nothing is trimmed, so that the stream begins at 0."""
        self.records = RecordChecks(schema)
        self._seq = 0 if is_whole else None
        self._previous: tuple[int, int] | None = (NONE, 0) if is_whole else None
        self._in_step = False

    def lose(self, offset: int) -> None:
        """Frames below ``offset`` could not be read: the next one says where the stream stands."""
        self.records.forget(offset)
        self._seq = self._previous = None
        self._in_step = False

    def frame(
        self, number: int, byte: int, header: FrameHeader, offset: int
    ) -> Iterator[tuple[str, str]]:
        """Check the header of the next frame, of commit ``number``; ``offset`` is due there."""
        if self._seq not in (None, header.seq):
            yield "sequence", f"its number is {header.seq}, not {self._seq}"
        if header.first_offset != offset:
            yield "offsets", f"its first record is {header.first_offset}, not {offset}"
        link = (header.prev_segment, header.prev_byte)
        if self._previous not in (None, link):
            what = "it names byte {1} of commit {0} as the frame before".format(*link)
            if link[0] == NONE:
                what = "it names no frame before it, though there is one"
            yield "previous", what
        self._seq, self._previous = header.seq + 1, (number, byte)
        self._in_step = header.continues

    def end_commit(self) -> Iterator[tuple[str, str]]:
        """Check that the frames of a commit end with a step."""
        if self._in_step:
            yield "step", "the commit ends within its step"
            self._in_step = False

    def check(self, header: FrameHeader, batch: pa.RecordBatch) -> Iterator[tuple[str, str]]:
        """Check a frame's records: their kinds, inputs, timestamps, N and q."""
        yield from self.records.check(header, batch)
