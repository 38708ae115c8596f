"""Rows of the index as values and bytes, without I/O. docs/timestamp-index.md has their meaning.

Keys are big-endian and order-preserving. Every value ends with a CRC-32C over the log's id, the
row's kind, its key and the value, so that no row passes for another one's or another log's.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from cec_store.format.checksum import crc32c
from cec_store.values import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US

VERSION = 1
NOTHING_REACHED = MIN_TIMESTAMP_US - 1
"""The largest timestamp before the first frame: below every timestamp."""
COVERAGE_KEY = b"about"
_KEY = Struct(">Q")
_FRAME = Struct("<QQQI")
assert _FRAME.size == 28
_TIMESTAMP = Struct("<QQQIq")
assert _TIMESTAMP.size == 36
_COVERAGE = Struct("<IQQQQIq")
assert _COVERAGE.size == 48
_CRC_BYTES = 4

Row = tuple[bytes, bytes]
"""Key and value."""


class BadIndex(Exception):
    """The index cannot be used; the message says why. Never raised out of this folder."""


class UnwritableIndex(BadIndex):
    """No index can be written here; what there is may still be sound."""


class FrameEntry(NamedTuple):
    """Row of ``frames``, under its ``seq``: where a frame stands, and which frame it is."""

    seq: int
    segment_id: int
    byte: int
    first_offset: int
    header_crc: int

    def encode(self, log_id: bytes) -> Row:
        """Return the row's key and its value, sealed with the log's id."""
        key = seq_key(self.seq)
        return key, _seal(log_id, b"frame", key, _FRAME.pack(*self[1:]))

    @classmethod
    def decode(cls, row: Row, log_id: bytes) -> FrameEntry:
        """Raises :class:`BadIndex` where the checksum or the size is wrong."""
        body = _unseal(log_id, b"frame", row, _FRAME)
        return cls(_number(row[0]), *_FRAME.unpack(body))


class TimestampEntry(NamedTuple):
    """Row of ``timestamps``, under ``upto_us``: the frame that answers ``from_us … upto_us``.

    Its largest timestamp is ``upto_us``, and that of every frame before it is below ``from_us``.
    """

    upto_us: int
    seq: int
    segment_id: int
    byte: int
    header_crc: int
    from_us: int

    def encode(self, log_id: bytes) -> Row:
        """Return the row's key and its value, sealed with the log's id."""
        key = timestamp_key(self.upto_us)
        return key, _seal(log_id, b"reach", key, _TIMESTAMP.pack(*self[1:]))

    @classmethod
    def decode(cls, row: Row, log_id: bytes) -> TimestampEntry:
        """Raises :class:`BadIndex` where the checksum or the size is wrong."""
        body = _unseal(log_id, b"reach", row, _TIMESTAMP)
        return cls(_number(row[0]) + MIN_TIMESTAMP_US, *_TIMESTAMP.unpack(body))


class Coverage(NamedTuple):
    """The row ``about``: the index covers the log up to and with frame ``last``."""

    last: FrameEntry
    reached_us: int
    """Largest timestamp up to there."""

    def encode(self, log_id: bytes) -> bytes:
        """Return the value of the row, sealed with the log's id."""
        body = _COVERAGE.pack(VERSION, *self.last, self.reached_us)
        return _seal(log_id, b"about", COVERAGE_KEY, body)

    @classmethod
    def decode(cls, value: bytes | None, log_id: bytes) -> Coverage:
        """Raises :class:`BadIndex`: damaged, of another log or of another version."""
        if value is None:
            raise BadIndex("the index does not say what it covers")
        fields = _COVERAGE.unpack(_unseal(log_id, b"about", (COVERAGE_KEY, value), _COVERAGE))
        if fields[0] != VERSION:
            raise BadIndex(f"index version {fields[0]}, not {VERSION}")
        return cls(FrameEntry(*fields[1:6]), fields[6])


def seq_key(seq: int) -> bytes:
    """Sorts as the numbers do."""
    return _KEY.pack(seq)


def timestamp_key(timestamp_us: int) -> bytes:
    """Sorts as the timestamps do; what does not fit in 64 bits counts as the nearest that does."""
    clamped = min(max(timestamp_us, MIN_TIMESTAMP_US), MAX_TIMESTAMP_US)
    return _KEY.pack(clamped - MIN_TIMESTAMP_US)


def _number(key: bytes) -> int:
    if len(key) != _KEY.size:
        raise BadIndex(f"a key of {len(key)} bytes in the index")
    return int(_KEY.unpack(key)[0])


def _seal(log_id: bytes, kind: bytes, key: bytes, body: bytes) -> bytes:
    return body + crc32c(log_id + kind + key + body).to_bytes(_CRC_BYTES, "little")


def _unseal(log_id: bytes, kind: bytes, row: Row, layout: Struct) -> bytes:
    key, value = row
    body = value[:-_CRC_BYTES]
    if len(body) != layout.size or _seal(log_id, kind, key, body) != value:
        raise BadIndex(f"the index's {kind.decode()} row {key.hex()} fails its checksum")
    return body
