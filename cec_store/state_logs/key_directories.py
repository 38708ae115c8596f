"""Key directories: files beside a state log that say where the newest row of each key is.

docs/format.md §16. They are derived from the log, and only Spark's store reads what is in them.
"""

from __future__ import annotations

import re
import struct

from cec_store.format.checksum import crc32c
from cec_store.storage.folder import Folder

_NAME = re.compile(r"\d{20}-\d{20}\.keys")
_HEADER = struct.Struct("<4sHHQII")
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_MAGIC, _VERSION = b"CECK", 1
_PIECE_BYTES = 1 << 20


def is_key_directory(name: str) -> bool:
    """Return True if a file of this name is a key directory."""
    return _NAME.fullmatch(name) is not None


def problem_of(folder: Folder, name: str) -> str | None:
    """Return what is wrong with a key directory; None where its checksums are right.

    Raises:
        FileNotFoundError: there is no such file.
    """
    size = folder.size(name)
    header = folder.read(name, 0, _HEADER.size)
    if len(header) < _HEADER.size:
        return "the file is cut short"
    magic, version, reserved, head_bytes, head_crc, header_crc = _HEADER.unpack(header)
    if magic != _MAGIC or crc32c(header[: -_CRC.size]) != header_crc:
        return "its header fails its checksum"
    if (version, reserved) != (_VERSION, 0):
        return f"version {version} of key directories is unknown to this release"
    at = _HEADER.size + head_bytes
    if at > size or _crc_of(folder, name, _HEADER.size, head_bytes) != head_crc:
        return "its head fails its checksum"
    while at < size:
        length_bytes = folder.read(name, at, _LENGTH.size)
        length = _LENGTH.unpack(length_bytes)[0] if len(length_bytes) == _LENGTH.size else size
        at += _LENGTH.size
        if at + length + _CRC.size > size:
            return "the file is cut short"
        if _CRC.pack(_crc_of(folder, name, at, length)) != folder.read(name, at + length, 4):
            return "an index fails its checksum"
        at += length + _CRC.size
    return None


def _crc_of(folder: Folder, name: str, start: int, length: int) -> int:
    crc = 0
    for at in range(start, start + length, _PIECE_BYTES):
        crc = crc32c(folder.read(name, at, min(_PIECE_BYTES, start + length - at)), crc)
    return crc
