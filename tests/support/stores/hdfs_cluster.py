"""A real HDFS of this machine: Hadoop's own MiniDFSCluster, a namenode and three datanodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.paths import SUPPORT
from support.stores.minicluster import MiniCluster, mini_cluster

_PROGRAM = SUPPORT / "stores" / "HdfsCluster.java"


@dataclass
class Hdfs:
    """Where it is, and how it is told to fall over."""

    servers: MiniCluster
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
        self.servers.tell(f"restart-datanode {number}")

    def restart_namenode(self) -> None:
        self.servers.tell("restart-namenode")


@contextmanager
def hdfs_cluster(folder: Path) -> Iterator[Hdfs]:
    """A new and empty one, with its files in this folder."""
    with mini_cluster(_PROGRAM, folder, str(folder)) as servers:
        port, http_port = map(int, servers.answer().split())
        yield Hdfs(servers, port, http_port)
