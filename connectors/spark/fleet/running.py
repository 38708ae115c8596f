"""Spark as a fleet's driver sees it: executors, costs of queries, and starting them."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cec_store.connectors.spark.checkpoint.rewriting import hadoop_url
from cec_store.connectors.spark.executors.adaptation import cores_of
from cec_store.connectors.spark.executors.loads import is_of_batch
from cec_store.connectors.spark.fleet.costs import CpuMeter
from cec_store.connectors.spark.fleet.declaration import Query, queue_path
from cec_store.connectors.spark.fleet.functions import Function, imported
from cec_store.connectors.spark.fleet.missing import is_on_purpose
from cec_store.connectors.spark.fleet.outer import OuterLag, Sink, Source, outer_lag
from cec_store.connectors.spark.fleet.rules import KEEP_ALIVE
from cec_store.connectors.spark.takeover.tenure import check_session, enter
from cec_store.standby.leases import Lease
from cec_store.storage.stores.folders import StorageOptions, folder_at

_SOURCE = re.compile(r"cec\[(.*)\]", re.DOTALL)


@dataclass(frozen=True)
class Seen:
    """A look at a query."""

    is_active: bool
    failure: str = ""
    """Why it has ended; empty where it has not failed."""
    progress: Any = None
    """Spark's, of its last batch in this run; ``None``: none yet."""

    @property
    def batch(self) -> int | None:
        """Return the last batch that is done; ``None``: none that Spark has told of.

        A query without new input tells of the batch that it would run next, which has not begun.
        """
        if self.progress is None:
            return None
        number = int(self.progress.batchId)
        if not is_of_batch(self.progress):
            number -= 1
        return None if number < 0 else number

    @property
    def sources(self) -> tuple[str, ...]:
        """The queue of each source, empty for one that is none."""
        matches = [_SOURCE.fullmatch(source.description) for source in self.progress.sources]
        return tuple(queue_path(match[1]) if match else "" for match in matches)

    @property
    def outer_lags(self) -> tuple[OuterLag, ...]:
        """Return the lag behind each source that is no queue, in Spark's order."""
        sources = zip(self.progress.sources, self.sources, strict=True)
        return tuple(outer_lag(source) for source, queue in sources if not queue)


def _spark_name(path: str) -> str:
    """Return the path as a URL: Spark takes a bare path for one of HDFS, if that is its default."""
    return hadoop_url(folder_at(path))


class Running(Protocol):
    """A query that was started."""

    run_id: str

    def look(self) -> Seen: ...

    def stop(self) -> None: ...


class Engine(Protocol):
    """Executors, what queries have spent, and to run them."""

    @property
    def is_dynamic(self) -> bool:
        """True where Spark asks for executors by itself, for the tasks of queries that run."""
        ...

    def enter(self, folder: str, storage_options: StorageOptions | None) -> Lease: ...

    def discard_unfinished(self, checkpoints: Sequence[str]) -> None: ...

    def executors(self) -> dict[str, float]: ...

    def taken_away(self, gone: Collection[str]) -> frozenset[str]: ...

    def request(self, executors: int) -> str: ...

    def spent(self) -> dict[str, float]: ...

    def arrange(self, order: Sequence[str]) -> None: ...

    def ship(self, functions: Iterable[Function]) -> None: ...

    def start(self, query: Query, checkpoint: str) -> Running: ...


