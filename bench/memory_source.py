"""What Spark and Python cost by themselves: sources of Arrow batches and of rows in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

PARTITIONS = 2


@cache
def batches(path: str) -> list[pa.RecordBatch]:
    """Of an Arrow file, read once in each worker."""
    with pa.ipc.open_file(path) as file:
        return [file.get_batch(at) for at in range(file.num_record_batches)]


@dataclass
class Span(InputPartition):
    start: int
    stop: int


class MemoryReader(DataSourceStreamReader):
    """Offsets are numbers of batches; a trigger takes so many of them."""

    def __init__(self, path: str, per_trigger: int) -> None:
        self._path, self._per_trigger = path, per_trigger
        with pa.ipc.open_file(path) as file:
            self._end = file.num_record_batches

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: N802
        return {"batch": min(self._end, start["batch"] + self._per_trigger)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, size = start["batch"], end["batch"] - start["batch"]
        cuts = [first + size * part // PARTITIONS for part in range(PARTITIONS + 1)]
        return [Span(a, b) for a, b in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        yield from batches(self._path)[partition.start : partition.stop]


@cache
def rows_of_a_batch(path: str) -> list[tuple[object, ...]]:
    """The first batch as Python's values; one has to do, as they take fifty times the memory."""
    return list(zip(*(column.to_pylist() for column in batches(path)[0].columns), strict=True))


class RowReader(MemoryReader):
    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:  # type: ignore[override]
        assert isinstance(partition, Span)
        for _ in range(partition.start, partition.stop):
            yield from rows_of_a_batch(self._path)


class MemorySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "memory-arrow"

    def schema(self) -> StructType:
        with pa.ipc.open_file(self.options["path"]) as file:
            return from_arrow_schema(file.schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return MemoryReader(self.options["path"], int(self.options["batchesPerTrigger"]))


class MemoryRows(MemorySource):
    """As many rows as :class:`MemorySource`, one by one as Spark's examples have it."""

    @classmethod
    def name(cls) -> str:
        return "memory-rows"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return RowReader(self.options["path"], int(self.options["batchesPerTrigger"]))
