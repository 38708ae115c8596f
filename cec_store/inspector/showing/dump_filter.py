"""Select the records of a log by kind, place, time, version and key, whole columns at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import values_of
from cec_store.format.frame import FrameHeader
from cec_store.format.records import kinds_of
from cec_store.format.schema import TIMESTAMP, RecordKind, input_column
from cec_store.inspector.decoding.keys import KeyTest
from cec_store.values import MIN_TIMESTAMP_US


@dataclass(frozen=True)
class DumpFilter:
    """Selection of records; ``until`` is not included. Frames without records come along unless
    something is asked that they cannot answer."""

    kinds: frozenset[RecordKind] = frozenset(RecordKind)
    since_offset: int = 0
    until_offset: int | None = None
    since_us: int = MIN_TIMESTAMP_US
    until_us: int | None = None
    since_version: int = 0
    """Versions are those of a state log."""
    until_version: int | None = None
    key: KeyTest | None = None
    segment_id: int | None = None
    at: int | str | None = None
    """Version of a state log of which only what it builds on is shown."""
    records: bool = True
    """Show records, not only frames."""
    last: int | None = None
    """Number of records to show, the last ones; of frames, where records are not shown."""
    max_bytes: int | None = None
    """Look no further than so many bytes of frames."""

    @cached_property
    def is_everything(self) -> bool:
        """True if no test is set, so that all records of the frames looked at are selected."""
        return self == replace(
            DumpFilter(), segment_id=self.segment_id, at=self.at, records=self.records,
            last=self.last, max_bytes=self.max_bytes,
        )  # fmt: skip

    def may_hold(self, header: FrameHeader) -> bool:
        """Return True if a frame may have selected records, as far as its header says."""
        return (
            header.end_offset > self.since_offset
            and (self.until_offset is None or header.first_offset < self.until_offset)
            and header.max_timestamp_us >= self.since_us
            and (self.until_us is None or header.min_timestamp_us < self.until_us)
            and header.input_upto >= self.since_version
        )

    def rows(self, records: pa.RecordBatch, first_offset: int) -> NDArray[np.bool_]:
        """Return a flag for each of a frame's records: True if selected, apart from its key."""
        kinds = kinds_of(records)
        keep = np.ones(len(kinds), np.bool_)
        if self.kinds != frozenset(RecordKind):
            keep &= np.isin(kinds, sorted(self.kinds))
        offsets = first_offset + np.arange(len(kinds))
        keep &= offsets >= self.since_offset
        if self.until_offset is not None:
            keep &= offsets < self.until_offset
        if self.since_us != MIN_TIMESTAMP_US or self.until_us is not None:
            times = values_of(records.column(TIMESTAMP), "i8")
            keep &= times >= self.since_us
            if self.until_us is not None:
                keep &= times < self.until_us
        if self.since_version or self.until_version is not None:
            versions = values_of(records.column(input_column(0)), "i8")
            keep &= versions >= self.since_version
            if self.until_version is not None:
                keep &= versions < self.until_version
        return keep


def parse_kinds(text: str) -> Collection[RecordKind]:
    """``open,check`` and the like.

    Raises:
        ValueError: no such kind.
    """
    kinds = set()
    for name in text.split(","):
        try:
            kinds.add(RecordKind[name.strip().upper()])
        except KeyError:
            names = ", ".join(kind.name.lower() for kind in RecordKind)
            raise ValueError(f"{name.strip()!r} is no kind of record: {names}") from None
    return kinds