class RunningQuery:
    """A query that was started; made by :meth:`SparkEngine.start`."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self.run_id = str(query.runId)

    def look(self) -> Seen:
        if self._query.isActive:
            return Seen(True, "", self._query.lastProgress)
        failure = self._query.exception()
        what = "it has ended" if failure is None else str(failure)
        return Seen(False, what, self._query.lastProgress)

    def stop(self) -> None:
        """A batch that is under way is run again when the query goes on."""
        self._query.stop()


class SparkEngine:
    """A session with our jar, for one driver.

    Args:
        in_turn: Queries that are behind catch up in the order of :meth:`arrange`, without waiting
            for their triggers.

    Raises:
        SparkUnavailable: it has no jar of ours, or no driver of its own.
    """

    def __init__(self, session: Any, *, in_turn: bool = True) -> None:
        check_session(session)
        self._session = session
        self._in_turn = in_turn
        self._pools = session._jvm.org.apache.spark.sql.cecstore.fleet.Pools
        self._meter = CpuMeter(session)
        utils, context = session._jvm.org.apache.spark.util.Utils, session.sparkContext._jsc.sc()
        self.is_dynamic = bool(utils.isDynamicAllocationEnabled(context.conf()))

    def enter(self, folder: str, storage_options: StorageOptions | None) -> Lease:
        """Be the one driver of the fleet in this folder.

        Raises:
            LeaseHeld: another one is alive.
        """
        name = _spark_name(folder)
        return enter(self._session, folder, storage_options, KEEP_ALIVE, None, spark_name=name)

    def discard_unfinished(self, checkpoints: Sequence[str]) -> None:
        """Discard what a former driver left unfinished at these, wherever it was stopped.

        It writes nothing to them any more. They stand below the fleet's folder.
        """
        conf = self._session._jsparkSession.sessionState().newHadoopConf()
        tenures = self._session._jvm.org.apache.spark.sql.cecstore.standby.Tenures
        for checkpoint in checkpoints:
            tenures.discardUnfinished(_spark_name(checkpoint), conf)

    def executors(self) -> dict[str, float]:
        """Cores of each that is alive; the driver is one where it runs the tasks itself."""
        context = self._session.sparkContext
        if context._jsc.sc().isLocal():
            return {"driver": float(context.defaultParallelism)}
        return cores_of(self._session)

    def taken_away(self, gone: Collection[str]) -> frozenset[str]:
        """Return those of these executors that Spark or a user has given up on purpose."""
        if not gone:
            return frozenset()
        known = self._session.sparkContext._jsc.sc().statusStore().executorList(False)
        summaries = [known.apply(number) for number in range(known.size())]
        return frozenset(
            summary.id()
            for summary in summaries
            if summary.id() in gone
            and summary.removeReason().isDefined()
            and is_on_purpose(summary.removeReason().get())
        )

    def request(self, executors: int) -> str:
        """Ask the cluster manager for so many executors in all; return why this was not done."""
        context = self._session.sparkContext
        if self.is_dynamic:
            return "dynamic allocation asks for executors itself"
        if context._jsc.sc().isLocal():
            return "there is no cluster manager in local mode"
        hosts = getattr(self._session._jvm.scala.collection.immutable, "Map$")
        nowhere = getattr(hosts, "MODULE$").empty()
        if context._jsc.sc().requestTotalExecutors(executors, 0, nowhere):
            return ""
        return "the cluster manager takes no requests for executors (requestTotalExecutors)"

    def spent(self) -> dict[str, float]:
        """Processor time of each query since the last call, in seconds, by run id."""
        return self._meter.read()

    def arrange(self, order: Sequence[str]) -> None:
        """Serve queries that are behind in this order, those that run already among them."""
        self._pools.arrange(self._session.sparkContext._jsc.sc(), list(order))

    def ship(self, functions: Iterable[Function]) -> None:
        """Have executors get the code of these functions' modules with each use.

        Else Python's workers there would import the modules, and may have done so before.
        """
        from pyspark import cloudpickle

        for name in {function.__module__ for function in functions}:
            cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]

    def start(self, query: Query, checkpoint: str) -> RunningQuery:
        """Start a query, of which the functions are imported, or go on with it.

        It reads queues and Kafka from their beginning, unless options say otherwise.
        Its jobs are in a scheduler pool of its own, where the session shares its cores out fairly:
        while it is behind its input, in one that gets what those leave that are in time.
        """
        frames = []
        for queue in query.reads:
            reader = self._session.readStream.format("cec").option("startingOffsets", "earliest")
            frames.append(reader.options(**query.read_options).load(_spark_name(queue)))
        frames += [self._read(source) for source in query.sources]
        writer = imported(query.name, query.function)(*frames).writeStream.queryName(query.name)
        writer = writer.outputMode(query.output_mode)
        writer = writer.option("checkpointLocation", _spark_name(checkpoint))
        writer = writer.trigger(processingTime=f"{round(query.every_s * 1000)} milliseconds")
        context = self._session.sparkContext._jsc.sc()
        # The query's thread takes over what this one has.
        self._pools.enter(context, query.name, self._in_turn)
        try:
            if query.sink is None:
                writer = writer.format("cec").options(**query.write_options)
                return RunningQuery(writer.start(_spark_name(query.writes)))
            return RunningQuery(_into(writer, query.name, query.sink).start())
        finally:
            self._pools.leave(context)

    def _read(self, source: Source) -> Any:
        reader = self._session.readStream.format(source.format)
        if source.format == "kafka":
            reader = reader.option("startingOffsets", "earliest")
        if source.schema:
            reader = reader.schema(source.schema)
        return reader.options(**source.options).load()


def _into(writer: Any, query: str, sink: Sink) -> Any:
    """Return Spark's writer of a stream, with what the sink says."""
    if sink.foreach_batch is not None:
        return writer.options(**sink.options).foreachBatch(imported(query, sink.foreach_batch))
    return writer.format(sink.format).options(**sink.options)
