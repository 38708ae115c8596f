"""MurmurHash3 (x86, 32 bits) of many values at once, as Spark has it.

Spark hashes the columns of a row one after the other, each with the hash so far as its seed, and of
text and bytes the last one to three bytes otherwise than MurmurHash3 does.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cec_store.format.columns import Ints, bytes_of

Hashes = NDArray[np.uint32]
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_FIVE, _ADDED = np.uint32(5), np.uint32(0xE6546B64)
_MIX1, _MIX2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)


def hash_ints(values: NDArray[np.generic], seeds: Hashes) -> Hashes:
    """Return the hash of each value of 32 bits; all arrays are of shape (values,)."""
    return _finished(_mixed(seeds, values.view(np.uint32)), np.uint32(4))


def hash_longs(values: NDArray[np.generic], seeds: Hashes) -> Hashes:
    """Return the hash of each value of 64 bits."""
    words = np.ascontiguousarray(values).view(np.uint64)
    low = (words & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    high = (words >> np.uint64(32)).astype(np.uint32)
    return _finished(_mixed(_mixed(seeds, low), high), np.uint32(8))


def hash_bytes(values: pa.BinaryArray, seeds: Hashes) -> Hashes:
    """Return the MurmurHash3 of each value's bytes (Spark's ``hashUnsafeBytes2``)."""
    held, ends = bytes_of(values)
    starts, lengths = ends[:-1], np.diff(ends)
    hashes = _of_words(held, starts, lengths, seeds)
    tails = np.zeros(len(lengths), np.uint32)
    for byte in range(3):
        rows = np.flatnonzero(lengths % 4 > byte)
        at = starts[rows] + (lengths[rows] // 4) * 4 + byte
        tails[rows] |= held[at].astype(np.uint32) << np.uint32(8 * byte)
    return _finished(hashes ^ _scrambled(tails), lengths.astype(np.uint32))


def hash_text(values: pa.LargeBinaryArray, seeds: Hashes) -> Hashes:
    """Return the hash of each value as Spark hashes a column of text or bytes.

    Of the bytes behind the last four each is mixed by itself, as a signed number
    (``hashUnsafeBytes``).
    """
    held, ends = bytes_of(values)
    starts, lengths = ends[:-1], np.diff(ends)
    hashes = _of_words(held, starts, lengths, seeds)
    for byte in range(3):
        rows = np.flatnonzero(lengths % 4 > byte)
        at = starts[rows] + (lengths[rows] // 4) * 4 + byte
        signed = held[at].view(np.int8).astype(np.int32).view(np.uint32)
        hashes[rows] = _mixed(hashes[rows], signed)
    return _finished(hashes, lengths.astype(np.uint32))


def _of_words(held: NDArray[np.uint8], starts: Ints, lengths: Ints, seeds: Hashes) -> Hashes:
    hashes = seeds.copy()
    for word in range(int(lengths.max(initial=0)) // 4):
        rows = np.flatnonzero(lengths >= 4 * (word + 1))
        at = starts[rows] + 4 * word
        words = held[at[:, None] + np.arange(4)].view("<u4")[:, 0]
        hashes[rows] = _mixed(hashes[rows], words)
    return hashes


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    with np.errstate(over="ignore"):
        return _turned(hashes ^ _scrambled(words), 13) * _FIVE + _ADDED


def _scrambled(words: Hashes) -> Hashes:
    with np.errstate(over="ignore"):
        return _turned(words * _C1, 15) * _C2


def _turned(words: Hashes, bits: int) -> Hashes:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _finished(hashes: Hashes, lengths: Hashes | np.uint32) -> Hashes:
    with np.errstate(over="ignore"):
        hashes = hashes ^ lengths
        hashes = (hashes ^ (hashes >> np.uint32(16))) * _MIX1
        hashes = (hashes ^ (hashes >> np.uint32(13))) * _MIX2
        return hashes ^ (hashes >> np.uint32(16))
