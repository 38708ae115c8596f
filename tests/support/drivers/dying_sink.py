"""The sink as Spark runs it, except that it fails or dies at the operation that a plan names.

A plan is a file of JSON: ``phase`` ("write" in tasks, "commit" on the driver), ``at`` (the number
of the operation, in one process), ``how`` ("raise", "kill", or "kill after" the operation). It is
removed when it strikes.
"""

import errno
import json
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from cec_store.connectors.spark.queues.data_source import CecDataSource
from cec_store.connectors.spark.queues.sink import StreamSink, Target
from cec_store.storage.folder import AppendFile, Lock
from cec_store.storage.local import LocalFolder
from cec_store.storage.system_errors import os_errors_of

_counts: dict[str, int] = {}


def perform(plan: str, operation: Callable[[], Any]) -> Any:
    try:
        text = Path(plan).read_text()
        order = json.loads(text)
    except FileNotFoundError:
        return operation()
    phase = "commit" if TaskContext.get() is None else "write"
    if order["phase"] != phase:
        return operation()
    count = _counts[text] = _counts.get(text, -1) + 1
    if count != order["at"]:
        return operation()
    with suppress(FileNotFoundError):  # a task on the other core may have met it, too
        os.unlink(plan)
    if order["how"] == "raise":
        raise OSError(errno.EIO, "as planned")
    if order["how"] == "kill after":
        operation()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("not reached")


class DyingFile:
    def __init__(self, file: AppendFile, plan: str) -> None:
        self._file, self._plan = file, plan

    def write(self, parts: Sequence[bytes]) -> None:
        with os_errors_of("the file"):
            perform(self._plan, lambda: self._file.write(parts))

    def sync(self) -> None:
        with os_errors_of("the file"):
            perform(self._plan, self._file.sync)

    def rest(self) -> None:
        self._file.rest()

    def close(self) -> None:
        self._file.close()


class DyingFolder(LocalFolder):
    def __init__(self, path: str, plan: str) -> None:
        super().__init__(path)
        self._plan = plan

    def _perform(self, operation: Callable[[], Any]) -> Any:
        with os_errors_of(self.path):
            return perform(self._plan, operation)

    def folder(self, name: str) -> "DyingFolder":
        return DyingFolder(os.path.join(self.path, name), self._plan)

    def make(self) -> None:
        self._perform(super().make)

    def remove(self) -> None:
        self._perform(super().remove)

    def create(self, name: str) -> AppendFile:
        return DyingFile(self._perform(lambda: super(DyingFolder, self).create(name)), self._plan)

    def rename(self, source: str, target: str) -> None:
        self._perform(lambda: super(DyingFolder, self).rename(source, target))

    def truncate(self, name: str, size: int) -> None:
        self._perform(lambda: super(DyingFolder, self).truncate(name, size))

    def unlink(self, name: str) -> None:
        self._perform(lambda: super(DyingFolder, self).unlink(name))

    def sync_names(self) -> None:
        self._perform(super().sync_names)

    def lock(self, name: str) -> Lock:
        return self._perform(lambda: super(DyingFolder, self).lock(name))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class DyingTarget(Target):
    plan: str = ""

    def folder(self) -> DyingFolder:
        return DyingFolder(self.path, self.plan)


class DyingSource(CecDataSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = dict(self.options)
        plan = options.pop("plan")
        sink = StreamSink(options, schema)
        target = sink._target
        sink._target = DyingTarget(target.path, target.schema, 20_000, plan=plan)
        return sink
