"""A real HDFS of this machine: Hadoop's own MiniDFSCluster, a namenode and three datanodes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cec_store.connectors.spark.setup.compiler import find_spark
from cec_store.connectors.spark.setup.java import find_java
from support.paths import SUPPORT
from support.stores.maven import jar
from support.stores.needed import need

_PROGRAM = SUPPORT / "stores" / "HdfsCluster.java"
_STOP_S = 60


@dataclass
class Hdfs:
    """Where it is, and how it is told to fall over."""

    process: subprocess.Popen[str]
    port: int
    http_port: int

    @property
    def url(self) -> str:
        """For Hadoop's own clients."""
        return f"hdfs://127.0.0.1:{self.port}"

    def web_url(self, path: str) -> str:
        """For fsspec."""
        return f"webhdfs://127.0.0.1:{self.http_port}/{path}"

    def restart_datanode(self, number: int) -> None:
        self._tell(f"restart-datanode {number}")

    def restart_namenode(self) -> None:
        self._tell("restart-namenode")

    def _tell(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        assert _answer(self.process) == "done"


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("hdfs: "):
            return line.removeprefix("hdfs: ").strip()
    raise AssertionError(f"HDFS has ended: {process.wait()}")


@contextmanager
def hdfs_cluster(folder: Path) -> Iterator[Hdfs]:
    """A new and empty one, with its files in this folder."""
    need("pyspark")
    jars = find_spark().jars
    (runtime,) = jars.glob("hadoop-client-runtime-*.jar")
    version = re.sub(r".*-([0-9.]+)\.jar", r"\1", runtime.name)
    cluster = jar("org.apache.hadoop", "hadoop-client-minicluster", version)
    path = ":".join(map(str, (cluster, jars / "*")))
    process = subprocess.Popen(
        [str(find_java().executable), "-Xmx512m", "-cp", path, str(_PROGRAM), str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        cwd=folder,
    )  # fmt: skip
    try:
        port, http_port = map(int, _answer(process).split())
        yield Hdfs(process, port, http_port)
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
