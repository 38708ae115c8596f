"""The door of Spark's Python data sources to queues, for where there is no jar."""

from __future__ import annotations

from pyspark.sql import datasource as spark
from pyspark.sql.types import StructType

from cec_store.connectors.spark.queues.sink import BatchSink, StreamSink
from cec_store.connectors.spark.queues.source import BatchSource, StreamSource
from cec_store.connectors.spark.queues.spark_types import check_asked, spark_schema
from cec_store.partitioned.read_options import parse, parse_for_columns
from cec_store.partitioned.reading import columns_of
from cec_store.storage.paths import is_url
from cec_store.storage.stores.by_url import name_of


class CecDataSource(spark.DataSource):
    """Queues, to read and to write. ``spark.dataSource.register(CecDataSource)``."""

    def __init__(self, options: dict[str, str]) -> None:
        # An executor has a working folder of its own: a relative path is from the driver's on.
        path = options.get("path")
        if path and not is_url(path):
            options["path"] = name_of(path)
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return "cec"

    def schema(self) -> StructType:
        """The queue's columns; with ``includeMetadata`` those of the log behind them."""
        # Spark does not say here whether it is for a stream; the readers refuse what does not fit.
        return spark_schema(columns_of(parse_for_columns(self.options)))

    def reader(self, schema: StructType) -> spark.DataSourceReader:
        check_asked(schema, self.schema())
        return BatchSource(parse(self.options, is_stream=False), schema)

    def streamReader(self, schema: StructType) -> spark.DataSourceStreamReader:
        options = parse(self.options, is_stream=True)
        if options.follow_checkpoint is not None:
            raise ValueError("followCheckpoint is for the source of the jar, and not in Python")
        check_asked(schema, self.schema())
        return StreamSource(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> spark.DataSourceWriter:
        return BatchSink(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> spark.DataSourceStreamWriter:
        return StreamSink(self.options, schema)


class CecPythonDataSource(CecDataSource):
    """The same under a name of its own, where ``cec`` is the source of the jar."""

    @classmethod
    def name(cls) -> str:
        return "cec_python"
