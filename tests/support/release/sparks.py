"""The Sparks that a release has a jar for, and their distributions on this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from cec_store.connectors.spark.setup.compiler import Spark, find_spark

SPARKS = ("4.3.0", "4.2.1", "4.1.4", "4.0.5")
"""The pinned Spark, and the newest release of each minor before it."""
PINNED = SPARKS[0]


def distribution(version: str, folder: Path) -> Spark:
    """Return a Spark with its jars; the package is fetched into `folder` where it is not there.

    Its requirements are left out, because only the jars are compiled against.

    Raises:
        SystemExit: pip has failed; its message stands above.
    """
    home = folder / version / "pyspark"
    if not home.is_dir() and (installed := find_spec("pyspark")) and installed.origin:
        own = Path(installed.origin).parent
        if find_spark({"SPARK_HOME": str(own)}).version == version:
            return find_spark({"SPARK_HOME": str(own)})
    if not home.is_dir():
        print(f"fetching Spark {version}: 400 MB", flush=True)
        unfinished = folder / f"{version}.part"
        shutil.rmtree(unfinished, ignore_errors=True)
        command = [
            sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--no-deps", "--no-compile", "--target", str(unfinished), f"pyspark=={version}",
        ]  # fmt: skip
        if subprocess.run(command).returncode:
            raise SystemExit(f"Spark {version} could not be fetched")
        # Renamed when it is whole, so that an interrupted fetch is not taken for a Spark.
        unfinished.rename(folder / version)
    return find_spark({"SPARK_HOME": str(home)})
