"""Programs that cec-store needs on this machine: Python, Java, Spark, its jar, stores' packages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from cec_store.connectors.spark.setup.compiler import (
    COMPILATION_S,
    KNOWN_TO_COMPILE,
    Spark,
    find_spark,
    has_extension,
    jar_place,
)
from cec_store.connectors.spark.setup.environment import Variables, find_program, run_program
from cec_store.connectors.spark.setup.java import JAVA_NEEDED, Java, find_java, probe
from cec_store.doctor.diagnoses import Diagnosis, fault, note, sound
from cec_store.errors import SparkUnavailable
from cec_store.storage.stores.by_url import PACKAGES

_PYTHON_LEAST = (3, 10)
_PYTHON_LEAST_OF_SPARK: dict[tuple[int, ...], tuple[int, int]] = {(4, 3): (3, 11)}
_TESTED = ((4, 0), (4, 3))
_ASK_S = 20
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
_EMULATOR = "STORAGE_EMULATOR_HOST"
_LAYOUT = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"


def programs(variables: Variables) -> list[Diagnosis]:
    """Return the lines about the programs that these variables lead to."""
    try:
        spark: Spark | None = find_spark(variables)
        about_spark = [*_spark(spark, variables)] if spark else []
    except SparkUnavailable as error:
        spark, about_spark = None, [_no_spark(error, variables)]
    lines = [*_python(spark), *_worker_python(spark, variables), *about_spark]
    lines += _java(spark, variables)
    if spark is not None:
        lines.append(_jar(spark, variables))
    return [*lines, *_stores(variables)]


# -- Python -----------------------------------------------------------------------------------


def _python(spark: Spark | None) -> Iterator[Diagnosis]:
    here = sys.version_info[:2]
    needed = _PYTHON_LEAST
    if spark is not None:
        needed = _PYTHON_LEAST_OF_SPARK.get(_release(spark.version), needed)
    what = f"Python {_dotted(sys.version_info[:3])} at {sys.executable}"
    if here < needed:
        whose = f"Spark {spark.version}" if spark and needed > _PYTHON_LEAST else "cec-store"
        advice = f"use Python {_dotted(needed)} or newer for drivers"
        yield fault("python", f"{what}, and {whose} needs {_dotted(needed)}", advice)
    else:
        yield sound("python", what)


def _worker_python(spark: Spark | None, variables: Variables) -> Iterator[Diagnosis]:
    """Yield a line where Spark's workers would be another Python than this one, or none."""
    if spark is None:
        return
    told = variables.get("PYSPARK_PYTHON")
    program = find_program(told or "python3", variables)
    name = f"PYSPARK_PYTHON={told}" if told else "PYSPARK_PYTHON is not set, and `python3`"
    advice = f"set PYSPARK_PYTHON={sys.executable}"
    if not told:
        advice += "; spark.configure does, spark-submit does not"
    severity = fault if told else note
    if program is None:
        yield severity("python", f"{name}: there is no such program", advice)
        return
    here, there_is = _dotted(sys.version_info[:2]), _version_of(program)
    if there_is is None:
        yield severity("python", f"{name} ({program}) does not start", advice)
    elif there_is != here:
        what = f"{name} is Python {there_is}: Spark refuses workers of another one than {here}"
        yield severity("python", what, advice)


def _version_of(program: Path) -> str | None:
    try:
        status, text = run_program([program, "-c", _VERSION], _ASK_S)
    except (OSError, TimeoutError):
        return None
    return text.strip() if status == 0 else None


# -- Java -------------------------------------------------------------------------------------


def _java(spark: Spark | None, variables: Variables) -> Iterator[Diagnosis]:
    try:
        java = find_java(variables)
    except SparkUnavailable as error:
        problem, _, advice = str(error).partition(". ")
        if spark is None:
            yield note("java", f"{problem}; queues and operators in Python need none")
        else:
            yield fault("java", problem, advice[:1].lower() + advice[1:])
        return
    what = f"Java {java.version} at {java.home}"
    if spark is None:
        yield sound("java", what)
        return
    taken = _taken_by_spark(variables)
    set_home = "or call spark.configure, which does that for its own process"
    if taken is None or (other := probe(taken)) is None or other.version < JAVA_NEEDED:
        found_by = f"JAVA_HOME={variables['JAVA_HOME']}" if "JAVA_HOME" in variables else "the PATH"
        why = f"Spark itself would go by {found_by}, where there is no Java {JAVA_NEEDED} or newer"
        yield note("java", f"{what}; {why}", f"set JAVA_HOME={java.home}, {set_home}")
    elif not java.has_vector:
        yield _without_vector(java, what)
    else:
        yield sound("java", what)


