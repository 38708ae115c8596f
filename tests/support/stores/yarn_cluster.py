"""A real YARN of this machine: Hadoop's own MiniYARNCluster, with two node managers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.paths import SUPPORT
from support.stores.minicluster import mini_cluster

_PROGRAM = SUPPORT / "stores" / "YarnCluster.java"


@contextmanager
def yarn_cluster(folder: Path, file_system: str) -> Iterator[Path]:
    """One whose files are on this file system (a URL): the folder of its clients' settings."""
    settings = folder / "settings"
    with mini_cluster(_PROGRAM, folder, str(settings), file_system) as servers:
        assert servers.answer() == "ready"
        yield settings
