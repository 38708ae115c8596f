"""Facts that figures were measured on: machine, disk, commit and versions."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("cec-store", "numpy", "pyarrow", "zstandard", "google-crc32c", "lmdb", "pyspark")
MEASURING = (".", ":!bench/RESULTS.md", ":!bench/papers/*.json", ":!docs")
"""Paths that a measurement depends on: all but those that it is written to."""
ROOT = Path(__file__).resolve().parents[2]


def describe(folder: Path) -> dict[str, str]:
    """Facts by name; ``folder`` stands on the disk that was written to."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "processor": f"{_processor()}, {os.cpu_count()} cores, {memory_gb:.0f} GB",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "system": f"{platform.system()} {platform.release()}",
        "file system": _file_system(folder),
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
    }


def _commit() -> str:
    head = _git("rev-parse", "--short=12", "HEAD")
    if head is None:
        return "not a repository"
    is_dirty = bool(_git("status", "--porcelain", "--untracked-files=no", "--", *MEASURING))
    return head + (" with changes" if is_dirty else "")


def _git(*command: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *command], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _file_system(folder: Path) -> str:
    """The type of the mount that holds the folder: the longest mount point that leads to it."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return sys.platform
    resolved = folder.resolve()
    holders = [mount for mount in mounts if resolved.is_relative_to(mount[1])]
    return max(holders, key=lambda mount: len(mount[1]))[2] if holders else "unknown"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
