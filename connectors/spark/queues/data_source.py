"""``format("cec")``: the door of Spark's Python data sources to queues."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from cec_store.connectors.spark.queues.sink import BatchSink, StreamSink
from cec_store.connectors.spark.queues.source import BatchSource, StreamSource, columns
from cec_store.connectors.spark.queues.source_options import parse


class CecDataSource(DataSource):
    """Queues, to read and to write. ``spark.dataSource.register(CecDataSource)``."""

    @classmethod
    def name(cls) -> str:
        """For ``format()``."""
        return "cec"

    def schema(self) -> StructType:
        """The queue's columns; with ``includeMetadata`` those of the log behind them."""
        # Spark does not say here whether it is for a stream; the readers refuse what does not fit.
        ends = ("endingtimestamp", "endingoffsetsbytimestamp", "endingoffsets")
        given = {name: text for name, text in self.options.items() if name.lower() not in ends}
        return columns(parse(given, is_stream=True))

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchSource(parse(dict(self.options), is_stream=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamSource(parse(dict(self.options), is_stream=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchSink(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamSink(self.options, schema)
