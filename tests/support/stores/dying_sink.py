"""The sink as Spark runs it, on a store that fails or dies at the call that a plan names.

A plan is a file of JSON: ``phase`` ("write" in tasks, "commit" on the driver), ``at`` (the number
of the call, in one process), ``how`` ("raise", "lost": done and failed all the same, "kill", or
"kill after" the call). It is removed when it strikes.
"""

import json
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from cec_store.connectors.spark.queues.data_source import CecDataSource
from cec_store.connectors.spark.queues.sink import StreamSink
from cec_store.errors import StorageError
from cec_store.format.schema import RecordSchema
from cec_store.partitioned.target import BatchTarget
from cec_store.partitioned.write_options import WriteOptions
from cec_store.storage.stores.local_store import LocalStore
from cec_store.storage.stores.store import Entry

_counts: dict[str, int] = {}


def perform(plan: str, call: Callable[[], Any]) -> Any:
    try:
        text = Path(plan).read_text()
        order = json.loads(text)
    except FileNotFoundError:
        return call()
    phase = "commit" if TaskContext.get() is None else "write"
    if order["phase"] != phase:
        return call()
    count = _counts[text] = _counts.get(text, -1) + 1
    if count != order["at"]:
        return call()
    with suppress(FileNotFoundError):  # a task on the other core may have met it, too
        os.unlink(plan)
    if order["how"] in ("lost", "kill after"):
        call()
    if order["how"] in ("lost", "raise"):
        raise StorageError(f"as planned: {order['how']}")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("not reached")


class DyingStore(LocalStore):
    def __init__(self, path: str, plan: str) -> None:
        super().__init__(path)
        self._plan = plan

    def _perform(self, call: Callable[[], Any]) -> Any:
        return perform(self._plan, call)

    def create(self, name: str, parts: Sequence[bytes]) -> None:
        self._perform(lambda: super(DyingStore, self).create(name, parts))

    def read(self, name: str, byte: int = 0, size: int | None = None) -> bytes:
        return self._perform(lambda: super(DyingStore, self).read(name, byte, size))  # type: ignore[no-any-return]

    def list(self, folder: str = "") -> list[Entry]:
        return self._perform(lambda: super(DyingStore, self).list(folder))  # type: ignore[no-any-return]

    def delete(self, names: Iterable[str]) -> None:
        self._perform(lambda: super(DyingStore, self).delete(names))


class DyingTarget(BatchTarget):
    plan = ""

    def store(self) -> DyingStore:
        return DyingStore(self._options.path, self.plan)


class DyingSink(StreamSink):
    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._plan = options.pop("plan")
        super().__init__(options, schema)

    def _target_of(self, options: WriteOptions, schema: RecordSchema) -> DyingTarget:
        target = DyingTarget(options, schema)
        target.plan = self._plan
        return target


class DyingSource(CecDataSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return DyingSink(dict(self.options), schema)
