"""`python -m support.spark_suites.run [SUITE …]`: Spark's own Scala suites with our provider.

Their classes come from Spark's test jars, by Maven; those of the newest Spark that has published
any, which may be an older one than runs them. So each suite runs on a store of Spark's as well:
what fails there too says nothing of us. Prints a table, and each test that fails on ours alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from cec_store.connectors import spark
from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.environment import VARIABLES, cache_folder
from cec_store.connectors.spark.setup.java import find_java
from support.paths import SCALA
from support.spark import archive
from support.spark.jvm import module_options
from support.spark_suites.reports import Tally, outcomes

TESTS_OF = "4.2.0"
"""The newest Spark whose test jars are on Maven."""
POM = SCALA / "suites" / "pom.xml"
OURS = sorted((SCALA / "suites").glob("*.scala"))
STREAMING = "org.apache.spark.sql.streaming"
STATE = "org.apache.spark.sql.execution.streaming.state"
TRANSFORMS = (
    "TransformWithStateAvroSuite", "TransformWithStateChainingSuite",
    "TransformWithStateInitialStateSuite", "TransformWithStateValidationSuite",
    "TransformWithListStateSuite", "TransformWithMapStateSuite",
    "TransformWithValueStateTTLSuite", "TransformWithListStateTTLSuite",
    "TransformWithMapStateTTLSuite",
)  # fmt: skip
INITIAL = "FlatMapGroupsWithStateWithInitialStateSuite"
JOINS = tuple(f"Streaming{kind}Join" for kind in ("Inner", "Outer", "FullOuter", "LeftSemi"))
OTHERS = (
    "StreamingAggregationSuite", "StreamingDeduplicationSuite",
    "StreamingDeduplicationWithinWatermarkSuite", "FlatMapGroupsWithStateSuite",
    "StreamingSessionWindowSuite",
)  # fmt: skip
SUITES = {
    "TransformWithStateSuite": f"{STREAMING}.TransformWithStateUnsafeRowSuite",
    **{name: f"{STREAMING}.{name}" for name in (*TRANSFORMS, *OTHERS)},
    INITIAL: f"{STREAMING}.Sparks{INITIAL}",
    **{f"{name}Suite": f"{STREAMING}.{name}WithoutVCFSuite" for name in JOINS},
    **{f"{name}WithVCFSuite": f"{STREAMING}.{name}WithVCFSuite" for name in JOINS},
    "StateStoreSuite": f"{STATE}.SparksStateStoreSuite",
}
"""By their names, what runs on Spark's own store; in the same package, what runs on ours is Cec and
the name."""
RESOURCES = "structured-streaming/"
_TIMEOUT_S = 3600


def spark_test_jars(folder: Path) -> list[Path]:
    """Fetched once; Scala's library is Spark's own."""
    if not (folder / f"spark-sql_2.13-{TESTS_OF}-tests.jar").exists():
        program = shutil.which("mvn")
        if program is None:
            raise SystemExit("there is no mvn, which fetches Spark's test jars")
        goal = f"dependency:copy-dependencies -DoutputDirectory={folder}"
        command = [
            program,
            "-q",
            "-B",
            "-f",
            str(POM),
            *goal.split(),
            f"-Dtests.version={TESTS_OF}",
        ]
        subprocess.run(command, check=True, timeout=_TIMEOUT_S)
    return sorted(p for p in folder.glob("*.jar") if not p.name.startswith("scala-"))


def resources(jars: list[Path], folder: Path) -> Path:
    """What the suites open as files, of older Sparks' checkpoints: out of the jars."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for jar in jars:
        if jar.name.endswith("-tests.jar"):
            with ZipFile(jar) as packed:
                names = [each for each in packed.namelist() if each.startswith(RESOURCES)]
                packed.extractall(folder, names)
    return folder


def compiled(jars: str, folder: Path) -> Path:
    """The suites with our provider in them."""
    found, java = compiler.find_spark(), find_java()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    scala = ":".join(str(p) for p in found.jars.glob("*.jar"))
    command = [
        str(java.executable), "-Xss4m", "-cp", scala, "scala.tools.nsc.Main", "-nowarn",
        "-classpath", f"{jars}:{spark.jar()}:{scala}", "-d", str(folder), *map(str, OURS),
    ]  # fmt: skip
    if subprocess.run(command, timeout=_TIMEOUT_S).returncode:
        raise SystemExit("these suites do not fit this Spark")
    return folder


def run_suite(name: str, classes: Path, jars: str, out: Path) -> dict[str, str]:
    """Its outcomes by test."""
    shutil.rmtree(out, ignore_errors=True)
    scratch = out / "scratch"
    scratch.mkdir(parents=True)
    spark_jars = compiler.find_spark().jars
    command = [
        str(find_java().executable), "-Xmx3g", "-Xss4m", archive.STARTS_FAST, *module_options(),
        "-Dspark.testing=true", f"-Djava.io.tmpdir={scratch}", "-Duser.timezone=UTC",
        "-cp", f"{classes}:{spark.jar()}:{jars}:{spark_jars}/*",
        "org.scalatest.tools.Runner", "-R", str(classes), "-s", name,
        "-oW", "-u", str(out / "reports"),
    ]  # fmt: skip
    with (out / "log").open("wb") as log:
        subprocess.run(command, stdout=log, stderr=log, timeout=_TIMEOUT_S, cwd=scratch)
    shutil.rmtree(scratch)
    [report] = (out / "reports").glob("*.xml")
    return outcomes(report)


def main(words: list[str]) -> int:
    root = cache_folder(VARIABLES) / "tests" / "spark-suites"
    found = spark_test_jars(root / "jars")
    jars = ":".join(map(str, [resources(found, root / "resources"), *found]))
    classes = compiled(jars, root / "classes")
    tally = Tally()
    for name in words or SUITES:
        package = SUITES[name].rpartition(".")[0]
        theirs = run_suite(SUITES[name], classes, jars, root / "runs" / name / "sparks")
        ours = run_suite(f"{package}.Cec{name}", classes, jars, root / "runs" / name / "cec")
        tally.add(name, ours, theirs)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
