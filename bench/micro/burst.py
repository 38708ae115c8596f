"""A burst: ten million windows close in one step.

A tumbling window over ten million keys, one row each, all of them open; one row of a later window
then closes them all. That step is one for whoever reads the queue, and many frames on the disk.

whole    the operator takes it all: how long the burst takes until it is durable, and how long the
         operator ever stands still for one step
killed   the same, killed half way through the burst, with frames of it in the file: no reader may
         be shown any of them
gone on  the operator is started again over what that left: it loads its windows and closes them

Each is a process of its own, whose peak memory counts. In the end every window must have left one
result in both queues. With --quick there are fewer windows, as `burst_windows` says.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.harness.queues import output_queue
from bench.harness.rounds import ONE_TURN, Options, options, report

TARGETS = {
    "burst_windows": "at least 1e7",
    "burst_rss_gb": "at most 6",
    "burst_lost": "at most 0",
    "burst_pause_s": "report",
    "burst_open_again_s": "report",
}
WINDOWS = 10_000_000
QUICK_WINDOWS = 1_000_000
_RUN = Path(__file__).with_name("burst_run.py")


@dataclass(frozen=True)
class Done:
    """End of one process and the figures it gave."""

    rss_gb: float
    status: int
    figures: dict[str, float]


def peak_gb(resident_kib: int) -> float:
    """Return GB, of 10^9 bytes, for KiB, in which Linux counts."""
    return resident_kib * 1024 / 1e9


def child(path: Path, windows: int, dies_at: int = 0) -> Done:
    command = [sys.executable, str(_RUN), str(path), str(windows), str(dies_at)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    is_killed = process.returncode == -signal.SIGKILL
    if process.returncode and not (dies_at and is_killed):
        raise SystemExit(f"{command} ended with {process.returncode}")
    if dies_at and not is_killed:
        raise SystemExit("it should have died in the burst, and did not")
    figures = {} if is_killed else json.loads(lines[-1])
    return Done(peak_gb(usage.ru_maxrss), process.returncode, figures)


def burst_frames(path: Path) -> int:
    """Return how many frames the last step has."""
    with output_queue(path) as queue:
        chain = queue.chain()
        frame, count = chain.last(), 0
        while frame is not None and (count == 0 or frame.header.continues):
            count += 1
            frame = chain.before(frame)
    return count


def shown_results(path: Path) -> int:
    """Windows that readers take for closed."""
    with output_queue(path) as queue:
        return sum(batch.num_rows for batch in queue.replay())


def wrong_windows(path: Path, windows: int) -> int:
    """Windows without a result, and those with more than one."""
    results = np.zeros(windows, np.int64)
    with output_queue(path) as queue:
        for batch in queue.replay():
            results += np.bincount(batch.column("total").to_numpy(), minlength=windows)
    return int((results != 1).sum())


def main(asked: Options) -> None:
    windows = asked.size(full=WINDOWS, quick=QUICK_WINDOWS)
    whole_path, killed_path = asked.folder / "whole", asked.folder / "killed"
    whole = child(whole_path, windows)
    frames = burst_frames(whole_path)
    print(
        f"{windows:,} windows closed in {frames} frames, durable after "
        f"{whole.figures['burst_s']:.2f} s; longest other step "
        f"{whole.figures['other_pause_s']:.2f} s; peak {whole.rss_gb:.2f} GB"
    )
    killed = child(killed_path, windows, dies_at=max(1, frames // 2))
    shown = shown_results(killed_path)
    print(f"killed at frame {frames // 2} of them: readers are shown {shown} results")
    gone_on = child(killed_path, windows)
    print(
        f"gone on: {gone_on.figures['opened_s']:.2f} s to load, the burst "
        f"{gone_on.figures['burst_s']:.2f} s; peak {gone_on.rss_gb:.2f} GB"
    )
    lost = wrong_windows(whole_path, windows) + wrong_windows(killed_path, windows)
    figures = {
        "burst_windows": windows,
        "burst_rss_gb": max(run.rss_gb for run in (whole, killed, gone_on)),
        "burst_lost": lost + shown,
        "burst_frames": frames,
        "burst_s": whole.figures["burst_s"],
        "burst_pause_s": max(whole.figures["pause_s"], gone_on.figures["pause_s"]),
        "burst_open_again_s": gone_on.figures["opened_s"],
    }
    report(figures)


if __name__ == "__main__":
    with options(__doc__, ONE_TURN) as asked:
        main(asked)
