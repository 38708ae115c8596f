"""A collector for Prometheus: it reads when it is asked, and costs nothing in between."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cec_store.connectors.spark.fleet.fleet_folder import FleetFolder
from cec_store.errors import CecError
from cec_store.operators.runner import Runner
from cec_store.signals.figures import (
    METRICS,
    Figure,
    fleet_figures,
    nodes_figures,
    runner_figures,
    standby_figures,
)
from cec_store.standby.leases import leases_of
from cec_store.standby.standby import Standby
from cec_store.storage.paths import AnyPath
from cec_store.storage.stores.folders import StorageOptions

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_FAILURES = "cec_scrape_failures"
_log = logging.getLogger(__name__)


class Signals:
    """Figures of runners, standbys and fleets, each under a name of your choice.

    A collector of `prometheus_client`: register it with a registry that you serve already, or let
    :meth:`serve` do so. What cannot be read is logged, counted in ``cec_scrape_failures_total`` and
    left out. Any thread may add and collect.

    Raises:
        ModuleNotFoundError: without prometheus-client, which is the extra ``metrics``.
    """

    def __init__(self) -> None:
        try:
            import prometheus_client  # noqa: F401
        except ModuleNotFoundError as error:
            advice = "pip install 'cec-store[metrics]'"
            raise ModuleNotFoundError(f"signals need prometheus-client: {advice}") from error
        self._read: dict[str, Callable[[], Iterator[Figure]]] = {}
        self._failures: dict[str, int] = {}

    def add_runner(self, name: str, runner: Runner) -> None:
        """Tell of an operator's runner, its queue and the queue's consumers."""
        self._add(name, lambda: runner_figures(runner))

    def add_standby(self, name: str, standby: Standby) -> None:
        """Tell of a standby; of the runner that it leaves :meth:`add_runner` does."""
        self._add(name, lambda: standby_figures(standby))

    def add_nodes(
        self,
        name: str,
        place: AnyPath,
        lease: str = "primary",
        storage_options: StorageOptions | None = None,
    ) -> None:
        """Tell of the nodes of a queue, or of the standbys of a Spark checkpoint (``"driver"``).

        Any process may do so. Each look takes a few of their periods. ``storage_options``: of its
        fsspec file system, where it is a URL, as pandas takes them.
        """
        leases = leases_of(place, storage_options)
        leases.objects(lease)  # refuses what is no name
        self._add(name, lambda: nodes_figures(leases, lease))

    def add_fleet(
        self, name: str, folder: AnyPath, storage_options: StorageOptions | None = None
    ) -> None:
        """Tell of a fleet by its folder, which any process may do.

        A look waits for a sign of life of the fleet's driver, for 6 seconds at most.

        ``storage_options``: of its fsspec file system, where it is a URL, as pandas takes them.
        """
        fleet = FleetFolder(folder, storage_options)
        self._add(name, lambda: fleet_figures(fleet))

    def _add(self, name: str, read: Callable[[], Iterator[Figure]]) -> None:
        self._read = {**self._read, name: read}

    def remove(self, name: str) -> None:
        """Tell of it no more; a name that is not there is none too many."""
        self._read = {other: read for other, read in self._read.items() if other != name}

    def serve(self, port: int, address: str = "127.0.0.1") -> Callable[[], None]:
        """Answer Prometheus at ``http://address:port/metrics``; returns what ends it.

        Raises:
            OSError: the port is taken.
        """
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        registry.register(self)
        server, thread = start_http_server(port, address, registry)

        def end() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return end

    def describe(self) -> list[Metric]:
        """Nothing: the registry needs no look before the first one that is asked for."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; `prometheus_client` calls this."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {
            metric: (CounterMetricFamily if about.is_counter else GaugeMetricFamily)(
                metric, about.meaning, labels=["name", *about.labels]
            )
            for metric, about in METRICS.items()
        }
        for name, read in self._read.items():
            for figure in self._figures(name, read):
                families[figure.metric].add_metric([name, *figure.labels], figure.value)
        failures = CounterMetricFamily(_FAILURES, "looks that failed", labels=["name"])
        for name in self._read:
            failures.add_metric([name], self._failures.get(name, 0))
        yield from families.values()
        yield failures

    def _figures(self, name: str, read: Callable[[], Iterator[Figure]]) -> list[Figure]:
        """All or none of what there is to be told of one name."""
        try:
            return list(read())
        except (CecError, OSError) as error:
            self._failures[name] = self._failures.get(name, 0) + 1
            _log.warning("%s cannot be looked at: %s", name, error)
            return []
