"""Programs of tests/support/scala/provider in a JVM of their own, without a Spark session."""

import json
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from cec_store.connectors import spark
from cec_store.connectors.spark.setup import compiler
from cec_store.connectors.spark.setup.java import find_java
from support.paths import SCALA
from support.spark import archive, planted

PROGRAMS = SCALA / "provider"
_RULES = SCALA / "rules"
_LOGS = SCALA / "logs"
_QUEUES = SCALA / "queues"
_REPLICAS = SCALA / "replicas"
OURS = "org.apache.spark.sql.cecstore.CecStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORE = "spark.sql.streaming.stateStore"
CHECKED = {f"{STORE}.cec.checkDirectories": "true"}
"""Settings with which each load by a key directory reads the log as well, and compares."""
_MAIN = "org.apache.spark.sql.cecstore.testing.Programs"
_STDERR_CHARACTERS = 6_000


class ProgramFailed(AssertionError):
    """A program found something wrong, and says what in its last lines."""


@cache
def _programs_jar() -> Path:
    """Compiled once for each state of the sources, by what compiles the provider.

    With the provider's sources: programs that read and write logs call what is inside it.
    """
    with tempfile.TemporaryDirectory() as folder:
        # At the top, where a Spark's sides are looked for.
        shutil.copytree(compiler.SOURCES, folder, dirs_exist_ok=True)
        for sources in (PROGRAMS, _RULES, _LOGS, _QUEUES, _REPLICAS):
            shutil.copytree(sources, Path(folder) / "testing" / sources.name)
        planted.into(Path(folder))
        return compiler.jar(sources=Path(folder), carried=PROGRAMS / "never")


@cache
def module_options() -> tuple[str, ...]:
    """What Spark's launcher tells a JVM to open; asked of the installed Spark."""
    jars = compiler.find_spark().jars
    source = (
        "public class Options { public static void main(String[] words) { System.out.print("
        "org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptions()); } }"
    )
    file = _programs_jar().parent / "Options.java"
    file.write_text(source, encoding="utf-8")
    java = find_java()
    done = subprocess.run(
        [java.executable, "-cp", f"{jars}/*", file],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    flags = done.stdout.split()
    return tuple(f for f in flags if java.has_vector or not f.endswith("jdk.incubator.vector"))


@cache
def _java_options() -> tuple[str, ...]:
    # These programs run long enough for what the JVM compiles to pay.
    options = archive.submit_options().split()
    return tuple(option for option in options if "TieredStopAtLevel" not in option)


def run_jvm(program: str, timeout_s: float = 240, **words: object) -> dict[str, Any]:
    """One program, given its words; `settings` are Spark's. Gives back what it has found."""
    settings = words.pop("settings", {})
    assert isinstance(settings, dict)
    provider = words.setdefault("provider", OURS)
    jars = [*([spark.jar()] if provider == OURS else []), _programs_jar()]
    if planted.is_any():
        jars.reverse()  # the provider that is in it has the bug
    said = {**words, **settings}
    command = [
        str(find_java().executable), "-Xmx1g", *_java_options(), *module_options(),
        *planted.java_options(),
        f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}",
        "-cp", archive.class_path(*jars), _MAIN, program,
        *(f"{name}={str(v).lower() if isinstance(v, bool) else v}" for name, v in said.items()),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    if done.returncode != 0:
        raise ProgramFailed(f"{program} {said}:\n{done.stderr[-_STDERR_CHARACTERS:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found
