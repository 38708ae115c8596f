"""CRC-32C (Castagnoli): crcmod always, the hardware version where ``google-crc32c`` is installed.

It finds every 1-, 2- and 3-bit error in up to 256 MiB, four times the largest frame.
"""

from __future__ import annotations

from collections.abc import Callable

import crcmod.predefined

crc32c_portable: Callable[..., int] = crcmod.predefined.mkPredefinedCrcFun("crc-32c")
"""Takes what :func:`crc32c` takes."""

try:
    import google_crc32c
except ImportError:
    crc32c = crc32c_portable
else:

    def crc32c(data: bytes, crc: int = 0) -> int:
        """CRC-32C of ``data``, continuing from ``crc``."""
        extended: int = google_crc32c.extend(crc, data)
        return extended


def with_crc(data: bytes) -> bytes:
    """Return these bytes with the last four replaced by the CRC of those before."""
    covered = data[:-4]
    return covered + crc32c(covered).to_bytes(4, "little")


def crc_is_right(data: bytes) -> bool:
    """Return whether the last four bytes are the CRC of those before."""
    return crc32c(data[:-4]) == int.from_bytes(data[-4:], "little")
