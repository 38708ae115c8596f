"""CRC-32C: both ways of computing it agree, with the standard and with each other."""

from __future__ import annotations

import random

import google_crc32c
import pyarrow as pa
import pytest

from cec_store.format import checksum
from cec_store.format.checksum import crc32c, crc32c_portable

# RFC 3720, B.4, and the check value of the Castagnoli polynomial.
STANDARD = [
    (b"123456789", 0xE3069283),
    (b"", 0),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


def test_the_hardware_version_is_the_one_in_use() -> None:
    assert google_crc32c.implementation == "c"
    assert crc32c is not crc32c_portable
    assert checksum.google_crc32c is google_crc32c


@pytest.mark.parametrize(("data", "crc"), STANDARD)
def test_standard_values(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc
    assert crc32c_portable(data) == crc


def test_both_agree_on_random_data_however_it_is_cut() -> None:
    generator = random.Random(20130101)
    for size in [*range(70), 4095, 4096, 4097, 100_003]:
        data = generator.randbytes(size)
        start = generator.getrandbits(32)
        whole = crc32c(data, start)
        assert whole == crc32c_portable(data, start)
        cut = generator.randint(0, size)
        assert crc32c(data[cut:], crc32c(data[:cut], start)) == whole
        assert crc32c_portable(data[cut:], crc32c(data[:cut], start)) == whole


def test_both_take_what_the_log_hands_them() -> None:
    for data in (b"123456789", pa.py_buffer(b"x123456789").slice(1)):
        assert crc32c(data) == crc32c_portable(data) == 0xE3069283


def test_every_error_of_three_bits_is_found() -> None:
    data = bytearray(random.Random(7).randbytes(40))
    whole = crc32c(bytes(data))
    bits = range(0, len(data) * 8, 13)
    tried = 0
    for a in bits:
        for b in range(a, len(data) * 8, 17):
            for c in range(b, len(data) * 8, 19):
                flipped = bytearray(data)
                for bit in (a, b, c):
                    flipped[bit // 8] ^= 1 << bit % 8
                assert (crc32c(bytes(flipped)) == whole) == (flipped == data)
                tried += 1
    assert tried > 500
