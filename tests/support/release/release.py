"""Builds a release from a clean clone into `dist/`, and checks and tries what was built.

`make release` runs it. Nothing is published. It prints what the proof lacks, and a version that is
no pre-release is refused unless the proof is whole. `--sparks` builds jars for some Sparks only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

from cec_store.connectors.spark.setup import compiler
from support.paths import ROOT
from support.proof import page, trees
from support.release import archives, bom, interpreters, jars, maven, notes, submitting
from support.release.interpreters import Outcome
from support.release.sparks import PINNED, SPARKS, distribution

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WORK = ROOT / "build" / "release"
TOOLS = ROOT / ".venv-release" / "bin"
MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def cloned(checkout: Path) -> None:
    """Clone what is committed, so that no file that git does not know gets into a release.

    Raises:
        SystemExit: files that git knows were changed.
    """
    if changed := trees.changed(ROOT, (".",)):
        raise SystemExit(f"commit or undo first: {', '.join(changed)}")
    shutil.rmtree(WORK, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(checkout)], check=True)


def run(command: list[str], folder: Path, failure: str) -> None:
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    if subprocess.run(command, cwd=folder, env=variables).returncode:
        raise SystemExit(failure)


def built_archives(
    checkout: Path, out: Path, made: list[jars.Jar], epoch_s: int
) -> tuple[Path, list[str]]:
    """Build the site, wheel and sdist; return the wheel, and what is wrong with either."""
    say("the site")
    run([str(MKDOCS), "build", "--strict", "--quiet"], checkout, "the site cannot be built")
    say("wheel and sdist")
    wheel, sdist = archives.build(checkout, out, epoch_s)
    files = archives.committed(checkout)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    faults = archives.wheel_faults(names, files, [jar.path.name for jar in made])
    say("a wheel of the sdist alone")
    own = archives.rebuilt(sdist)
    faults += archives.sdist_faults(archives.sdist_names(sdist), files, names, own)
    command = [str(TOOLS / "twine"), "check", "--strict", str(wheel), str(sdist)]
    if subprocess.run(command).returncode:
        faults.append("twine check: see above")
    return wheel, faults


def tried_wheel(wheel: Path, version: str) -> list[Outcome]:
    outcomes = []
    for minor in interpreters.MINORS:
        say(f"the wheel on Python {minor}")
        outcomes.append(interpreters.try_wheel(wheel, version, minor, WORK / f"python-{minor}"))
    return outcomes


def tried_jars(made: list[jars.Jar]) -> list[Outcome]:
    """Ask the wheel for the jar of each Spark: it has to carry it, and to compile none."""
    say("the jars that the wheel carries, by Spark")
    _, programs = newest_environment()
    outcomes = []
    for jar in made:
        spark = distribution(jar.spark, jars.DISTRIBUTIONS)
        variables = {**os.environ, "SPARK_HOME": str(spark.jars.parent),
                     "XDG_CACHE_HOME": str(WORK / "cache")}  # fmt: skip
        command = [str(programs / "cec-store"), "spark", "jar"]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=WORK)
        path = Path(done.stdout.strip())
        is_carried = programs.parent in path.parents and path.read_bytes() == jar.path.read_bytes()
        text = "taken from the wheel" if is_carried else f"not taken from the wheel: {done.stderr}"
        outcomes.append(Outcome(f"jar for Spark {jar.spark}", text, True, is_carried))
    return outcomes


def tried_repository(made: list[jars.Jar], out: Path) -> Outcome:
    """Run a query with the jar of the newest Spark that was built, by `--packages`."""
    say("spark-submit --packages, from the Maven repository")
    spark = distribution(made[0].spark, jars.DISTRIBUTIONS)
    command = submitting.submit(spark, out / "maven", WORK / "submitted")
    text = f"`{command}`: a query ran, was started again, and its state was read"
    return Outcome(f"Spark {spark.version}, local[2]", text, True, True)


def newest_environment() -> tuple[str, Path]:
    """Return the newest Python that the wheel was tried on, and the programs of its environment."""
    minor = [m for m in interpreters.MINORS if (WORK / f"python-{m}" / "venv").is_dir()][-1]
    return minor, WORK / f"python-{minor}" / "venv" / "bin"


def with_sbom(version: str, checkout: Path, out: Path, epoch_s: int) -> Outcome:
    """Write the SBOM of the newest environment that has the wheel."""
    minor, programs = newest_environment()
    path = out / f"cec-store-{version}.cdx.json"
    count = bom.write(TOOLS, programs / "python", checkout, path, epoch_s)
    text = f"valid; {count} components, as pip takes them for Python {minor}"
    return Outcome("SBOM", text, True, True)


def build(project: dict[str, Any], sparks: list[str], gaps: list[str]) -> list[str]:
    """Build and try everything; return what is wrong, of which nothing may be published."""
    version, checkout = str(project["version"]), WORK / "checkout"
    out = ROOT / "dist" / f"cec-store-{version}"
    cloned(checkout)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    commit = trees.git(checkout, "rev-parse", "HEAD")
    epoch_s = int(trees.git(checkout, "log", "-1", "--format=%ct"))
    say(f"cec-store {version} of {commit[:12]}")
    spark_folder = checkout / "connectors" / "spark"
    made = jars.built(checkout, spark_folder / "jars", WORK / "sources", sparks)
    faults = [fault for jar in made for fault in jars.faults(jar, spark_folder / "scala")]
    wheel, more = built_archives(checkout, out, made, epoch_s)
    say("the Maven repository")
    maven.deploy(made, project, out / "maven")
    faults += [*more, *maven.faults(made, out / "maven")]
    outcomes = [*tried_wheel(wheel, version), *tried_jars(made), tried_repository(made, out)]
    outcomes.append(with_sbom(version, checkout, out, epoch_s))
    outcomes += [
        Outcome(f"jar for Spark {spark}", "not built (--sparks)", False, True)
        for spark in SPARKS
        if spark not in sparks
    ]
    faults += interpreters.faults(outcomes)
    changed = notes.changes((checkout / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    files = [(p.relative_to(out).as_posix(), p.stat().st_size) for p in notes.files_below(out)
             if p.suffix not in (".sha1", ".md5", ".xml")]  # fmt: skip
    text = notes.rendered(version, commit, changed, files, outcomes, gaps)
    (out / "RELEASE-NOTES.md").write_text(text, encoding="utf-8")
    (out / notes.CHECKSUMS).write_text(notes.checksums(out), encoding="utf-8")
    say(f"{out.relative_to(ROOT)} has everything")
    print("\n".join(f"{outcome.subject}: {outcome.text}" for outcome in outcomes))
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sparks", nargs="+", choices=SPARKS, default=list(SPARKS))
    asked = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = str(project["version"])
    if compiler.release() != version:
        raise SystemExit(f"{compiler.release()} is installed here, and this is {version}: "
                         "make setup")  # fmt: skip
    gaps = page.gaps(ROOT)
    if gaps and not notes.is_pre_release(version):
        print("\n".join(gaps))
        raise SystemExit(f"{version} is no pre-release, and the proof lacks {len(gaps)} things")
    if PINNED not in asked.sparks:
        raise SystemExit(f"a release has the jar for the pinned Spark, {PINNED}")
    faults = build(project, asked.sparks, gaps)
    print("\n".join([f"the proof lacks {len(gaps)} things:", *gaps]) if gaps else "proof is whole")
    print("\n".join(["faults:", *faults]) if faults else "no faults")
    return len(faults) > 0


if __name__ == "__main__":
    sys.exit(main())
