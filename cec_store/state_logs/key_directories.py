"""Key directories: files beside a state log that say where the newest row of each key is.

docs/format.md §16. They are derived from the log, and only Spark's store reads what is in them.
"""

from __future__ import annotations

import re
import struct

from cec_store.format.checksum import crc32c
from cec_store.storage.folder import Folder

_NAME = re.compile(r"\d{20}-\d{20}\.(keys|live)")
_FOOTER = struct.Struct("<4sHHQIII")
_CRC_BYTES = 4
_MAGICS = {"keys": b"CECK", "live": b"CECL"}
_VERSION = 1
_PIECE_BYTES = 1 << 20


def is_of_key_directory(name: str) -> bool:
    """Return True if a file of this name is one of a key directory."""
    return _NAME.fullmatch(name) is not None


def problem_of(folder: Folder, name: str) -> str | None:
    """Return what is wrong with a file of a key directory; None where its checksums are right.

    Raises:
        FileNotFoundError: there is no such file.
    """
    size = folder.size(name)
    footer = folder.read(name, max(0, size - _FOOTER.size), _FOOTER.size)
    if len(footer) < _FOOTER.size:
        return "the file is cut short"
    magic, version, reserved, head_bytes, head_crc, body_crc, footer_crc = _FOOTER.unpack(footer)
    is_ours = magic == _MAGICS[name.rpartition(".")[2]]
    if not is_ours or crc32c(footer[:-_CRC_BYTES]) != footer_crc:
        return "its footer fails its checksum"
    if (version, reserved) != (_VERSION, 0):
        return f"version {version} of key directories is unknown to this release"
    body_bytes = size - _FOOTER.size - head_bytes
    if body_bytes < 0:
        return "the file is cut short"
    if _crc_of(folder, name, body_bytes, head_bytes) != head_crc:
        return "its head fails its checksum"
    if _crc_of(folder, name, 0, body_bytes) != body_crc:
        return "its body fails its checksum"
    return None


def _crc_of(folder: Folder, name: str, start: int, length: int) -> int:
    crc = 0
    for at in range(start, start + length, _PIECE_BYTES):
        crc = crc32c(folder.read(name, at, min(_PIECE_BYTES, start + length - at)), crc)
    return crc
