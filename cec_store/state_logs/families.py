"""Column families of a state log: their names, and lists in chunks. docs/format.md §9.

A number belongs to one name along a branch of the log, and along another branch perhaps to another
name: two attempts at a version may meet new families in different orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cec_store.checkpoints.rebuild import extent_frames
from cec_store.errors import CecError
from cec_store.format.columns import Ints
from cec_store.format.schema import KEY, KIND, STATE
from cec_store.log.frames import Frame
from cec_store.state_logs.tree import StateTree
from cec_store.state_logs.versions import VersionReader

NAMES = 0
"""The family that names the others."""
DEFAULT = 1
DEFAULT_NAME = "default"
CHUNKS_OF = "\0"
"""First character of the name of a family of chunks; the name of the lists' family follows."""
CHUNK_NUMBER_BYTES = 4
"""Bytes at the end of a chunk's key: its number among the chunks of the list, big-endian."""
SAID_BYTES = 4
"""Bytes at the beginning of a chunk's value: the length that an older version had told already."""
_HEAD_BYTES = 8
_NO_LENGTH = bytes(4)


def is_head(values: pa.Array) -> pa.BooleanArray:
    """Return a flag a value of a list's own record: True if it counts chunks and is no list."""
    # A list may have 8 bytes as well, which begin with the length of its first value.
    return pc.and_(
        pc.equal(pc.binary_length(values), _HEAD_BYTES),
        pc.equal(pc.binary_slice(values, 0, len(_NO_LENGTH)), _NO_LENGTH),
    )


def chunk_counts(heads: pa.Array) -> Ints:
    """Return the numbers of chunks that heads count."""
    counts = np.frombuffer(b"".join(heads.to_pylist()), "<u4").reshape(-1, 2)[:, 1]
    return counts.astype(np.int64)


def names_in(rows: pa.Table | pa.RecordBatch) -> dict[int, str]:
    """Return the names of families by number, as far as these rows say them.

    Columns are ``family``, ``key`` and ``value``, which is null where a row is removed.
    """
    is_name = pc.equal(rows["family"], pa.scalar(NAMES, pa.uint16()))
    is_named = pc.and_(is_name, rows["value"].is_valid())
    named = zip(
        *(pc.filter(rows[name], is_named).to_pylist() for name in ("key", "value")), strict=True
    )
    # The empty name is of no family: its value is the highest number that was given up.
    names = {int.from_bytes(number, "little"): text_of(name) for name, number in named if name}
    return {DEFAULT: DEFAULT_NAME, **names}


def rows_in(records: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns ``family``, ``key`` and ``value`` of records of a state log."""
    (family, key), value = records.column(KEY).flatten(), records.column(STATE).flatten()[0]
    return pa.record_batch({"family": family, "key": key, "value": value})


def families_in(keys: pa.StructArray) -> set[int]:
    """Return the numbers of the families that these keys are of, but that of the names."""
    return {*pc.unique(keys.field("family")).to_pylist()} - {NAMES}


def text_of(name: bytes) -> str:
    """Return a family's name; bytes that are not UTF-8, as only damage has them, are escaped."""
    return name.decode("utf-8", "backslashreplace")


class FamilyNames:
    """Names of the families of one log, at any of its frames."""

    def __init__(self, tree: StateTree) -> None:
        self._tree = tree
        self._of_segment: dict[int, dict[int, str]] = {}
        """Known names by segment, each of which is a part of one branch."""
        self._read: set[tuple[int, int]] = set()
        """Segment and number of the commits that were asked."""
        self.problem: CecError | None = None
        """Reason that some commit could not be asked."""

    def at(self, segment_id: int, seq: int, records: pa.RecordBatch) -> Mapping[int, str]:
        """Return the names of the families of a frame's records, as far as the log says them.

        The names stand in the frame itself, in the extent of the version that it makes, or, if the
        family was removed there, in that of the version before.
        """
        known = self._of_segment.setdefault(segment_id, {DEFAULT: DEFAULT_NAME})
        rows = rows_in(records)
        known |= names_in(rows)
        needed = families_in(records.column(KEY))
        for commit in self._commits(segment_id, seq):
            if needed <= known.keys():
                break
            address = (commit.address.segment_id, commit.header.seq)
            if address not in self._read:
                self._read.add(address)
                known |= self._in_extent(commit)
        return known

    def _commits(self, segment_id: int, seq: int) -> Iterator[Frame]:
        """Yield the newest commit of the segment, the one of the frame, and the one before it."""
        try:
            commits = [*self._tree.segment(segment_id).commits]
            yield from commits[-1:]
            yield from [commit for commit in commits if commit.header.seq >= seq][:1]
            earlier = [commit for commit in commits if commit.header.seq < seq]
            base = earlier[-1] if earlier else self._tree.base(segment_id)
            if base is not None:
                yield base
        except CecError as error:
            self.problem = error

    def _in_extent(self, commit: Frame) -> dict[int, str]:
        names: dict[int, str] = {}
        try:
            for some in _names_of_frames(VersionReader(self._tree, commit), commit):
                names |= some
        except CecError as error:
            self.problem = error
        return names


def names_at(reader: VersionReader, last: Frame, needed: Set[int]) -> dict[int, str]:
    """Return the names of families at a version, those of ``needed`` if the log has them.

    ``last`` is the frame that ends the version. Its extent is read backward until all are known.

    Raises:
        CorruptLog, OutOfRange: a part of it is damaged or gone.
    """
    names = {DEFAULT: DEFAULT_NAME}
    for some in _names_of_frames(reader, last):
        # Newer frames come first, and what they say counts.
        names = some | names
        if needed <= names.keys():
            break
    return names


def _names_of_frames(reader: VersionReader, last: Frame) -> Iterator[dict[int, str]]:
    for frame in extent_frames(reader, last):
        records = reader.records(frame, backward=True, columns=[KIND, KEY, STATE])
        yield names_in(rows_in(records))
