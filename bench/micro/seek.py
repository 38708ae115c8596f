"""Seeks from a timestamp to the first record: by the index, and by a scan of frame headers.

Queues of small frames (10 records), timestamps that rise on the whole and jitter. The index's time
holds everything: looking the frame up, proving it against the log, reading and decoding it, and
slicing off what lies before the moment. The scan is given less to do: it stops at the frame. Files
are in the page cache for both. Also what the index costs: following, opening (its whole file is
checked), bytes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.harness.rounds import Options, Timing, options, race, report, stopwatch
from cec_store.format.bodies import encode_body
from cec_store.format.records import data_records, to_timestamps
from cec_store.format.schema import TIMESTAMP, RecordSchema
from cec_store.indexes.timestamp import TimestampIndex
from cec_store.log.chain import Chain
from cec_store.log.creating import create
from cec_store.log.frames import Frame, FrameMarks
from cec_store.log.writer import ClockAndEntropy
from cec_store.storage.local import LocalFolder

TARGETS = {
    "seek_vs_scan": "at least 20",
    "seek_vs_scan_100k": "at least 200",
}
FRAMES, FRAMES_MANY = 10_000, 100_000
FRAME_ROWS = 10
FRAME_US = 1_000
SEGMENT_BYTES = 64 << 20
SEEKS, SCANS = 400, 10
SCHEMA = RecordSchema(pa.schema([("number", pa.int64())]))


def build(path: Path, frames: int) -> float:
    """Write the queue without the pipeline in between; seconds."""
    jitter = np.random.default_rng(7)
    rows = frames * FRAME_ROWS
    times = np.arange(rows) // FRAME_ROWS * FRAME_US
    times += jitter.integers(-2 * FRAME_US, 2 * FRAME_US, rows)
    numbers = pa.record_batch({"number": np.arange(rows)})
    records = data_records(SCHEMA, numbers, to_timestamps(pa.array(times)))
    folder = LocalFolder(path)
    folder.make()
    with stopwatch() as taken:
        writer = create(folder, SCHEMA, ClockAndEntropy(lambda: time.time_ns() // 1000))
        for start in range(0, rows, FRAME_ROWS):
            writer.append(encode_body(records.slice(start, FRAME_ROWS), 1), FrameMarks())
            if writer.segment_bytes > SEGMENT_BYTES:
                writer.roll()
        writer.sync()
        writer.close()
    return taken[0]


def moments_within(frames: int) -> list[int]:
    """Spread evenly over the queue, so that a few of them are as far from its start as all are."""
    dice = random.Random(11)
    return [int((at + dice.random()) * frames * FRAME_US / SEEKS) for at in range(SEEKS)]


def first_record(chain: Chain, frame: Frame | None, moment_us: int) -> pa.RecordBatch:
    assert frame is not None
    records = chain.records(frame)
    late = records.column(TIMESTAMP).cast(pa.int64()).to_numpy() >= moment_us
    return records.slice(int(late.argmax()), 1)


def seek(chain: Chain, index: TimestampIndex, moments: Sequence[int]) -> float:
    with stopwatch() as taken:
        for moment_us in moments:
            first_record(chain, index.find_timestamp(moment_us, chain), moment_us)
    return taken[0] / len(moments)


def scan(chain: Chain, moments: Sequence[int]) -> float:
    with stopwatch() as taken:
        for moment_us in moments:
            chain.find_timestamp(moment_us)
    return taken[0] / len(moments)


def check(chain: Chain, index: TimestampIndex, moments: Sequence[int]) -> None:
    for moment_us in moments:
        place = index.find_timestamp(moment_us, chain)
        assert place is not None
        assert place == chain.find_timestamp(moment_us)


def measure(asked: Options, name: str, frames: int) -> tuple[dict[str, Timing], dict[str, float]]:
    path = asked.folder / name
    seconds = build(path, frames)
    chain = Chain(LocalFolder(path))
    with stopwatch() as followed:
        writer = TimestampIndex(chain, writable=True)
        writer.follow()
        writer.close()
    with stopwatch() as opened:
        index = TimestampIndex(chain)
    assert index.stored_frames == frames
    moments = moments_within(frames)
    few = moments[SEEKS // SCANS // 2 :: SEEKS // SCANS]
    check(chain, index, few)
    random.Random(13).shuffle(moments)
    contestants = {
        "index": lambda: seek(chain, index, moments),
        "scan": lambda: scan(chain, few),
    }
    timings = race(contestants, asked.rounds)
    assert index.dropped == 0
    index_bytes = sum(file.stat().st_size for file in (path / "index").iterdir())
    index.close()
    costs = {"follow_s": followed[0], "open_ms": opened[0] * 1e3, "bytes": float(index_bytes)}
    print(f"{frames:,} frames, {chain.end.offset:,} records (written in {seconds:.1f} s)")
    print(f"  index to first record  best {timings['index'].best * 1e6:10,.0f} µs,"
          f" median {timings['index'].median * 1e6:10,.0f} µs")  # fmt: skip
    print(f"  scan of headers        best {timings['scan'].best * 1e6:10,.0f} µs,"
          f" median {timings['scan'].median * 1e6:10,.0f} µs")  # fmt: skip
    print(f"  followed in {followed[0] * 1e3:,.0f} ms, opened in {opened[0] * 1e3:.1f} ms,"
          f" {index_bytes / frames:.0f} bytes a frame")  # fmt: skip
    return timings, costs


def main() -> None:
    with options(__doc__) as asked:
        # Quick and full differ in rounds only: what is asked for is a size.
        few, _ = measure(asked, "few", asked.size(FRAMES, FRAMES))
        many, costs = measure(asked, "many", asked.size(FRAMES_MANY, FRAMES_MANY))
        report(
            {
                "seek_vs_scan": few["scan"].best / few["index"].best,
                "seek_vs_scan_100k": many["scan"].best / many["index"].best,
                "seek_us": few["index"].best * 1e6,
                "seek_us_100k": many["index"].best * 1e6,
                "scan_ms": few["scan"].best * 1e3,
                "scan_ms_100k": many["scan"].best * 1e3,
                "follow_s_100k": costs["follow_s"],
                "open_ms_100k": costs["open_ms"],
                "index_mb_100k": costs["bytes"] / 1e6,
            }
        )


if __name__ == "__main__":
    main()
