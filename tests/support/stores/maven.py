"""Jars of others that tests need, from Maven, kept in the user's cache."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cec_store.connectors.spark.setup.environment import VARIABLES, cache_folder
from support.stores.needed import REQUIRED

_FETCH_S = 600


def jar(group: str, artifact: str, version: str) -> Path:
    """One jar without what it depends on; the test is skipped where it is not in the cache.

    With CEC_STORES=required in the environment it is fetched, and failing is a failure.
    """
    folder = cache_folder(VARIABLES) / "tests" / "maven"
    found = folder / f"{artifact}-{version}.jar"
    if found.exists():
        return found
    program = shutil.which("mvn")
    why = "there is no mvn" if REQUIRED else "it is fetched with CEC_STORES=required"
    if program is not None and REQUIRED:
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [
                program, "-q", "-B", "dependency:copy", f"-DoutputDirectory={folder}",
                f"-Dartifact={group}:{artifact}:{version}",
            ],
            capture_output=True, text=True, timeout=_FETCH_S,
        )  # fmt: skip
        if found.exists():
            return found
        why = f"mvn could not fetch it: {done.stdout[-500:]}"
    if REQUIRED:
        raise AssertionError(f"{artifact} {version}: {why}")
    pytest.skip(f"{artifact} {version}: {why}", allow_module_level=True)
