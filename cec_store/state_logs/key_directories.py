"""Key directories: files beside a state log that say where the newest row of each key is.

docs/format.md §16. A load by one reads them, and the frames behind it, instead of the extent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cec_store.errors import CorruptLog
from cec_store.log.frames import Frame
from cec_store.log.reader import LogReader
from cec_store.state_logs.directory_files import (
    is_live_file,
    read_live_file,
    seal_of,
    seq_of,
)
from cec_store.state_logs.versions import VersionReader

_TRIED = 4
"""Live files that a load looks at, newest first (KeyDirectories.scala)."""


@dataclass(frozen=True)
class DirectoryLead:
    """A key directory that leads to a version, and what a load by it reads."""

    files: tuple[str, ...]
    """Names: its live file, then its key files."""
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
    live = [name for name in folder.names() if is_live_file(name) and seq_of(name) in by_seq]
    for name in sorted(live, key=seq_of, reverse=True)[:_TRIED]:
        try:
            lead = _lead(lineage, extent[by_seq[seq_of(name)] :], name)
        except (CorruptLog, FileNotFoundError):
            continue  # a load passes it over; or maintenance has made a newer one
        if lead is not None:
            return lead
    return None


def _lead(lineage: VersionReader, frames: Sequence[Frame], name: str) -> DirectoryLead | None:
    """The directory of this name, which has to stand at the end of the first of the frames."""
    folder, last = lineage.folder, frames[0]
    live = read_live_file(folder, name)
    if (live.segment_id, live.byte, live.seq) != (*last.address, last.header.seq):
        return None
    if live.chain_crc != lineage.chain_crc_after(last):
        return None
    size = folder.size(name)
    for named in live.key_files:
        if not named.is_sealed_by(seal_of(folder, named.name)):
            return None
        size += folder.size(named.name)
    headers = [frame.header for frame in frames[1:]]
    return DirectoryLead(
        files=(name, *(named.name for named in live.key_files)),
        version=live.version,
        records=sum(header.record_count for header in headers),
        stored_bytes=size + sum(header.frame_bytes for header in headers),
        raw_bytes=size + sum(header.raw_bytes for header in headers),
    )
