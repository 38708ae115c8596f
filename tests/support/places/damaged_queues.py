"""Queues for the inspector's tests: an operator's, and hands to damage copies of it."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

from cec_store import QueueOptions, Targets, open_queue
from cec_store.format.checksum import crc32c
from cec_store.format.frame import SEGMENT_HEADER_BYTES, FrameHeader, FrameType, decode_frame_header
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.windows import CountWindow, TimeWindow
from cec_store.operators.inputs.sources import ArrowSource
from cec_store.operators.runner import Runner, record_schema
from cec_store.storage.local import LocalFolder
from cec_store.storage.names import manifest_name, segment_name

SEED = 20130101
FIELDS = dict(
    zip(
        FrameHeader._fields,
        (0, 4, 5, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 108, 112, 116, 120,
         124, 128),
        strict=False,
    )
)  # fmt: skip
WIDTHS = {"type": 1, "codec": 1, "flags": 2, "stream_id": 4, "chain_crc": 4,
          "record_count": 4, "open_windows": 4}  # fmt: skip


def trips(rows: int, seed: int = SEED) -> pa.Table:
    """Rows of a few keys whose times rise, as a stream's do."""
    random = np.random.default_rng(seed)
    times = np.cumsum(random.integers(1, 400, rows)) * 1_000_000
    return pa.table(
        {
            "at": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "plane": pa.array([f"N{key}" for key in random.zipf(1.6, rows) % 40], pa.string()),
            "delay": pa.array(random.integers(-20, 200, rows)),
        }
    )


def make_operator_queue(
    path: Path,
    rows: int = 1500,
    *,
    window: CountWindow | TimeWindow | None = None,
    policy: Targets | None = None,
    step_rows: int = 40,
    segment_bytes: int = 7_000,
    seed: int = SEED,
    reopen_at: int | None = None,
) -> Path:
    """What an aggregate leaves; with ``reopen_at`` in two lives."""
    table = trips(rows, seed)
    options = QueueOptions(segment_bytes=segment_bytes)
    for stop in [rows] if reopen_at is None else [reopen_at, rows]:
        operator = Aggregate(
            group_by=["plane"],
            aggregates={"delay": ("avg", "delay"), "trips": ("count",)},
            window=window or CountWindow(8),
            input_schema=table.schema,
        )
        schema = record_schema(operator)
        with open_queue(path, "a", schema=schema, options=options) as queue:
            source = ArrowSource(table.slice(0, stop), "at")
            policy = policy or Targets(extent_factor=2.0, extent_floor=1, replay_rows=400)
            Runner(operator, [source], queue, policy, step_rows_max=step_rows).run()
    return path


def copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def hash_of(folder: Path) -> str:
    """Of all names, lengths and bytes below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path.relative_to(folder)} {path.is_dir()}".encode())
        digest.update(b"" if path.is_dir() else path.read_bytes())
    return digest.hexdigest()


def segment(folder: Path, number: int) -> Path:
    return folder / segment_name(number)


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.seg"))


def manifest(folder: Path) -> Path:
    (path,) = folder.glob(f"{manifest_name(0)[:9]}*")
    return path


def frames(path: Path) -> list[tuple[int, FrameHeader]]:
    """(byte, header) of each frame of a sound segment."""
    data, byte, found = path.read_bytes(), SEGMENT_HEADER_BYTES, []
    while byte < len(data):
        header = decode_frame_header(data, byte)
        found.append((byte, header))
        byte += header.frame_bytes
    return found


def batches(path: Path) -> list[tuple[int, FrameHeader]]:
    return [frame for frame in frames(path) if frame[1].type == FrameType.BATCH]


def flip(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 0x10
    path.write_bytes(data)


def patch_header(path: Path, byte: int, **values: int) -> None:
    """Change fields of a frame header and make its CRC right again."""
    data = bytearray(path.read_bytes())
    for name, value in values.items():
        at, width = byte + FIELDS[name], WIDTHS.get(name, 8)
        data[at : at + width] = (value % 2 ** (8 * width)).to_bytes(width, "little")
    data[byte + 124 : byte + 128] = crc32c(bytes(data[byte : byte + 124])).to_bytes(4, "little")
    path.write_bytes(data)


def patch_segment_header(path: Path, at: int, value: int, width: int = 8) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + width] = value.to_bytes(width, "little")
    data[124:128] = crc32c(bytes(data[:124])).to_bytes(4, "little")
    path.write_bytes(data)


def folder_of(path: Path) -> LocalFolder:
    return LocalFolder(path)