def _without_vector(java: Java, what: str) -> Diagnosis:
    lacks = "lacks the module jdk.incubator.vector, without which Spark's launcher does not start"
    advice = "call spark.configure, which goes around that; for spark-submit use another Java"
    return note("java", f"{what} {lacks}", advice)


def _taken_by_spark(variables: Variables) -> Path | None:
    home = variables.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else find_program("java", variables)


# -- Spark ------------------------------------------------------------------------------------


def _no_spark(error: SparkUnavailable, variables: Variables) -> Diagnosis:
    text = str(error)
    if find_spec("pyspark") is None and not variables.get("SPARK_HOME"):
        what, _, advice = text.partition(": ")
        return note("spark", f"{what}: queues and operators in Python need none", advice)
    advice = "unset SPARK_HOME, or let it be the folder of a Spark 4"
    if not variables.get("SPARK_HOME"):
        advice = "pip install 'cec-store[spark]' for a Spark 4 with its jars"
    return fault("spark", text, advice)


def _spark(spark: Spark, variables: Variables) -> Iterator[Diagnosis]:
    release = _release(spark.version)
    what = f"Spark {spark.version} at {spark.jars.parent}"
    if (installed := _pyspark_version()) and _release(installed) != release:
        told = variables.get("SPARK_HOME", "")
        what = f"SPARK_HOME={told} is Spark {spark.version}, and pyspark is {installed}"
        advice = f"unset SPARK_HOME, or pip install 'pyspark=={spark.version}'"
        yield fault("spark", what, advice)
    elif release > _TESTED[1]:
        advice = "compare your queries' results first, or use a release up to 4.3"
        yield note("spark", f"{what}, newer than those that were tested", advice)
    elif release < (4, 2):
        lacks = "no moving of checkpoints (adopt, release, repartition), and no cec_python"
        yield note("spark", f"{what}: {lacks}", "use Spark 4.2 or newer for these")
    else:
        yield sound("spark", what)


def _pyspark_version() -> str | None:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None


def _jar(spark: Spark, variables: Variables) -> Diagnosis:
    try:
        place = jar_place(variables)
    except SparkUnavailable:
        what = f"no jar for Spark {spark.version}, and no Java to compile it with"
        return fault("jar", what, f"install Java {JAVA_NEEDED} or newer: see the line java")
    if not place.exists():
        what = f"not compiled yet for Spark {spark.version}: {place}"
        advice = f"`cec-store spark jar` does it now, once, in about {COMPILATION_S} s; else the "
        return note("jar", what, f"{advice}first session does")
    if not has_extension(place):
        what = f"{place}: without transformWithState, and batches with a watermark read all state"
        return note("jar", what, f"use Spark {KNOWN_TO_COMPILE}, whose inner classes are known")
    return sound("jar", str(place))


# -- stores -----------------------------------------------------------------------------------


def _stores(variables: Variables) -> Iterator[Diagnosis]:
    """Yield which kinds of stores can be reached from Python."""
    installed = [extra for extra, package in PACKAGES.items() if find_spec(package)]
    missing = [f"cec-store[{extra}]" for extra in PACKAGES if extra not in installed]
    what = f"reached by URL: {', '.join(installed) or 'none'}"
    if missing:
        what += f"; not installed: {', '.join(missing)}"
    yield sound("stores", what)
    host = variables.get(_EMULATOR)
    if host and variables.get(_LAYOUT, "").lower() != "false" and "gcs" in installed:
        what = f"{_EMULATOR}={host}: gcsfs may wait a minute for a bucket's layout before each call"
        yield fault("stores", what, f"set {_LAYOUT}=false before Python starts")


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
