"""Key directories as docs/format.md §16 has them, made of a log and of a plain dict of footprints.

Only for tests: Spark's store writes them in Scala. Nothing here is the code that is under test.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import zstandard

from cec_store.format.checksum import crc32c
from cec_store.inspector.verifying.log import verify
from cec_store.log.frames import Frame
from cec_store.state_logs.state_log import StateLog
from cec_store.state_logs.versions import VersionReader
from cec_store.storage.folder import Folder
from cec_store.storage.local import LocalFolder
from support.places.state_logs import Commit

ZONE_ROWS = 256
_ROWS_OF_ONE_RUN = 8
"""A run of more rows is written as two."""
_MASK = 0xFFFFFFFF


SortedRow = tuple[bytes, int, int]
"""A key, the number of its frame in the file, and its row there."""


@dataclass
class SaidFrame:
    """What both files say of a frame; a test may change it."""

    place: list[int]
    """Segment, byte, bytes of the body, raw bytes, codec."""
    rows: int
    first_offset: int
    frame_bytes: int
    widths: list[int]
    sizes: list[int]
    families: list[int]
    keys: list[bytes]
    hashes: list[int]
    live: set[int]
    least_times_us: list[int]
    timed_rows: int = 0


@dataclass
class Said:
    """What a directory says."""

    end: list[int]
    """Segment, byte, seq, chain CRC, version, N, end offset."""
    times_of: bytes
    frames: list[SaidFrame]
    in_order: tuple[int, ...]
    """Families whose keys stand in sorted runs."""
    runs: Callable[[list[SortedRow]], list[SortedRow]] = list
    """Changes a sorted run before it is written."""


def write_directory(folder: Folder, made: Commit, *args: Any, **options: Any) -> str:
    """Write the directory of a version; takes what :func:`directory_files` does.

    Returns the name of its live file.
    """
    files = directory_files(folder, made, *args, **options)
    for name, data in files.items():
        Path(folder.path, name).write_bytes(data)
    return next(name for name in files if name.endswith(".live"))


def directory_files(
    folder: Folder,
    made: Commit,
    change: Callable[[Said], None] = lambda said: None,
    *,
    times_of: str = "",
    time_us: Callable[[dict[str, Any]], int] = lambda row: 0,
    earlier: Sequence[Commit] = (),
    in_order: Sequence[int] = (),
) -> dict[str, bytes]:
    """Return the files of a version's directory by name, as a hand has changed what they say.

    Args:
        made: the version.
        times_of: name of the time that rows have.
        time_us: when a row of columns ``family``, ``key`` and ``value`` is due.
        earlier: versions, ascending, that had a directory before: each gives a key file.
        in_order: families whose keys stand in sorted runs, too.
    """
    lineage = StateLog(folder).version_reader(made.version)
    of_first = (earlier or [made])[0]
    low, start = of_first.offset - of_first.extent_records, made.offset - made.extent_records
    frames = [
        _said_of(lineage, made, frame, times_of, time_us)
        for frame in lineage.frames()
        if frame.header.end_offset > low
    ]
    extent = [frame for frame in frames if frame.first_offset + frame.rows > start]
    before = frames[: len(frames) - len(extent)]
    crc = lineage.chain_crc_after(lineage.last_frame)
    end = [made.segment_id, made.byte, made.seq - 1, crc, made.version, len(made.state)]
    said = Said([*end, made.offset], times_of.encode(), extent, tuple(in_order))
    change(said)
    files, named, low = {}, b"", 0
    for version in [*earlier, made]:
        of_file = [
            frame for frame in before + said.frames if low <= frame.first_offset < version.offset
        ]
        low = version.offset
        head, body = _key_file(of_file, said)
        numbers = (version.segment_id, version.seq - 1)
        files[f"{numbers[0]:020}-{numbers[1]:020}.keys"] = sealed(b"CECK", head, body)
        named += struct.pack("<QQII", *numbers, crc32c(head), crc32c(body))
    head = struct.pack("<QQQIQQQ", *said.end) + struct.pack("<I", len(said.times_of))
    head += said.times_of + struct.pack("<I", len(files)) + named
    head += struct.pack("<I", len(said.frames)) + b"".join(map(_live_part, said.frames))
    files[f"{made.segment_id:020}-{made.seq - 1:020}.live"] = sealed(b"CECL", head)
    return files


def verify_directories(root: Path) -> int:
    """Prove that key directories below a folder say what their logs say; returns how many logs."""
    logs = sorted({found.parent for found in root.rglob("*.live")})
    assert logs
    for log in logs:
        found = verify(LocalFolder(log), records=True, rebuilds=True)
        assert found.is_sound, found.faults
    return len(logs)


def sealed(magic: bytes, head: bytes, body: bytes = b"", version: int = 1) -> bytes:
    """The bytes of a file with this head and body."""
    footer = struct.pack("<4sHHQII", magic, version, 0, len(head), crc32c(head), crc32c(body))
    return body + head + footer + struct.pack("<I", crc32c(footer))


def murmur3(data: bytes) -> int:
    """MurmurHash3 of 32 bits with seed 0, a word after the other."""
    h = 0
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        h ^= _scrambled(int.from_bytes(data[at : at + 4], "little"))
        h = (((h << 13 | h >> 19) & _MASK) * 5 + 0xE6546B64) & _MASK
    h ^= _scrambled(int.from_bytes(data[whole:], "little")) ^ len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def _scrambled(word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    return ((word << 15 | word >> 17) & _MASK) * 0x1B873593 & _MASK


def _said_of(
    lineage: VersionReader,
    made: Commit,
    frame: Frame,
    times_of: str,
    time_us: Callable[[dict[str, Any]], int],
) -> SaidFrame:
    header = frame.header
    rows = _rows(lineage.records(frame))
    keys, values = [row["key"] for row in rows], [row["value"] or b"" for row in rows]
    first = header.first_offset
    live = {
        offset - first for offset in made.footprints.values() if 0 <= offset - first < len(rows)
    }
    times = [time_us(row) if n in live else 2**63 - 1 for n, row in enumerate(rows)]
    zones = [min(times[at : at + ZONE_ROWS]) for at in range(0, len(rows), ZONE_ROWS)]
    return SaidFrame(
        place=[*frame.address, header.body_bytes, header.raw_bytes, header.codec],
        rows=len(rows),
        first_offset=first,
        frame_bytes=header.frame_bytes,
        widths=[_width(keys), _width(values)],
        sizes=[sum(map(len, keys)), sum(map(len, values))],
        families=[row["family"] for row in rows],
        keys=keys,
        hashes=[murmur3(key) for key in keys],
        live=live,
        least_times_us=zones if times_of else [],
        timed_rows=len(rows) if times_of else 0,
    )


def _rows(records: pa.RecordBatch) -> list[dict[str, Any]]:
    keys, states = records.column("_key").to_pylist(), records.column("_state").to_pylist()
    return [
        {**key, "value": None if state is None else state["value"]}
        for key, state in zip(keys, states, strict=True)
    ]


def _width(parts: list[bytes]) -> int:
    lengths = set(map(len, parts))
    return lengths.pop() if len(lengths) == 1 else -1


def _key_file(frames: list[SaidFrame], said: Said) -> tuple[bytes, bytes]:
    head = struct.pack("<I", len(frames))
    for frame in frames:
        head += struct.pack("<QQIII", *frame.place)
        head += struct.pack("<IQQ", frame.rows, frame.first_offset, frame.frame_bytes)
        head += struct.pack("<iiII", *frame.widths, *frame.sizes)
        if set(frame.families) <= {1}:
            head += struct.pack("<I", 0)
        else:
            head += struct.pack(f"<I{frame.rows}H", 1, *frame.families)
    hashes = [each for frame in frames for each in frame.hashes]
    body = struct.pack(f"<{len(hashes)}I", *hashes)
    runs = []
    for family in said.in_order:
        rows = [
            (key, n, row)
            for n, frame in enumerate(frames)
            for row, key in enumerate(frame.keys)
            if frame.families[row] == family
        ]
        half = len(rows) if len(rows) < _ROWS_OF_ONE_RUN else len(rows) // 2
        for part in filter(None, (rows[:half], rows[half:])):
            head_of_run, blocks = _sorted_run(family, said.runs(sorted(part)))
            runs.append(head_of_run)
            body += blocks
    return head + struct.pack("<I", len(runs)) + b"".join(runs), body


def _sorted_run(family: int, rows: list[SortedRow]) -> tuple[bytes, bytes]:
    """What the head says of a run, and its blocks, of three rows each."""
    heads, body = b"", b""
    compressor = zstandard.ZstdCompressor(level=1, write_checksum=True)
    parts = [rows[at : at + 3] for at in range(0, len(rows), 3)]
    for part in parts:
        keys, frames, numbers = zip(*part, strict=True)
        raw = struct.pack(f"<{3 * len(part)}I", *frames, *numbers, *map(len, keys)) + b"".join(keys)
        stored = compressor.compress(raw)
        heads += struct.pack("<III", len(part), sum(map(len, keys)), len(stored))
        body += stored
    return struct.pack("<II", family, len(parts)) + heads, body


def _live_part(frame: SaidFrame) -> bytes:
    words = max(frame.live, default=-1) // 64 + 1
    bits = sum(1 << row for row in frame.live).to_bytes(words * 8, "little")
    times = frame.least_times_us
    return (
        struct.pack("<I", words) + bits + struct.pack("<II", frame.timed_rows, len(times))
        + struct.pack(f"<{len(times)}q", *times)
    )  # fmt: skip
