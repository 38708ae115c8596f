"""The least that reading an extent takes: its bytes, decompressed and made record batches of.

With pyarrow alone: nothing is opened, checked or looked at.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pyarrow as pa

from bench.harness.rounds import stopwatch
from cec_store.checkpoints.rebuild import extent_frames
from cec_store.format.frame import FRAME_HEADER_BYTES
from cec_store.log.reader import LogReader
from cec_store.storage.names import segment_name


@dataclass(frozen=True)
class Stretches:
    """The frames of an extent, newest first."""

    places: list[tuple[str, int, int]]
    """A file, and a range of its bytes."""
    raw_sizes: list[int]
    schema: pa.Schema


def extent_stretches(log: LogReader) -> Stretches:
    """Return the stretches that a rebuild at the log's end reads."""
    last = log.last()
    frames = list(extent_frames(log, last)) if last else []
    places = [
        (
            f"{log.folder.path}/{segment_name(frame.address.segment_id)}",
            frame.address.byte,
            frame.header.frame_bytes,
        )
        for frame in frames
    ]
    sizes = [frame.header.raw_bytes for frame in frames]
    return Stretches(places, sizes, log.schema().arrow)


def bare_read_time(frames: Stretches) -> float:
    """Seconds."""
    codec = pa.Codec("zstd")
    with stopwatch() as taken:
        batches = []
        opened = frames.places[0][0]
        descriptor = os.open(opened, os.O_RDONLY)
        for (name, byte, size), raw_size in zip(frames.places, frames.raw_sizes, strict=True):
            if name != opened:
                os.close(descriptor)
                descriptor, opened = os.open(name, os.O_RDONLY), name
            body = pa.py_buffer(os.pread(descriptor, size, byte)).slice(FRAME_HEADER_BYTES)
            raw = codec.decompress(body, decompressed_size=raw_size)
            batches.append(pa.ipc.read_record_batch(raw, frames.schema))
        os.close(descriptor)
    return taken[0]
