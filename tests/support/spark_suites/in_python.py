"""`python -m support.spark_suites.in_python CHECKOUT [FILE …]`: Spark's Python tests on our store.

They are in no package of Spark's: CHECKOUT is a checkout of Spark's sources, whose tests the
installed Spark runs. What fails is run again on RocksDB, which the tests ask for: what fails there
too says nothing of us.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.environment import VARIABLES, cache_folder
from cec_store.connectors.spark.setup.java import find_java
from support.paths import TESTS
from support.spark_suites.reasons import reason_of
from support.spark_suites.reports import Tally, outcomes

PYSPARK = Path("python/pyspark")
PANDAS = PYSPARK / "sql" / "tests" / "pandas"
FOLDERS = (PANDAS / "streaming", PANDAS)
PATTERN = "test_*with_state*.py"
PLUGIN = "support.spark_suites.store_plugin"
_TIMEOUT_S = 3600


def installed_with(theirs: Path, folder: Path) -> Path:
    """The installed pyspark by links, with the tests of `theirs`, which its workers import as well.

    Without its packed copy of itself, which would come before the links in a worker.
    """
    shutil.rmtree(folder, ignore_errors=True)
    pyspark = compiler.find_spark().jars.parent
    copy = folder / "pyspark"
    _link(pyspark, copy, without={"sql", "python", "testing"})
    _link(pyspark / "sql", copy / "sql", without={"tests"})
    _link(pyspark / "python", copy / "python", without={"lib"})
    _link(pyspark / "python" / "lib", copy / "python" / "lib", without={"pyspark.zip"})
    (copy / "sql" / "tests").symlink_to(theirs / "sql" / "tests")
    (copy / "testing").symlink_to(theirs / "testing")
    return folder


def _link(source: Path, target: Path, without: set[str]) -> None:
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.name not in without and path.name != "__pycache__":
            (target / path.name).symlink_to(path)


def run_file(file: Path, overlay: Path, out: Path, more: list[str]) -> dict[str, str]:
    """Its outcomes by test."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    at = overlay / file.relative_to("python")
    command = [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull,
        f"--rootdir={overlay}", f"--junitxml={out / 'report.xml'}", *more, str(at),
    ]  # fmt: skip
    env = {
        **os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": f"{overlay}:{TESTS}:{TESTS.parent}", "SPARK_HOME": str(overlay / "pyspark"),
        "SPARK_TESTING": "1",
    }  # fmt: skip
    with (out / "log").open("wb") as log:
        subprocess.run(command, stdout=log, stderr=log, timeout=_TIMEOUT_S, cwd=out, env=env)
    return outcomes(out / "report.xml")


def main(words: list[str]) -> int:
    if not words or not (Path(words[0]) / FOLDERS[0]).is_dir():
        raise SystemExit(f"there is no {FOLDERS[0]} there; say where a checkout of Spark is")
    checkout = Path(words[0]).resolve()
    root = cache_folder(VARIABLES) / "tests" / "spark-suites" / "python"
    overlay = installed_with(checkout / PYSPARK, root / "installed")
    found = [p for folder in FOLDERS for p in sorted((checkout / folder).glob(PATTERN))]
    tally = Tally()
    for path in [p for p in found if not words[1:] or p.stem in words[1:]]:
        file = path.relative_to(checkout)
        ours = run_file(file, overlay, root / "runs" / path.stem / "cec", ["-p", PLUGIN])
        theirs = dict.fromkeys(ours, "")
        if again := [test for test, said in ours.items() if said and not reason_of(test)]:
            only = ["-k", " or ".join(again)]
            theirs |= run_file(file, overlay, root / "runs" / path.stem / "sparks", only)
        tally.add(path.stem, ours, theirs)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
