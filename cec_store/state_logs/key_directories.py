"""Key directories: files beside a state log that say where the newest row of each key is.

docs/format.md §16. They are derived from the log, and only Spark's store makes an index of them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from cec_store.format.checksum import crc32c
from cec_store.log.frames import Frame
from cec_store.log.reader import LogReader
from cec_store.state_logs.versions import VersionReader
from cec_store.storage.folder import Folder

_NAME = re.compile(r"\d{20}-\d{20}\.(keys|live)")
_FOOTER = struct.Struct("<4sHHQIII")
_CRC_BYTES = 4
_MAGICS = {"keys": b"CECK", "live": b"CECL"}
_VERSION = 1
_END = struct.Struct("<QQQIQQQ")
_COUNT = struct.Struct("<I")
_KEY_FILE = struct.Struct("<QQII")
_TRIED = 2
"""Live files that a load looks at, newest first (KeyDirectories.scala)."""
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class DirectoryLead:
    """A key directory that leads to a version, and what a load by it reads."""

    name: str
    """Name of its live file."""
    version: int
    """Version at whose end it stands."""
    records: int
    """Records of the frames behind it."""
    stored_bytes: int
    """Bytes of its files, and of those frames."""
    raw_bytes: int
    """The same, with those frames decompressed."""


def directory_to(lineage: LogReader, extent: Sequence[Frame]) -> DirectoryLead | None:
    """Return the newest key directory from which a load goes on to this version.

    ``None`` where there is none that is whole, and in a queue. The bodies of its key files are not
    read.

    Args:
        lineage: the version; or a queue.
        extent: its frames, oldest first.
    """
    if not isinstance(lineage, VersionReader):
        return None
    folder = lineage.folder
    by_seq = {frame.header.seq: number for number, frame in enumerate(extent)}
    live = [name for name in folder.names() if _NAME.fullmatch(name) and name.endswith(".live")]
    live.sort(key=lambda name: name.partition("-")[2], reverse=True)
    for name in [name for name in live if int(name[21:41]) in by_seq][:_TRIED]:
        try:
            lead = _lead(lineage, extent[by_seq[int(name[21:41])] :], name)
        except FileNotFoundError:
            continue  # maintenance has made a newer one
        if lead is not None:
            return lead
    return None


def _lead(lineage: VersionReader, frames: Sequence[Frame], name: str) -> DirectoryLead | None:
    """The directory of this name, which has to stand at the end of the first of the frames."""
    folder, last = lineage.folder, frames[0]
    if problem_of(folder, name) is not None:
        return None
    size = folder.size(name)
    head = folder.read(name, 0, size - _FOOTER.size)
    segment_id, byte, seq, chain_crc, version, _, _ = _END.unpack_from(head)
    if (segment_id, byte, seq) != (*last.address, last.header.seq):
        return None
    if chain_crc != lineage.chain_crc_after(last):
        return None
    at = _END.size + _COUNT.size + _COUNT.unpack_from(head, _END.size)[0]
    for number in range(_COUNT.unpack_from(head, at)[0]):
        named = _KEY_FILE.unpack_from(head, at + _COUNT.size + number * _KEY_FILE.size)
        keys = f"{named[0]:020}-{named[1]:020}.keys"
        key_bytes = folder.size(keys)
        footer = folder.read(keys, max(0, key_bytes - _FOOTER.size), _FOOTER.size)
        if len(footer) < _FOOTER.size or _FOOTER.unpack(footer)[4:6] != named[2:]:
            return None
        size += key_bytes
    headers = [frame.header for frame in frames[1:]]
    return DirectoryLead(
        name=name,
        version=version,
        records=sum(header.record_count for header in headers),
        stored_bytes=size + sum(header.frame_bytes for header in headers),
        raw_bytes=size + sum(header.raw_bytes for header in headers),
    )


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
