"""A listener of a Spark session: it serves gauges to Prometheus and keeps progress files."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any

from cec_store.connectors.spark.executors.loads import is_of_batch
from cec_store.connectors.spark.progress.history import Stretch, bounded
from cec_store.connectors.spark.progress.progress_file import ProgressFile
from cec_store.connectors.spark.progress.reported import GAUGES, gauges_of, stretch_of
from cec_store.errors import CecError

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

_FLUSH_S = 10.0
_log = logging.getLogger(__name__)


class _Query:
    """One run of a query."""

    def __init__(self, name: str, checkpoint: str | None) -> None:
        self.name = name
        self.progress: Any = None
        self._file: ProgressFile | None = None
        self._stretches: list[Stretch] = []
        self._flushed_s: float | None = None
        self._is_due = False
        self._has_warned = False
        self._checkpoint = checkpoint

    def begin(self) -> None:
        """Read the history, once there is a first batch of this run.

        Spark says that a run has started before it says that the one before it has ended, and that
        one may write until then.
        """
        checkpoint, self._checkpoint = self._checkpoint, None
        if checkpoint is None:
            return
        try:
            self._file = ProgressFile(checkpoint)
            self._stretches = self._file.read()
        except (CecError, OSError, ValueError) as error:
            self._warn(error)

    def take(self, progress: Any, now_s: float) -> None:
        """Take in a batch; what the file lacks by now is for :meth:`flush_if_due`."""
        self.progress = progress
        if self._file is not None:
            self._stretches = bounded([*self._stretches, stretch_of(progress)])
            self._is_due = self._flushed_s is None or now_s - self._flushed_s >= _FLUSH_S
            if self._is_due:
                self._flushed_s = now_s

    def flush_if_due(self) -> None:
        if self._is_due:
            self.flush()

    def flush(self) -> None:
        if self._file is None or self.progress is None:
            return
        try:
            self._file.write(self._stretches)
        except (CecError, OSError, ValueError) as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        """Say once that the history is not kept, or not whole; the query does not need it."""
        if not self._has_warned:
            _log.warning("the progress of %s is not kept: %s", self.name, error)
            self._has_warned = True


class QueryProgress:
    """Progress of the queries of a session, until :meth:`stop`.

    Made by :func:`cec_store.connectors.spark.prometheus`. A collector of `prometheus_client`, so
    that a registry which is served already can take it. Any thread may call it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._events = Lock()
        """Held while an event is taken in and its file is written, and before the other lock."""
        self._lock = Lock()
        """Guards what a scrape reads, which must not wait for a slow store."""
        self._queries: dict[str, _Query] = {}
        self._ends: list[Callable[[], object]] = []

    def started(self, run: str, name: str, checkpoint: str | None) -> None:
        """Take note of a query that has started; without a checkpoint no file is kept."""
        query = _Query(name, checkpoint)
        with self._lock:
            self._queries[run] = query

    def progressed(self, run: str, name: str, progress: Any) -> None:
        """Take in what Spark reports of a batch; of a trigger without a batch nothing."""
        if not is_of_batch(progress):
            return
        with self._events:
            with self._lock:
                query = self._queries.setdefault(run, _Query(name, None))
            query.begin()
            with self._lock:
                query.take(progress, self._clock())
            query.flush_if_due()

    def ended(self, run: str) -> None:
        """Forget a query: its gauges go, its progress file stays."""
        with self._events:
            with self._lock:
                query = self._queries.pop(run, None)
            if query is not None:
                query.flush()

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: the registry needs no look before the first one that is asked for."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of the queries that run; `prometheus_client` calls this."""
        from prometheus_client.core import GaugeMetricFamily

        families = {
            name: GaugeMetricFamily(name, about.meaning, labels=["query", *about.labels])
            for name, about in GAUGES.items()
        }
        with self._lock:
            # Of two runs under one name, as around a restart, the newer one counts.
            newest = {query.name: query.progress for query in self._queries.values()}
        for name, progress in newest.items():
            for value in () if progress is None else gauges_of(progress):
                families[value.gauge].add_metric([name, *value.labels], value.value)
        yield from families.values()

    def serve(self, port: int, address: str) -> None:
        """Answer Prometheus at ``http://address:port/metrics`` until :meth:`stop`.

        Raises:
            OSError: the port is taken.
        """
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        registry.register(self)
        server, thread = start_http_server(port, address, registry)
        self._ends += [server.shutdown, server.server_close, thread.join]

    def stop(self) -> None:
        """End the endpoint and the listener, and write what is not in the progress files yet."""
        ends, self._ends = self._ends, []
        for end in ends:
            end()
        with self._events, self._lock:
            runs = list(self._queries)
        for run in runs:
            self.ended(run)

    def __enter__(self) -> QueryProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def prometheus(
    session: Any, port: int | None = 9108, address: str = "127.0.0.1", *, progress_file: bool = True
) -> QueryProgress:
    """Tell Prometheus of the queries that a session starts, at ``http://address:port/metrics``.

    Gauges of a query go when it ends. A bounded history of its batches is kept in ``progress/`` of
    its checkpoint, from which `cec-store report` shows time series; a warning says once if it
    cannot be written, and the query goes on.

    Args:
        session: A ``SparkSession``; call this before its queries start.
        port: ``None`` serves nothing: the history alone, or a registry of your own.
        address: By default this machine alone may ask.
        progress_file: False keeps no history.

    Raises:
        ModuleNotFoundError: without prometheus-client, which is the extra ``metrics``.
        OSError: the port is taken.

    Examples:
        >>> with spark.prometheus(session, port=None) as progress:
        ...     [family.name for family in progress.collect()][:2]
        ['cec_state', 'cec_query_batch']
    """
    queries = QueryProgress()
    if port is not None:
        try:
            queries.serve(port, address)
        except ModuleNotFoundError as error:
            advice = "pip install 'cec-store[metrics]'"
            raise ModuleNotFoundError(f"gauges need prometheus-client: {advice}") from error
    listener = _listener(session, queries, progress_file)
    session.streams.addListener(listener)
    queries._ends.append(lambda: session.streams.removeListener(listener))
    return queries


def _listener(session: Any, queries: QueryProgress, has_file: bool) -> Any:
    # Takes a while to import.
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # a name of Spark
            checkpoint = _checkpoint_of(session, str(event.id)) if has_file else None
            queries.started(str(event.runId), event.name or str(event.id), checkpoint)

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # a name of Spark
            progress = event.progress
            name = progress.name or str(progress.id)
            queries.progressed(str(progress.runId), name, progress)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802  # a name of Spark
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # a name of Spark
            queries.ended(str(event.runId))

    return Listener()


def _checkpoint_of(session: Any, query_id: str) -> str | None:
    """Return the path or URL of a query's checkpoint; ``None`` if this session cannot tell."""
    if not hasattr(session, "_jsparkSession"):
        _log.warning("a client of Spark Connect is not told where checkpoints are: no history")
        return None
    query = session._jsparkSession.streams().get(query_id)
    if query is None:
        return None
    root = str(query.streamingQuery().resolvedCheckpointRoot())
    # Hadoop writes local paths as file:/a/b.
    return "/" + root.removeprefix("file:").lstrip("/") if root.startswith("file:") else root
