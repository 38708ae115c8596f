"""Costs of the inspector on a state log of 2 GB, with an extent of 2,000,000 records.

The log is one of a million keys, which versions of 100,000 updates have grown, within an extent of
twice its keys. In turns, with the files in the page cache:

extent     `inspect_extent` as the command calls it: the figures and the oldest windows
read       reads the bytes of the extent's frames, decompresses them and makes record batches of
           them, with pyarrow alone
verify     `verify` as the command calls it
checksum   reads the files once, front to back, and takes the CRC-32C of what it reads

Memory is the largest that the commands take as processes of their own, the interpreter included.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.harness.rounds import Options, options, race, report, stopwatch
from bench.micro.bare_read import bare_read_time, extent_stretches
from bench.micro.state_logs import make_state_log
from cec_store.format.checksum import crc32c
from cec_store.inspector.measuring.extents import inspect_extent
from cec_store.inspector.verifying.log import verify
from cec_store.state_logs.state_log import StateLog
from cec_store.storage.local import LocalFolder

TARGETS = {
    "extent_vs_read": "at most 3",
    "verify_vs_read": "at most 2.5",
    "verify_mb_s": "report",
    "inspection_peak_mb": "at most 500",
}
_CHUNK_BYTES = 4 << 20


def checksum_time(path: Path) -> float:
    with stopwatch() as taken:
        for name in sorted(path.glob("*.seg")):
            with name.open("rb", buffering=0) as file:
                while chunk := file.read(_CHUNK_BYTES):
                    crc32c(chunk)
    return taken[0]


def timed(work: Callable[[], object]) -> Callable[[], float]:
    def turn() -> float:
        with stopwatch() as taken:
            work()
        return taken[0]

    return turn


_WITH_PEAK = """
import sys
from cec_store.cli import main
try:
    main()
finally:
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(line.split()[1], file=sys.stderr)
"""


def peak_mb(path: Path) -> float:
    """The larger one of the two commands' own peaks.

    A child's ``ru_maxrss`` begins with what its parent held when it was forked, so that it would
    measure this benchmark.
    """
    peaks_kb = []
    for verb in ("extent", "verify"):
        command = [sys.executable, "-c", _WITH_PEAK, verb, str(path), "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{verb} failed: {done.stderr}{done.stdout[-2000:]}")
        peaks_kb.append(int(done.stderr.split()[-1]))
    return max(peaks_kb) * 1024 / 1e6


def main(asked: Options) -> None:
    path = asked.folder / "log"
    total = asked.size(2_000_000_000, 120_000_000)
    made = make_state_log(path, total, asked.size(1_000_000, 100_000), asked.size(100_000, 20_000))
    folder = LocalFolder(path)
    verdict = verify(folder)
    if not verdict.is_sound:
        raise SystemExit(f"the log is damaged: {verdict.faults[:3]}")
    frames = extent_stretches(StateLog(folder).version_reader())
    results = race(
        {
            "extent": timed(lambda: inspect_extent(folder)),
            "read": lambda: bare_read_time(frames),
            "verify": timed(lambda: verify(folder, records=False)),
            "checksum": lambda: checksum_time(path),
        },
        asked.rounds,
    )
    print(f"{made.bytes / 1e9:.2f} GB, {made.records:,} records; seconds, best and median")
    for name, timing in results.items():
        print(f"{name:<10}{timing.best:>8.3f}{timing.median:>8.3f}")
    report(
        {
            "extent_vs_read": results["extent"].best / results["read"].best,
            "verify_vs_read": results["verify"].best / results["checksum"].best,
            "verify_mb_s": made.bytes / 1e6 / results["verify"].best,
            "inspection_peak_mb": peak_mb(path),
        }
    )


if __name__ == "__main__":
    with options(__doc__, turns=(5, 3), takes="half a minute") as asked:
        main(asked)
