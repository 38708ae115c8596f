"""Costs of opening a queue and of following it, however long its newest segment is.

`open_reads_per_gb`: MB read of a queue's own files to open it, to read or to append, where its
newest segment has 1 GB; a quick run measures two smaller ones and draws the line through them.
`follow_vs_frames`: exponent of what a live follower costs over the frames it has followed; 1 is a
cost that stays the same for each.
`load_small_commits_ratio`: time to load a Spark state after many commits of ten rows, over that
after one commit of as many rows; left out where there is no Spark, and below a scale of 1.
`help_cpu_ms`: processor time of `cec-store --help`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.harness.queues import output_queue
from bench.harness.rounds import Options, options, race, report, stopwatch
from bench.micro.help_cost import help_cpu_ms
from bench.micro.small_commits import load_small_commits_ratio
from cec_store import QueueOptions, open_queue
from cec_store.storage.local import LocalFolder

TARGETS = {
    "open_reads_per_gb": "at most 1",
    "follow_vs_frames": "at most 1.1",
    "load_small_commits_ratio": "at most 3",
    "help_cpu_ms": "at most 300",
}
SEGMENT_MB, SEGMENT_MB_QUICK = 1_000, 64
FRAME_BYTES = 512 << 10
SHORTER = 8
"""The shorter of two segments is so many times shorter."""
FOLLOWED, FOLLOWED_QUICK = 4_000, 1_000
LONGER = 4
"""The longer of two followers reads so many times the frames."""
SCHEMA = pa.schema([("number", pa.int64())])


class CountingFolder(LocalFolder):
    """Counts the bytes that are read of a queue's files, besides those of its index."""

    read_bytes = 0

    def read(self, name: str, byte: int, size: int) -> bytes:
        data = super().read(name, byte, size)
        self.read_bytes += len(data)
        return data


def build(path: Path, size_bytes: int) -> int:
    """A queue of one segment; returns its bytes."""
    noise = np.random.default_rng(3)
    roomy = QueueOptions(segment_bytes=4 << 30)
    with open_queue(path, "a", schema=SCHEMA, options=roomy) as queue:
        for number in range(math.ceil(size_bytes / FRAME_BYTES)):
            values = noise.integers(-(2**63), 2**63, FRAME_BYTES // 8)
            queue.append(pa.record_batch([values], names=["number"]))
            if number % 8 == 7:
                queue.sync()
    return max(path.glob("*.seg")).stat().st_size


def opening_reads(path: Path) -> int:
    """Bytes read by the costlier way to open it."""
    reads = []
    for mode in ("r", "a"):
        folder = CountingFolder(path)
        with closing(open_queue(folder, mode)):
            reads.append(folder.read_bytes)
    return max(reads)


def measure_opening(asked: Options) -> dict[str, float]:
    size_bytes = asked.size(SEGMENT_MB, SEGMENT_MB_QUICK) * 1_000_000
    sizes = []
    for name, wanted_bytes in (("short", size_bytes // SHORTER), ("long", size_bytes)):
        actual = build(asked.folder / name, wanted_bytes)
        with stopwatch() as taken:
            read = opening_reads(asked.folder / name)
        sizes.append((actual, read))
        print(
            f"a newest segment of {actual / 1e6:,.1f} MB: {read / 1e3:,.1f} kB read to open it "
            f"({taken[0] * 1e3:,.1f} ms for reading and appending)"
        )
    (short, short_read), (long, long_read) = sizes
    slope = (long_read - short_read) / (long - short)
    at_1_gb = long_read + max(0.0, slope) * max(0.0, 1e9 - long)
    return {"open_reads_per_gb": at_1_gb / 1e6}


def follow(path: Path, frames: int) -> float:
    """Seconds that a follower takes for so many frames, each of which it waits for."""
    batch = pa.record_batch([[1, 2, 3]], names=["number"])
    total = 0.0
    with open_queue(path, "x", schema=SCHEMA) as writer, output_queue(path) as reader:
        replay = reader.replay(follow=True)
        for _ in range(frames):
            writer.append(batch, sync=True)
            with stopwatch() as taken:
                rows = next(replay)
            total += taken[0]
            assert rows.num_rows == 3
    return total


def measure_following(asked: Options) -> dict[str, float]:
    few = asked.size(FOLLOWED, FOLLOWED_QUICK)
    many = LONGER * few
    turns = iter(range(1_000_000))
    contestants: dict[str, Callable[[], float]] = {
        "few": lambda: follow(asked.folder / f"follow-{next(turns)}", few),
        "many": lambda: follow(asked.folder / f"follow-{next(turns)}", many),
    }
    timings = race(contestants, asked.rounds)
    costs = timings["few"].best, timings["many"].best
    exponent = math.log(costs[1] / costs[0]) / math.log(LONGER)
    for frames, cost in zip((few, many), costs, strict=True):
        print(f"followed {frames:,} frames: {cost / frames * 1e6:,.0f} µs a frame")
    return {"follow_vs_frames": exponent, "follow_us": costs[1] / many * 1e6}


def measure_loading(asked: Options) -> dict[str, float]:
    if find_spec("pyspark") is None or asked.scale < 1:
        print(
            "no Spark, or too few commits to show more than the start of a JVM: nothing is loaded"
        )
        return {}
    ratio = load_small_commits_ratio(asked.folder / "state", asked.quick)
    print(f"a state of many small commits: {ratio:.2f} times the time of one commit's")
    return {"load_small_commits_ratio": ratio}


def measure_help(_: Options) -> dict[str, float]:
    cost_ms = help_cpu_ms()
    print(f"cec-store --help: {cost_ms:.0f} ms of processor time")
    return {"help_cpu_ms": cost_ms}


MEASURES: tuple[Callable[[Options], dict[str, float]], ...] = (
    measure_opening, measure_following, measure_loading, measure_help,
)  # fmt: skip
"""Each prints what it found, for people, and returns its figures."""


def main() -> None:
    with options(__doc__, turns=(3, 3)) as asked:
        figures: dict[str, float] = {}
        for measure in MEASURES:
            figures |= measure(asked)
        report(figures)


if __name__ == "__main__":
    main()
