"""The trees that a part of the proof is about, by what git calls them."""

from __future__ import annotations

import subprocess
from hashlib import sha256
from pathlib import Path

PRODUCT = ("cec_store", "connectors", "indexes")
"""What is installed. The last two stand behind links in the first, and have trees of their own."""
WRITTEN = ("PROOF.md", "PROOF.jsonl", "bench/RESULTS.md")
"""Files that parts write, so that a change of these is none of what was tried."""


def git(root: Path, *command: str) -> str:
    """Return what git prints.

    Raises:
        SystemExit: git refuses, with its message.
    """
    done = subprocess.run(["git", "-C", str(root), *command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


def tree(root: Path, paths: tuple[str, ...] = PRODUCT, commit: str = "HEAD") -> str:
    """Return twelve digits for the content of these paths at a commit.

    They are the beginning of `git rev-parse COMMIT:PATH COMMIT:PATH … | sha256sum`.
    """
    objects = git(root, "rev-parse", *(f"{commit}:{path}" for path in paths))
    return sha256(f"{objects}\n".encode()).hexdigest()[:12]


def changed(root: Path, paths: tuple[str, ...] = (".",)) -> list[str]:
    """Return files that git knows and that differ from the commit, but for those of WRITTEN."""
    left_out = [f":!{path}" for path in WRITTEN]
    lines = git(root, "status", "--porcelain", "--untracked-files=no", "--", *paths, *left_out)
    return [line.split(maxsplit=1)[1] for line in lines.splitlines()]
