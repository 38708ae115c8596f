"""Processor time of `cec-store --help`, which imports no verb: what any command costs at least."""

from __future__ import annotations

import resource
import subprocess
import sys

HELP = "import sys; sys.argv[1:] = ['--help']; from cec_store.cli import main; main()"


def help_cpu_ms(runs: int = 5) -> float:
    """The least of some runs, user and system time together."""
    times_s = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", HELP], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return round(min(times_s) * 1000, 1)


if __name__ == "__main__":
    print(f'{{"help_cpu_ms": {help_cpu_ms()}}}')
