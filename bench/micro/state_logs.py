"""Makes a state log of any size as docs/format.md §9 has it, as Spark's provider would grow it.

count and sum by key: all keys in the first version, then versions that put a number of random keys
and renew the oldest footprints until the extent is within twice the open windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.bodies import encode_blocks
from cec_store.format.checksum import crc32c
from cec_store.format.frame import (
    COUNTED,
    NONE,
    RECORD_STREAM,
    Codec,
    FrameHeader,
    FrameType,
    SegmentHeader,
)
from cec_store.format.schema import KEY, STATE, STATE_SCHEMA, TIMESTAMP_TYPE, RecordKind
from cec_store.log.segment import SegmentWriter
from cec_store.storage.local import LocalFolder

Ints = NDArray[np.int64]
_START_US = 1_700_000_000_000_000
_SEGMENT_BYTES = 64 << 20
_KEY_BYTES, _VALUE_BYTES = 17, 25
"""A version byte, the null bits, and one number, or two: UnsafeRows."""
_LOG_ID = bytes(15) + b"\1"


@dataclass
class _Place:
    """Place of the next frame."""

    version: int = 0
    seq: int = 0
    offset: int = 0
    link: tuple[int, int] = (NONE, 0)
    """Segment and byte of the last frame with records."""


class StateLogMaker:
    """One provider instance that never dies."""

    def __init__(self, path: Path, keys: int, seed: int = 1) -> None:
        self._folder = LocalFolder(path)
        self._folder.make()
        self._random = np.random.default_rng(seed)
        self._counts = np.zeros(keys, np.int64)
        self._sums = np.zeros(keys, np.int64)
        self._footprints = np.full(keys, -1, np.int64)
        self._at = _Place()
        self._segment: SegmentWriter | None = None
        self.bytes = self.records = 0

    def put(self, updates: int) -> None:
        """One more version: so many random keys, or all of them in the first."""
        keys = len(self._counts)
        is_first = self._at.version == 0
        chosen = np.arange(keys) if is_first else self._random.choice(keys, updates, replace=False)
        self._counts[chosen] += 1
        self._sums[chosen] += self._random.integers(0, 1 << 40, len(chosen))
        end = self._at.offset + len(chosen)
        self._footprints[chosen] = np.arange(self._at.offset, end)
        renewed = self._oldest(end, 2 * keys)
        self._footprints[renewed] = np.arange(end, end + len(renewed))
        kind = RecordKind.OPEN if is_first else RecordKind.CHECK
        self._commit(np.concatenate([chosen, renewed]), len(renewed), kind)

    def _oldest(self, end: int, target: int) -> Ints:
        """The fewest of the oldest footprints that bring the extent to its target."""
        due = np.flatnonzero(self._footprints < end + len(self._footprints) - target)
        due = due[np.argsort(self._footprints[due])]
        extents = end + np.arange(len(due)) - self._footprints[due]
        return due[: int((extents > target).sum())]

    def _commit(self, rows: Ints, renewed: int, kind: RecordKind) -> None:
        at = self._at
        stored, raw_bytes = self._body(rows, renewed, kind)
        if self._segment is None or self._segment.bytes >= _SEGMENT_BYTES:
            self._begin()
        end = at.offset + len(rows)
        self._append(
            FrameType.BATCH, stored, at.version + 1, raw_bytes=raw_bytes,
            codec=Codec.BLOCKS, record_count=len(rows),
            min_timestamp_us=self._now_us, max_timestamp_us=self._now_us,
            open_windows=len(self._counts),
            extent_records=end - int(self._footprints.min()),
        )  # fmt: skip
        at.version, at.seq, at.offset = at.version + 1, at.seq + 1, end
        self.records += len(rows)

    @property
    def _now_us(self) -> int:
        return _START_US + self._at.version * 1_000_000

    def _body(self, rows: Ints, renewed: int, kind: RecordKind) -> tuple[bytes, int]:
        count = len(rows)
        keys = np.zeros((count, _KEY_BYTES), np.uint8)
        keys[:, 9:] = rows.astype("<i8").view(np.uint8).reshape(count, 8)
        values = np.zeros((count, _VALUE_BYTES), np.uint8)
        values[:, 9:17] = self._counts[rows].astype("<i8").view(np.uint8).reshape(count, 8)
        values[:, 17:] = self._sums[rows].astype("<i8").view(np.uint8).reshape(count, 8)
        is_renewed = np.arange(count) >= count - renewed
        key = [pa.array(np.ones(count, np.uint16)), _binary(keys)]
        state = [_binary(values), pa.array(is_renewed)]
        schema = STATE_SCHEMA.arrow
        columns = {
            KEY: pa.StructArray.from_arrays(key, fields=list(schema.field(KEY).type)),
            STATE: pa.StructArray.from_arrays(state, fields=list(schema.field(STATE).type)),
            "_kind": pa.array(np.full(count, kind, np.uint8)),
            "_timestamp": pa.array(np.full(count, self._now_us)).cast(TIMESTAMP_TYPE),
            "_input_0": pa.array(np.full(count, self._at.version + 1)),
        }
        records = pa.RecordBatch.from_arrays([columns[n] for n in schema.names], schema=schema)
        body = encode_blocks(records, level=1)
        return body.stored, body.raw_bytes

    def _begin(self) -> None:
        before, at = self._segment, self._at
        last = before.header if before else None
        header = SegmentHeader(
            epoch=0, log_id=_LOG_ID, segment_id=(last.segment_id if last else 0) + (1 << 32),
            salt=int(self._random.integers(1 << 62)), first_seq=at.seq,
            prev_segment=last.segment_id if last else NONE,
            prev_bytes=before.bytes if before else 0, prev_salt=last.salt if last else 0,
            prev_chain=before.running_crc if before else 0, created_us=self._now_us,
        )  # fmt: skip
        self.close()
        self._segment = SegmentWriter(self._folder, header)
        self._append(FrameType.SCHEMA, STATE_SCHEMA.encode(), at.version)

    def _append(self, kind: FrameType, body: bytes, upto: int, **fields: int) -> None:
        assert self._segment is not None
        at = self._at
        fields = {"raw_bytes": len(body), **fields}
        header = FrameHeader(
            type=kind, stream_id=RECORD_STREAM, chain_crc=self._segment.running_crc, seq=at.seq,
            first_offset=at.offset, flags=COUNTED if kind == FrameType.BATCH else 0,
            prev_segment=at.link[0], prev_byte=at.link[1], salt=self._segment.header.salt,
            input_upto=upto, body_bytes=len(body), body_crc=crc32c(body), **fields,
        ).encode()  # fmt: skip
        byte = self._segment.append(header, body)
        if kind == FrameType.BATCH:
            at.link = (self._segment.header.segment_id, byte)
        self.bytes += len(header) + len(body)

    def close(self) -> None:
        """Everything is written."""
        if self._segment is not None:
            self._segment.close()


def _binary(rows: NDArray[np.uint8]) -> pa.Array:
    count, size = rows.shape
    ends = pa.py_buffer((np.arange(count + 1) * size).astype("<i4"))
    return pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(rows.tobytes())])


def make_state_log(path: Path, total_bytes: int, keys: int, updates: int) -> StateLogMaker:
    """A log of about so many bytes."""
    maker = StateLogMaker(path, keys)
    while maker.bytes < total_bytes:
        maker.put(updates)
    maker.close()
    return maker
