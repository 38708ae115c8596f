"""Spark as a fleet's driver sees it, without Spark: queries that do what the test says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cec_store.connectors.spark.fleet.declaration import Query
from cec_store.connectors.spark.fleet.driver import FleetDriver
from cec_store.connectors.spark.fleet.fleet import Fleet
from cec_store.connectors.spark.fleet.running import Seen
from cec_store.errors import Fenced
from cec_store.recovery_plans.density import best_density


@dataclass
class LeaseDouble:
    is_held: bool = True
    is_fenced: bool = False
    is_silent: bool = False
    """It was held by one that has failed."""

    def check(self) -> None:
        if self.is_fenced:
            raise Fenced("another driver has taken over")

    def release(self) -> None:
        self.is_held = False

    def abandon(self) -> None:
        self.is_held, self.is_silent = False, True


@dataclass
class SourceDouble:
    description: str
    numInputRows: int = 10  # noqa: N815
    metrics: dict[str, str] = field(default_factory=lambda: {"recordsBehindLatest": "0"})
    startOffset: str = "null"  # noqa: N815
    endOffset: str = "null"  # noqa: N815
    latestOffset: str | None = None  # noqa: N815


@dataclass
class ProgressDouble:
    batchId: int  # noqa: N815
    sources: list[SourceDouble]
    durationMs: dict[str, int] = field(default_factory=lambda: {"addBatch": 1})  # noqa: N815


@dataclass
class QueryDouble:
    name: str
    run_id: str
    reads: tuple[str, ...]
    checkpoint: str
    outer: tuple[SourceDouble, ...] = ()
    """Sources that are no queues, as Spark tells of them."""
    seen: Seen = field(default_factory=lambda: Seen(True))
    is_stopped: bool = False

    def look(self) -> Seen:
        return self.seen

    def stop(self) -> None:
        self.is_stopped = True
        self.seen = Seen(False)

    def fail(self, reason: str) -> None:
        self.seen = Seen(False, reason, self.seen.progress)

    def does(self, batch: int) -> None:
        sources = [SourceDouble(f"cec[{queue}]") for queue in self.reads] + [*self.outer]
        self.seen = Seen(True, "", ProgressDouble(batch, sources))

    def idles(self, next_batch: int) -> None:
        """Spark tells of the batch that it would run next."""
        sources = [SourceDouble(f"cec[{queue}]", 0) for queue in self.reads]
        self.seen = Seen(True, "", ProgressDouble(next_batch, sources, {"latestOffset": 1}))


class EngineDouble:
    def __init__(self, executors: int) -> None:
        self.there = {str(number): 1.0 for number in range(executors)}
        self.is_dynamic = False
        self.lease = LeaseDouble()
        self.on_entering: Callable[[], None] = lambda: None
        """What whoever held the lease does before it is held here."""
        self.discarded: list[str] = []
        """Checkpoints that nobody else writes from here on."""
        self.queries: dict[str, QueryDouble] = {}
        """By name, those that run."""
        self.started: list[str] = []
        self.arranged: list[str] = []
        """In which order queries that are behind get what the others leave."""
        self.on_purpose: set[str] = set()
        """Ids of executors that were taken away on purpose."""
        self.requested: list[int] = []
        self.shipped: list[Any] = []
        """Functions of which executors get the code."""
        self.functions: dict[str, tuple[Any, ...]] = {}
        """By name, those with which it was started."""
        self.refuses: dict[str, str] = {}
        """Reasons by name."""
        self.cpu_s: dict[str, float] = {}
        """By name: what the next call of `spent` tells."""
        self._runs = 0

    def enter(self, folder: str, storage_options: Any) -> Any:
        self.on_entering()
        return self.lease

    def discard_unfinished(self, checkpoints: Sequence[str]) -> None:
        self.discarded = list(checkpoints)

    def executors(self) -> dict[str, float]:
        return dict(self.there)

    def taken_away(self, gone: Collection[str]) -> frozenset[str]:
        return frozenset(self.on_purpose & set(gone))

    def request(self, executors: int) -> str:
        self.requested.append(executors)
        return ""

    def take_away(self, *numbers: int) -> None:
        self.lose(*numbers)
        self.on_purpose |= set(map(str, numbers))

    def lose(self, *numbers: int) -> None:
        for number in numbers:
            del self.there[str(number)]

    def come(self, *names: str) -> None:
        self.there |= dict.fromkeys(names, 1.0)

    def spent(self) -> dict[str, float]:
        told, self.cpu_s = self.cpu_s, {}
        return {self.queries[name].run_id: each for name, each in told.items()}

    def arrange(self, order: Sequence[str]) -> None:
        self.arranged = list(order)

    def ship(self, functions: Iterable[Any]) -> None:
        self.shipped += functions

    def start(self, query: Query, checkpoint: str) -> QueryDouble:
        self.started.append(query.name)
        self.functions[query.name] = query.functions
        if query.name in self.refuses:
            raise RuntimeError(self.refuses[query.name])
        self._runs += 1
        made = QueryDouble(query.name, f"run {self._runs}", query.reads, checkpoint)
        self.queries[query.name] = made
        return made

    def running(self) -> set[str]:
        return {name for name, each in self.queries.items() if each.seen.is_active}


def driver_of(
    fleet: Fleet, engine: EngineDouble, now_s: float, *, accept: bool = False
) -> FleetDriver:
    """A driver that has not begun: the test looks for it."""
    graph = fleet.checked()
    noted = partial(fleet.noted, graph, accept=accept)
    return FleetDriver(engine, fleet.folder, noted, best_density, now_s=now_s)
