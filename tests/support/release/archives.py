"""Wheel and sdist of a checkout, and what has to be in them."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

PACKAGE = "cec_store"
_REPORT = ("page.html", "page.css", "page.js", "chart.umd.min.js", "chart.LICENSE.md")
SITE = ("site/index.html", "site/search/search_index.json", "site/assets/site.css")
_PAGES = ("README.md", "docs/index.md", "bench/RESULTS.md", "CHANGELOG.md", "PROOF.md")


def build(checkout: Path, into: Path, epoch_s: int) -> tuple[Path, Path]:
    """Build both with hatchling; files in them have the time of the commit.

    Returns:
        Paths of the wheel and of the sdist.

    Raises:
        SystemExit: hatchling has failed; its message stands above.
    """
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist"]
    command += ["-d", str(into)]
    variables = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch_s)}
    if subprocess.run(command, cwd=checkout, env=variables).returncode:
        raise SystemExit("wheel and sdist could not be built")
    [wheel] = into.glob("*.whl")
    [sdist] = into.glob("*.tar.gz")
    return wheel, sdist


def rebuilt(sdist: Path) -> set[str]:
    """Names in the wheel that pip builds of the sdist alone, in an environment of its own.

    Raises:
        SystemExit: pip has failed; its message stands above.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--no-cache-dir", "-w", folder, str(sdist)]
        if subprocess.run(command).returncode:
            raise SystemExit(f"no wheel can be built of {sdist.name}")
        [wheel] = Path(folder).glob("*.whl")
        return set(zipfile.ZipFile(wheel).namelist())


def committed(checkout: Path) -> set[str]:
    """Files of the package that are under version control, by their names in a wheel."""
    command = ["git", "-C", str(checkout), "ls-files", "-z", PACKAGE, "connectors", "indexes"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    links = {f"{PACKAGE}/{name}" for name in ("connectors", "indexes")}
    return {
        name if name.startswith(f"{PACKAGE}/") else f"{PACKAGE}/{name}"
        for name in names
        if name and name not in links
    }


def wheel_faults(names: Iterable[str], files: set[str], jars: Iterable[str]) -> list[str]:
    """Return what a wheel lacks, and what it has beside the package; ``names`` are all in it."""
    names = set(names)
    expected = files | {f"{PACKAGE}/report/{name}" for name in _REPORT}
    expected |= {f"{PACKAGE}/connectors/spark/jars/{name}" for name in jars}
    faults = [f"the wheel lacks {name}" for name in sorted(expected - names)]
    strange = {name for name in names if not name.startswith((f"{PACKAGE}/", f"{PACKAGE}-"))}
    faults += [f"the wheel has {name}, which is no part of the package" for name in sorted(strange)]
    carried = {name for name in names if name.endswith(".jar")} - expected
    return faults + [f"the wheel has {name}, a jar of no Spark here" for name in sorted(carried)]


def sdist_names(sdist: Path) -> set[str]:
    """Names in an sdist without its first folder, and without folders."""
    with tarfile.open(sdist) as archive:
        return {
            member.name.partition("/")[2] for member in archive.getmembers() if not member.isdir()
        }


def sdist_faults(names: set[str], files: set[str], of_wheel: set[str], own: set[str]) -> list[str]:
    """Return what an sdist lacks; ``of_wheel`` is what the wheel has, ``own`` what one built of it.

    Jars are in the wheel alone, because the sdist has the sources that they are compiled from.
    """
    expected = {*files, *SITE, *_PAGES, "pyproject.toml", "PKG-INFO"}
    faults = [f"the sdist lacks {name}" for name in sorted(expected - names)]
    lost = {name for name in of_wheel - own if not name.endswith(".jar")}
    return faults + [f"a wheel built of the sdist lacks {name}" for name in sorted(lost)]
