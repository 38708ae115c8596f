"""The checksums that Hadoop's local file system keeps hidden beside each file: `.NAME.crc`."""

from __future__ import annotations

import zlib

from cec_store.storage.folder import Folder
from cec_store.storage.trees import checksums_of

_HEADER = b"crc\0"
_CRC_BYTES = 4
_READ_PIECES = 1 << 12


def hadoop_mismatch(folder: Folder, name: str) -> tuple[int, str] | None:
    """The first byte of the first piece that its checksum does not fit, and why.

    ``None`` also where no checksums are there.

    Raises:
        FileNotFoundError: the file is gone.
    """
    stored = checksums_of(folder, name)
    if not stored:
        return None
    if not stored.startswith(_HEADER) or len(stored) < 8:
        return 0, "its hidden file of checksums is not one of Hadoop's"
    piece, sums = int.from_bytes(stored[4:8], "big"), stored[8:]
    size = folder.size(name)
    pieces = -(-size // piece) if piece else 0
    if not piece or len(sums) != pieces * _CRC_BYTES:
        return 0, "its hidden file of checksums is for a file of another length"
    for start in range(0, pieces, _READ_PIECES):
        data = memoryview(
            folder.read(name, start * piece, min(_READ_PIECES * piece, size - start * piece))
        )
        for number in range(start, min(start + _READ_PIECES, pieces)):
            at = (number - start) * piece
            due = int.from_bytes(sums[_CRC_BYTES * number : _CRC_BYTES * (number + 1)], "big")
            if zlib.crc32(data[at : at + piece]) != due:
                return number * piece, "it does not fit Hadoop's checksums beside it"
    return None
