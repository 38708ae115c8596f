"""Servers of Hadoop's own test jar, as a process that takes a command a line and answers each."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cec_store.connectors.spark.setup.compiler import find_spark
from cec_store.connectors.spark.setup.java import find_java
from support.stores.maven import jar
from support.stores.needed import need

_STOP_S = 60
_NEEDED = (
    # By its classes, and not by what it says that it needs.
    ("org.junit.jupiter", "junit-jupiter-api", "5.13.4"),
    ("org.bouncycastle", "bcprov-jdk18on", "1.82"),
    ("org.bouncycastle", "bcpkix-jdk18on", "1.82"),
    ("org.bouncycastle", "bcutil-jdk18on", "1.82"),
)
_MARK = "answer: "


class MiniCluster:
    """The process; it ends with its standard input."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def answer(self) -> str:
        """The next one; whatever else Hadoop prints is passed over."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_MARK):
                return line.removeprefix(_MARK).strip()
        raise AssertionError(f"the servers have ended: {self._process.wait()}")

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        assert self.answer() == "done"


@contextmanager
def mini_cluster(program: Path, folder: Path, *arguments: str) -> Iterator[MiniCluster]:
    """Run this Java source, with its files in this folder, on the Hadoop that Spark has."""
    need("pyspark")
    jars = find_spark().jars
    (runtime,) = jars.glob("hadoop-client-runtime-*.jar")
    version = re.sub(r".*-([0-9.]+)\.jar", r"\1", runtime.name)
    named = ("org.apache.hadoop", "hadoop-client-minicluster", version)
    path = ":".join(map(str, (*(jar(*each) for each in (named, *_NEEDED)), jars / "*")))
    process = subprocess.Popen(
        [str(find_java().executable), "-Xmx512m", "-cp", path, str(program), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        cwd=folder,
    )  # fmt: skip
    try:
        yield MiniCluster(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
