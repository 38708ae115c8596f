"""Declaration of a fleet: queries that read and write queues, and their graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from cec_store.connectors.spark.fleet.functions import Function, check_function, place_of
from cec_store.connectors.spark.fleet.outer import (
    FILES,
    Sink,
    Source,
    place_in,
    why_not_replayable,
)
from cec_store.errors import BadFleet
from cec_store.recovery_plans.topology import Operator, Topology
from cec_store.storage.stores.by_url import name_of

PRIORITIES = range(1, 11)
"""The paper's section 2.3: whole numbers from 1 to 10."""
OUTPUT_MODES = ("append", "update", "complete")
# Schemes of one store: here the Hadoop names, by which Spark most often has it.
_SAME_STORE = {"s3": "s3a", "gcs": "gs", "abfs": "abfss"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Query:
    """One query of a fleet.

    Raises:
        BadFleet: a name, a priority or another value that is not allowed.
    """

    name: str
    function: Function | str
    """Function of a DataFrame for each queue and then each source that is read, in that order, or
    where it is: ``"module:name"``; returns what is written."""
    reads: tuple[str, ...]
    """Queues, by path or URL."""
    writes: str
    """Queue, by path or URL; empty where it has a sink."""
    priority: int | None = None
    """Priority of its output, for queries whose output people wait for; 1 by default where no
    query of the fleet reads it."""
    output_mode: str = "append"
    every_s: float = 0.0
    """Between the starts of two batches; 0: one after the other."""
    cost: float | None = None
    """Cores that it keeps busy; measured unless it is given."""
    read_options: Mapping[str, str] = field(default_factory=dict)
    write_options: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    """Outer inputs, which are no queues."""
    sink: Sink | None = None
    """Outer output, in place of a queue."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise BadFleet(
                f"{self.name!r} is no name of a query: 1 to 100 of A-Z a-z 0-9 . _ -, and the "
                "first a letter or a digit"
            )
        self._check_edges()
        if self.priority is not None and (
            type(self.priority) is not int or self.priority not in PRIORITIES
        ):
            raise BadFleet(
                f"{self.name}: priority {self.priority!r}; give a whole number from "
                f"{PRIORITIES[0]} to {PRIORITIES[-1]}"
            )
        if self.output_mode not in OUTPUT_MODES:
            raise BadFleet(
                f"{self.name}: output mode {self.output_mode!r}; one of {', '.join(OUTPUT_MODES)}"
            )
        if not _is_amount(self.every_s):
            raise BadFleet(f"{self.name}: every_s={self.every_s!r}; seconds, 0 or more")
        if self.cost is not None and not _is_amount(self.cost):
            raise BadFleet(f"{self.name}: cost {self.cost!r}; cores that it keeps busy, 0 or more")
        check_function(self.name, "function", self.function)

    def _check_edges(self) -> None:
        if not self.reads and not self.sources:
            raise BadFleet(f"{self.name}: reads no queue, and no source")
        if bool(self.writes) == (self.sink is not None):
            raise BadFleet(
                f"{self.name}: writes a queue (writes) or what is none (sink), one of them"
            )
        if self.sink is not None and self.write_options:
            raise BadFleet(f"{self.name}: write_options are of a queue; give them to its sink")
        for source in self.sources:
            if why := why_not_replayable(source):
                raise BadFleet(
                    f"{self.name}: its source {source.name} cannot be replayed: {why}. After a "
                    "failure or a rollback its rows would be lost; have something that keeps them "
                    "take them in, such as a queue or Kafka, and read that"
                )

    @property
    def place(self) -> str | None:
        """Return "module:name" of its function, for another process; ``None`` if it has none."""
        return place_of(self.function)

    @property
    def functions(self) -> tuple[Function | str, ...]:
        """Return its function, and that of its sink where it has one."""
        called = None if self.sink is None else self.sink.foreach_batch
        return (self.function,) if called is None else (self.function, called)

    def having(self, function: Function, called: Function | None = None) -> Query:
        """Return the query with other functions, as :attr:`functions` has them."""
        sink = self.sink
        if sink is not None and called is not None:
            sink = replace(sink, foreach_batch=called)
        return replace(self, function=function, sink=sink)


def _is_amount(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < float("inf")  # type: ignore[operator]


def absolute_path(path: str) -> str:
    """Return the queue's name in a fleet's notes: an absolute path, or the URL with its scheme.

    Raises:
        BadFleet: it is no path or URL.
    """
    try:
        return name_of(path)
    except ValueError as error:
        raise BadFleet(str(error)) from error


def queue_path(path: str) -> str:
    """Return the one name by which a queue is known, however it is given.

    Raises:
        BadFleet: it is no path or URL.
    """
    name = absolute_path(path)
    scheme, separator, rest = name.partition("://")
    return _SAME_STORE.get(scheme, scheme) + separator + rest if separator else name


@dataclass(frozen=True)
class Graph:
    """Queries by name, each after all of which it reads the output; `of` makes one."""

    queries: Mapping[str, Query]
    writers: Mapping[str, str]
    """Name of the query that writes a queue, by queue."""

    @classmethod
    def of(cls, queries: Iterable[Query]) -> Graph:
        """Make a graph of queries in any order.

        Raises:
            BadFleet: none, a name given twice, a queue with two writers, a cycle, or queries that
                are joined by what is no queue.
        """
        named: dict[str, Query] = {}
        writers: dict[str, str] = {}
        for query in queries:
            if query.name in named:
                raise BadFleet(f"two queries are called {query.name}")
            named[query.name] = query
            if query.sink is not None:
                continue
            queue = queue_path(query.writes)
            if (other := writers.setdefault(queue, query.name)) != query.name:
                raise BadFleet(
                    f"{other} and {query.name} both write {queue}: a queue of a fleet has one "
                    "writer"
                )
        if not named:
            raise BadFleet("the fleet has no query")
        _check_outer_places(named.values())
        before = {
            name: [writers[queue] for queue in map(queue_path, query.reads) if queue in writers]
            for name, query in named.items()
        }
        try:
            order = list(TopologicalSorter(before).static_order())
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            raise BadFleet(f"queries read each other's output in a circle: {circle}") from None
        return cls({name: named[name] for name in order}, writers)

    def reads(self, name: str) -> tuple[str, ...]:
        """The queues of a query, as :func:`queue_path` has them."""
        return tuple(map(queue_path, self.queries[name].reads))

    def upstream(self, name: str) -> tuple[str, ...]:
        """Return the names of the queries whose output a query reads, each once."""
        writers = (self.writers.get(queue) for queue in self.reads(name))
        return tuple(dict.fromkeys(writer for writer in writers if writer is not None))

    @cached_property
    def read_queues(self) -> tuple[str, ...]:
        """Each queue that a query reads, once."""
        return tuple(dict.fromkeys(queue for name in self.queries for queue in self.reads(name)))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Queues that are read, and that nobody in the fleet writes."""
        return tuple(queue for queue in self.read_queues if queue not in self.writers)

    def topology(self, costs: Mapping[str, float]) -> Topology:
        """Return the topology for plans: a partition for each query; an unknown cost is 0."""
        return Topology.of(
            Operator(
                name,
                (costs.get(name, 0.0),),
                self.upstream(name),
                () if query.priority is None else (float(query.priority),),
            )
            for name, query in self.queries.items()
        )


def _check_outer_places(queries: Iterable[Query]) -> None:
    """Raises :class:`BadFleet` where two queries meet at an outer place, unseen by every plan."""
    writers: dict[tuple[str, str], str] = {}
    for query in queries:
        if query.sink is None or query.sink.foreach_batch is not None:
            continue
        place = place_in(query.sink.format, query.sink.options)
        if place is None:
            continue
        other = writers.setdefault(place, query.name)
        if other != query.name and query.sink.format in FILES:
            raise BadFleet(
                f"{other} and {query.name} both write files in {place[1]}: Spark drops batches of "
                "one whose numbers the other has had; give each a path of its own"
            )
    for query in queries:
        for source in query.sources:
            place = place_in(source.format, source.options)
            if place is not None and place in writers:
                raise BadFleet(
                    f"{query.name} reads {source.name}, which {writers[place]} writes: a plan and "
                    "a global checkpoint know queues only; join them by one"
                )
